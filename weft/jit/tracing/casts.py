"""Traces of what autocast does: the casts of operands are recorded, so that the program says them where there is no
autocast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.jit.script.frontend.functions import overloads
from weft.jit.tracing.values import plain
from weft.layers.autocast import CastLayer, cast_operands, precision_of
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.overrides import DisableWeftFunction
from weft.tensor.autocast import Autocast, now, within
from weft.tensor.modes import modes

if TYPE_CHECKING:
    from weft.jit.tracing.recorder import Recorder

_NOT_CAST = frozenset({"__getitem__", "__setitem__"})  # what says where, and computes nothing


def is_casting() -> bool:
    """Whether autocast is on."""
    return now().is_enabled


def has_operators(path: str) -> bool:
    """Whether a function of weft's computes by operators alone: one of the catalogue, or of nn.functional."""
    space, _, name = path.rpartition(".")
    if name in _NOT_CAST:
        return False
    base = name.strip("_")
    if name == f"{base}_" and not any(op.inplace for op in overloads(f"aten::{base}")):
        return space == "weft.nn.functional"  # (`t_` and its kin change a tensor's sizes, and compute nothing)
    names = (name, base, base.lstrip("r"), f"{space.rpartition('.')[2]}_{name}")
    return space == "weft.nn.functional" or any(overloads(f"aten::{n}") for n in names)


class _Watched(CastLayer):
    """Autocast that notes whether some operator names a precision."""

    casts = False

    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The operator's value."""
        self.casts = self.casts or bool(precision_of(op, args))
        return super().intercept(op, args)


def _tried(recorder: Recorder, op: Op, args: tuple[Any, ...]) -> tuple[Any, bool]:
    """What a composite gives on the example, and whether operators that it is made of name a precision. One without
    such is recorded whole: opened, it would ask for sizes."""
    watched, special = _Watched(now().dtype), modes.special
    with DisableWeftFunction(), recorder.ctx.pause():
        modes.special = (*(special or ())[:-1], watched)
        try:
            return call(op, plain(args)), watched.casts
        finally:
            modes.special = special


def recorded_in_autocast(recorder: Recorder, op: Op, args: tuple[Any, ...]) -> Any:
    """A call of an operator with the casts of its operands, or of what a composite is made of, each recorded."""
    record = recorder.operator
    state = now()
    precision = precision_of(op, args)
    if not precision and op.opens_above_autograd:
        result, casts = _tried(recorder, op, args)
        if not casts:
            with within(Autocast(False, state.dtype)):
                return recorder.operator(op, args, result)
        with recorder.opening():
            return op.decompose(*args)  # type: ignore[misc]
    operands = args
    with within(Autocast(False, state.dtype)):
        if precision:
            cast = aten._to_copy.default.op
            operands = cast_operands(args, precision, state.dtype, lambda value, to: record(cast, (value, to)))
        return record(op, operands)
