"""Traces of what autocast does: the casts of operands are recorded, so that the program says them where there is no
autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.jit.script.frontend.functions import overloads
from weft.layers.autocast import cast_operands, precision_of
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.tensor.autocast import Autocast, now, within

_NOT_CAST = frozenset({"__getitem__", "__setitem__"})  # what says where, and computes nothing


def is_casting() -> bool:
    """Whether autocast is on."""
    return now().is_enabled


def has_operators(path: str) -> bool:
    """Whether a function of weft's computes by operators alone: one of the catalogue, or of nn.functional."""
    space, _, name = path.rpartition(".")
    if name in _NOT_CAST:
        return False
    plain = name.strip("_")
    if name == f"{plain}_" and not any(op.inplace for op in overloads(f"aten::{plain}")):
        return space == "weft.nn.functional"  # (`t_` and its kin change a tensor's sizes, and compute nothing)
    return space == "weft.nn.functional" or any(overloads(f"aten::{n}") for n in (name, plain, plain.lstrip("r")))


def recorded_in_autocast(record: Callable[[Op, Any], Any], op: Op, args: tuple[Any, ...]) -> Any:
    """A call of an operator with the casts of its operands, or of what a composite is made of, each recorded."""
    state = now()
    precision = precision_of(op, args)
    if not precision and op.opens_above_autograd:
        return op.decompose(*args)  # type: ignore[misc]
    operands = args
    with within(Autocast(False, state.dtype)):
        if precision:
            cast = aten._to_copy.default.op
            operands = cast_operands(args, precision, state.dtype, lambda value, to: record(cast, (value, to)))
        return record(op, operands)
