"""Operators with a number among their arguments that only the run knows, where no overload takes a tensor in its place:
`y.add_(x, alpha=i)`, `full([n], i)`. The entry's own body says what they are, as operators on tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.jit.interpreter.recording.values import NotRecorded, RunTime, number_tensor
from weft.ops.compute import is_default
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType
from weft.types.tensor_type import BOOL, INT

_FILL = "fill_value"
_NAMES = {f"bit_{n}": f"bitwise_{n}" for n in ("and", "or", "xor", "not")}  # where operators are called otherwise


class _Tensors:
    """The operations of bodies (ops/scalar.py) as operators on tensors."""

    def const(self, value: Any, dtype: DType) -> Tensor:
        """A number as a 0-dim tensor."""
        return number_tensor(value, dtype)

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """The same in another dtype."""
        return x if x.dtype is dtype else x.to(dtype)

    def dtype(self, x: Tensor) -> DType:
        """The dtype that it is computed in."""
        return x.dtype

    def where(self, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Refused where gradients flow: of what is not chosen they may be nan, which the entry's own formula knows."""
        if x.requires_grad or y.requires_grad:
            raise NotRecorded("the gradient of an operator with a number that is only known when the program runs")
        chosen: Tensor = aten.where(condition, x, y)
        return chosen

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        try:
            return getattr(aten, _NAMES.get(name, name))  # type: ignore[no-any-return]
        except AttributeError:
            raise NotRecorded(f"{name} of a number that is only known when the program runs") from None


def with_tensors(op: Op, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """What an operator gives for arguments of which some are RunTime. Raises NotRecorded."""
    names = [a.name for a, v in zip(op.schema.arguments, args, strict=True) if type(v) is RunTime]
    if names == [_FILL]:
        at = next(i for i, v in enumerate(args) if type(v) is RunTime)
        number = args[at]
        nothing = False if number.kind is BOOL else 0 if number.kind is INT else 0.0
        filled = function(*args[:at], nothing, *args[at + 1 :])
        return aten.fill(filled, number_tensor(number, filled.dtype))
    pure = op.writes or op
    if pure.scalar is None or not isinstance(pure.type, Pointwise):
        raise NotRecorded(f"{op.name} takes a number that is only known when the program runs; pass a tensor")
    computed = _body(pure, pure.type, args)
    return computed if op.writes is None else args[0].copy_(computed)


def _body(op: Op, rule: Pointwise, args: Sequence[Any]) -> Tensor:
    types = tuple([v.kind if type(v) is RunTime else v._data.type if isinstance(v, Tensor) else v for v in args])
    rule(*types)
    wide, tensors, operands = rule.compute_dtype(types), _Tensors(), []
    for argument, value in zip(op.schema.arguments, args, strict=True):
        if value is None or argument.kind not in ("Tensor", "Scalar"):
            operands.append(value)
        elif argument.kind == "Scalar" and is_default(value, argument.default):
            operands.append(None)
        elif argument.name in rule.keep:
            operands.append(value)
        else:
            operands.append(tensors.cast(value, wide) if isinstance(value, Tensor) else tensors.const(value, wide))
    assert op.scalar is not None
    return tensors.cast(op.scalar(tensors, *operands), rule.result_dtype(types))
