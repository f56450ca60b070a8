"""Planned calls on tensors (ops/planned.py): tensors in, tensors out, no history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.op import Op
from weft.ops.planned import NOT_PLANNED as NOT_PLANNED
from weft.ops.planned import Table, Wrap, table_of, table_of_rule
from weft.runtime.storage import root_of
from weft.tensor.tensor import Tensor


def around(array: Any) -> Tensor:
    """A tensor around an array, without history."""
    out = Tensor.__new__(Tensor)
    out._data = array
    out._storage = out._autograd = out._view = None
    return out


def showing(array: Any, shown: Tensor) -> Tensor:
    """Idem, in the storage of the dense tensor that the array shows (some layouts are copied)."""
    out = around(array)
    if root_of(array) is root_of(shown._data):
        out._storage = shown.storage()
    return out


WRAP = Wrap(
    ("t = new(Tensor)", "t._data = out", "t._storage = t._autograd = t._view = None", "return t"),
    ("return plan.build(args, out, wrap, show)",),
    (("new", Tensor.__new__), ("Tensor", Tensor), ("wrap", around), ("show", showing)),
)
WRITTEN = Wrap(("return None",))
_TABLES: dict[tuple[Any, ...], Table] = {}


def run(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator's value, or NOT_PLANNED."""
    return table(op, tuple(map(type, args))).run(args)


def table(op: Op, kinds: tuple[type, ...], store: Callable[..., Any] | None = None) -> Table:
    """The plans of an operator for arguments of these classes. store: for calls that write into their first argument,
    see Table."""
    plans = _TABLES.get((op, kinds, store))
    if plans is None:
        plans = _TABLES[op, kinds, store] = table_of(op, kinds, WRAP if store is None else WRITTEN, store)
    return plans


class Formula:
    """The plans of `rule(*args)` on tensors. `run(args)` gives its results, or NOT_PLANNED. Where the rule gives an
    argument back, so do they; views of the first arguments, the gradients, share their storage.

    `run` is the lookup for classes of arguments as in the latest call, which hands others to `find`.
    owner: what it is known by, the formulas' entry, which arguments want a gradient, and how many there are.
    """

    def __init__(self, owner: tuple[Any, tuple[bool, ...], int], rule: Callable[..., Any]) -> None:
        self.owner, self.rule, self.needs, self.gradients = owner, rule, owner[1], owner[2]
        self.tables: dict[tuple[type, ...], Table] = {}
        self.run: Callable[[tuple[Any, ...]], Any] = self.find

    def find(self, args: tuple[Any, ...]) -> Any:
        """run() for arguments of any classes."""
        kinds = tuple(map(type, args))
        table = self.tables.get(kinds)
        if table is None:
            classes = {f"class{i}": kind for i, kind in enumerate(kinds)}
            others = " or ".join(f"type(x{i}) is not class{i}" for i in range(len(kinds)))
            names = (*WRAP.names, *classes.items(), ("find", self.find))
            wrap = WRAP._replace(names=names, start=(f"if {others}: return find(args)",))
            new_table = table_of_rule(self.owner, self.rule, kinds, wrap, self.gradients)
            table = self.tables.setdefault(kinds, new_table)
        if table.can_plan:
            self.run = table.run
        return table.run(args)
