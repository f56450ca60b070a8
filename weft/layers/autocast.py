"""Autocast: operands of operators are cast to the precision that the operator's entry names, before all other layers
see them. Casts are operators like others: they are differentiated, recorded, deferred and batched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from weft.layers.walk import inplace, opened, walk_layers
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.support.errors import DTypeError
from weft.tensor.autocast import Autocast, cache, within
from weft.tensor.dense import is_dense
from weft.tensor.modes import OnTop, floor, modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType

Args = tuple[Any, ...]
Cast = Callable[[Tensor, DType], Tensor]
F = TypeVar("F", bound=Callable[..., Any])


class CastLayer(OnTop):
    """The interceptor of a block of autocast. dtype: the lower precision."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def intercept(self, op: Op, args: Args) -> Any:
        """The operator's value, on cast operands. A composite that names no precision is opened: those that it is
        made of name theirs."""
        precision = precision_of(op, args)
        if not precision and op.opens_above_autograd:
            return opened(op, args)
        return self._below(_cast_and_walk if precision else walk_layers, op, args, precision, self.dtype)

    def intercept_inplace(self, op: Op, args: Args) -> Any:
        """The in-place operator: what is written stays what it is."""
        return self._below(inplace, op, args)

    def lift(self, value: Any) -> Any:
        """The value."""
        return value

    def _below(self, function: Any, op: Op, args: Args, precision: str = "", dtype: DType | None = None) -> Any:
        stack = modes.special
        modes.special = stack[:-1] or None  # type: ignore[index]
        try:
            return function(op, args, precision, dtype) if precision else function(op, args)
        finally:
            modes.special = stack


def precision_of(op: Op, args: Args) -> str:
    """To what the operands of a call are cast; "" where they are not."""
    return op.precision if isinstance(op.precision, str) else str(op.precision(*args))


def _cast_and_walk(op: Op, args: Args, precision: str, dtype: DType) -> Any:
    return walk_layers(op, cast_operands(args, precision, dtype))


def cast_operands(args: Args, precision: str, dtype: DType, cast: Cast = aten._to_copy) -> Args:
    """The arguments with tensors of floats cast: "lower" to dtype, "float32", or "widest" to what the widest of them
    has. Tensors of float64 stay what they are. cast: who casts one. Raises DTypeError for a mixture that has no widest.
    """
    to = _widest(args, dtype) if precision == "widest" else dt.float32 if precision == "float32" else dtype
    return tuple([_cast(a, to, dtype, cast) for a in args])


def with_precision(precision: str) -> Callable[[F], F]:
    """A decorator for a function of weft's that is one operator to its users, though it is no entry: within autocast
    its arguments are cast, and what it calls is left alone."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def cast_first(*args: Any, **kwargs: Any) -> Any:
            state = modes.autocast
            if state is None or not state.is_enabled:
                return function(*args, **kwargs)
            cast = cast_operands((*args, *kwargs.values()), precision, state.dtype)
            with within(Autocast(False, state.dtype)):
                return function(*cast[: len(args)], **dict(zip(kwargs, cast[len(args) :], strict=True)))

        return cast_first  # type: ignore[return-value]

    return decorate


def is_cast(value: Any) -> bool:
    """Whether autocast casts a value: a tensor of floats, but for float64."""
    return isinstance(value, Tensor) and value.dtype.is_floating_point and value.dtype is not dt.float64


def _cast(value: Any, to: DType, lower: DType, cast: Cast) -> Any:
    if type(value) in (tuple, list):
        return tuple([_cast(v, to, lower, cast) for v in value])
    if not is_cast(value) or value.dtype is to:
        return value
    if to is not lower or not _is_kept(value):
        return cast(value, to)
    key = id(value), to
    entry = cache.casts.get(key)
    if entry is None or entry[1] != value._version:
        entry = cache.casts[key] = value, value._version, cast(value, to)
    return entry[2]


def _is_kept(value: Tensor) -> bool:
    """Whether the cast of a tensor serves until the outermost block ends: that of a weight, whose gradients then add up
    in half precision once. (A recording merges equal casts by itself.)"""
    return (
        cache.is_enabled and cache.nesting > 0 and modes.grad is True and value.dtype is dt.float32
        and value.requires_grad and value.is_leaf and value._view is None
        and modes.special is None and modes.capture is None and modes.trace is None and floor() is None
        and is_dense(value)
    )


def _widest(args: Args, lower: DType) -> DType:
    kinds: set[DType] = set()
    for a in args:
        kinds.update(v.dtype for v in (a if type(a) in (tuple, list) else (a,)) if is_cast(v))
    if dt.float32 in kinds:
        return dt.float32
    if kinds <= {lower}:
        return lower
    raise DTypeError(f"autocast to {lower}: there is no widest of {', '.join(sorted(k.name for k in kinds))}")
