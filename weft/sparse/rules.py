"""Rules: what operators do to sparse tensors, by their names; each is written with ordinary operators.

A rule gets the arguments of the bound call, in schema order. What has none is opened if it is made of other operators;
a pointwise operator of one tensor for which 0 stays 0 runs on the values; all else is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from weft.ops import compute
from weft.ops.op import Op
from weft.ops.route import call
from weft.sparse.history import coalesced_parts, make, values_of
from weft.sparse.tensor import SparseTensor, refusal
from weft.support.errors import WeftError
from weft.tensor.wrapper import rewrapped
from weft.types.dtype import DType

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[R], R]:
    """Declare what operators of these names do where an argument is sparse."""

    def declare(function: R) -> R:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declare


def open_operator(op: Op, args: tuple[Any, ...]) -> Any:
    """The value of an operator with a sparse argument. Raises Unsupported for one without a meaning for it."""
    args = tuple([_whole(a) for a in args])
    meaning = RULES.get(op.base)
    if meaning is not None:
        return meaning(*args)
    if op.decompose is not None:
        return op.decompose(*args)
    if is_pointwise(op) and keeps_zero(op, args):
        return on_values(op, args)
    raise refusal(op.name.removeprefix("aten::"), first_sparse(args))


def _whole(value: Any) -> Any:
    return tuple([rewrapped(v) for v in value]) if type(value) is tuple else rewrapped(value)


def first_sparse(args: tuple[Any, ...]) -> SparseTensor:
    """The first sparse tensor among arguments."""
    for a in args:
        for v in a if isinstance(a, tuple) else (a,):
            if isinstance(v, SparseTensor):
                return v
    raise AssertionError("no argument is sparse")


# ---- pointwise operators of one tensor
def is_pointwise(op: Op) -> bool:
    """Whether each element of the result hangs on one element of the only tensor."""
    return op.scalar is not None and op.tensor_positions == (0,) and not op.tensor_list_positions


_KEPT: dict[tuple[Any, ...], bool] = {}


def keeps_zero(op: Op, args: tuple[Any, ...]) -> bool:
    """Whether the operator's value at 0 is 0, with these other arguments."""
    dtype: DType = args[0].dtype
    try:
        key = (op, dtype, args[1:])
        is_kept = _KEPT.get(key)
    except TypeError:
        return False  # a number of a program, whose value is not is_kept
    if is_kept is None:
        try:
            is_kept = bool((compute.evaluate(op, (np.zeros(1, dtype.numpy), *args[1:])) == 0).all())
        except (WeftError, TypeError):
            is_kept = False
        _KEPT[key] = is_kept
    return is_kept


# what commutes with addition, so that values of one place need not be added first
LINEAR = frozenset(("neg", "_to_copy", "clone", "alias", "conj", "conj_physical", "real", "imag", "positive"))


def on_values(op: Op, args: tuple[Any, ...]) -> SparseTensor:
    """The operator on the values, at the same places."""
    tensor: SparseTensor = args[0]
    pattern, values = tensor._body.pattern, values_of(tensor)
    if op.base not in LINEAR:
        pattern, values = coalesced_parts(pattern, values)
    return make(pattern, call(op, (values, *args[1:])))
