"""Planned calls on tensors (ops/planned.py): tensors in, tensors out, no history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.op import Op
from weft.ops.planned import NOT_PLANNED as NOT_PLANNED
from weft.ops.planned import Table, Wrap, results_of, table_of, table_of_rule
from weft.tensor.tensor import Tensor

WRAP = Wrap(
    ("t = new(Tensor)", "t._data = out", "t._storage = t._autograd = t._view = None", "return t"),
    (("new", Tensor.__new__), ("Tensor", Tensor), ("wrap", Tensor), ("results_of", results_of)),
)
WRITTEN = Wrap(("return None",))
Run = Callable[[tuple[Any, ...]], Any]
_TABLES: dict[tuple[Any, ...], Table] = {}


def run(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator's value, or NOT_PLANNED."""
    return table(op, tuple(map(type, args))).run(args)


def table(op: Op, kinds: tuple[type, ...], store: Callable[..., Any] | None = None) -> Table:
    """The plans of an operator for arguments of these classes. store: for calls that write into their first argument,
    see Table."""
    found = _TABLES.get((op, kinds, store))
    if found is None:
        found = _TABLES[op, kinds, store] = table_of(op, kinds, WRAP if store is None else WRITTEN, store)
    return found


def run_rule(owner: Any, rule: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """`rule(*args)` on tensors, or NOT_PLANNED. Where the rule gives an argument back, so does this."""
    kinds = tuple(map(type, args))
    found = _TABLES.get((owner, kinds))
    if found is None:
        found = _TABLES[owner, kinds] = table_of_rule(owner, rule, kinds, WRAP)
    return found.run(args)
