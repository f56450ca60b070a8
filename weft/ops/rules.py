"""Type rules that many entries share: pointwise promotion, reductions, and the checks they are made of.

A rule receives the operator's arguments in schema order with a TensorType in place of each tensor, and returns
the TensorType of the result. It is the one source of shape and dtype errors: every path (eager, capture, lazy, meta)
raises its text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from weft.ops.schema import Schema
from weft.support import limits
from weft.support.errors import DTypeError, IndexBoundsError, NotForDType, ShapeError, StateError
from weft.support.memo import Memo
from weft.types import dtype as dt
from weft.types import promotion, shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import BOOL, COMPLEX, FLOAT, INT, TensorType, Type, tensor_type

Dims = tuple[Dim, ...]


def dims_text(dims: Sequence[Any]) -> str:
    """Dims as PyTorch prints sizes: `[3, 4]`."""
    return "[" + ", ".join(map(str, dims)) + "]"


_GREATEST = {dt.float16: 65504.0, dt.bfloat16: 3.3895313892515355e38, dt.float32: 3.4028234663852886e38}


def check_fits(value: Any, dtype: DType | None) -> None:
    """Refuse to put a Python number where a dtype cannot hold it (uint8 takes negative ones too, and wraps).
    Raises DTypeError."""
    if type(value) not in (int, float, complex) or dtype is None:
        return
    if type(value) is complex:
        fits = dtype.is_complex or dtype is dt.bool_
    elif dtype.category == dt.INT:
        high = 2 ** (dtype.bits - dtype.is_signed) - 1
        fits = abs(value) <= high or (dtype.is_signed and value == -high - 1)
    else:
        fits = dtype.category != dt.FLOAT or not abs(value) > _GREATEST.get(dtype, math.inf) or abs(value) == math.inf
    if not fits:
        raise DTypeError(f"value {value} cannot be converted to type {dtype} without overflow")


def broadcast_dims(name: str, all_dims: Sequence[Dims]) -> Dims:
    """The joint dims of operands that broadcast. Raises ShapeError."""
    out: Dims = all_dims[0] if all_dims else ()
    for dims in all_dims[1:]:
        if dims != out:
            out = _broadcast_two(name, out, dims)
    return out


def is_expandable(small: Sequence[int], large: Sequence[int]) -> bool:
    """Whether repeating what has the one shape gives the other."""
    if len(small) > len(large):
        return False
    return all(s in (1, d) for s, d in zip(small, large[len(large) - len(small) :], strict=True))


def refuse_unfit(what: str, got: Dims, expected: Dims) -> None:
    """Raises StateError for a gradient that does not sum to the shape of the tensor it belongs to. Sizes that are
    symbols are taken as in the example: nothing is asked about them. what: whose it is."""
    try:
        sizes, wanted = [[shape_env.example(d) for d in dims] for dims in (got, expected)]
    except KeyError:  # a size that only a run finds
        return
    if not is_expandable(wanted, sizes):
        raise StateError(f"{what} - got {sizes} but expected shape compatible with {wanted}")


def _broadcast_two(name: str, a: Dims, b: Dims) -> Dims:
    if len(a) < len(b):
        a = (1,) * (len(b) - len(a)) + a
    elif len(b) < len(a):
        b = (1,) * (len(a) - len(b)) + b
    out = []
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if isinstance(x, int) and x == 1:
            out.append(y)
        elif isinstance(y, int) and y == 1:
            out.append(x)
        elif x != y and shape_env.is_repeated(x, y):
            out.append(y)
        elif x != y and shape_env.is_repeated(y, x):
            out.append(x)
        elif x == y or shape_env.equal(x, y):
            out.append(x if isinstance(x, int) or not isinstance(y, int) else y)
        elif shape_env.equal(x, 1):
            out.append(y)
        elif shape_env.equal(y, 1):
            out.append(x)
        else:
            raise ShapeError(
                f"{name}: The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension "
                f"{i}; shapes {dims_text(a)} and {dims_text(b)} do not broadcast"
            )
    return tuple(out)


def same_dims(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are equal (asked of the environment where symbols are involved)."""
    return len(a) == len(b) and all(x == y or shape_env.equal(x, y) for x, y in zip(a, b, strict=True))


def normalize_dim(name: str, dim: int, ndim: int) -> int:
    """A dim in [0, ndim); 0-dim tensors accept 0 and -1. Raises IndexBoundsError."""
    limit = max(ndim, 1)
    dim = dim if isinstance(dim, int) else shape_env.decided(dim)  # a symbol: which dim is meant is part of a program
    if not -limit <= dim < limit:
        raise IndexBoundsError(
            f"{name}: Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})"
        )
    return dim + limit if dim < 0 else dim


def normalize_dims(name: str, dims: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Dims of a reduction: None or () are all of them; repeats are refused."""
    if dims is None or (isinstance(dims, (tuple, list)) and len(dims) == 0):
        return tuple(range(ndim))
    listed: Sequence[int] = dims if isinstance(dims, (tuple, list)) else (dims,)  # (a symbol is no int)
    out = [normalize_dim(name, d, ndim) for d in listed]
    if len(set(out)) != len(out):
        repeated = next(d for d in out if out.count(d) > 1)
        raise ShapeError(f"{name}: dim {repeated} appears multiple times in the list of dims")
    return tuple(out)


def reduction_axes(op: Any, dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """The dims that a reduction goes over: those named; all, or none, where the list is empty."""
    if op.reduce.empty_is_none and isinstance(dim, (tuple, list)) and not dim:
        return ()
    return normalize_dims(op.base, dim, ndim)


def reduced_dims(dims: Dims, axes: Sequence[int], keepdim: bool) -> Dims:
    """Dims after reducing `axes`."""
    if not dims:
        return ()
    if keepdim:
        return tuple(1 if i in axes else d for i, d in enumerate(dims))
    return tuple(d for i, d in enumerate(dims) if i not in axes)


def kind_of_number(value: Any) -> type:
    """The Python type a number argument promotes as (symbolic integers are int, symbolic floats are float)."""
    kind = type(value)
    if kind in (bool, int, float, complex):
        return kind
    return getattr(value, "__weft_number_type__", int)


def number_type(dtype: DType) -> Type:
    """The type of a Python number of this category."""
    return (BOOL, INT, FLOAT, COMPLEX)[dtype.category]


_NUMBERS = frozenset((bool, int, float, complex))
_CONSTANTS = frozenset((TensorType, DType, str, type(None)))


def _kinds_of(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What pointwise rules look at in their arguments: types, and the types of numbers;
    None where an argument is something else."""
    key: list[Any] = [dt.get_default()]
    for a in args:
        kind = type(a)
        if kind in _CONSTANTS:
            key.append(a)
        elif kind in _NUMBERS:
            key.append(kind)
        elif hasattr(kind, "__weft_number__"):  # stands for a number that only the run knows
            key.append((kind, kind_of_number(a)))
        else:
            return None
    return tuple(key)


def _asks_nothing(args: tuple[Any, ...]) -> bool:
    """Whether operands of these types are broadcast without a question about sizes, whose answer would
    hang on the program."""
    shapes = [a.dims for a in args if type(a) is TensorType]
    if any(dims is None or None in dims for dims in shapes):
        return False
    return all(dims == shapes[0] for dims in shapes) or all(type(d) is int for dims in shapes for d in dims or ())


@dataclass(frozen=True)
class Pointwise:
    """The rule of pointwise operators: operands broadcast, promote to one compute dtype, and give a result dtype.

    name: the operator, for errors.
    over: names of the arguments that promote (default: every Tensor and Scalar argument).
    compute: "promote", "float" (integers become the default float), "real_float" (the same, complex refused),
    or a function DType -> DType.
    result: "compute", "bool", "real" (of a complex compute dtype), "self" (the first tensor's dtype), or a DType.
    accepts: a predicate over the promoted dtype, and `wants` says in words what it accepts.
    keep: arguments that broadcast but keep their own dtype (a condition, an index).
    into_self: whether the result has the dims of the first argument, into which the others must fit.
    """

    into_self = False

    schema: Schema
    over: tuple[str, ...] | None = None
    compute: str | Callable[[DType], DType] = "promote"
    result: str | DType = "compute"
    accepts: Callable[[DType], bool] | None = None
    wants: str = ""
    keep: tuple[str, ...] = ()
    # results that hang on nothing but the key
    known: Memo[Any, Type] = field(
        default_factory=lambda: Memo(limits.TYPES_OF_AN_OPERATOR), init=False, repr=False, compare=False
    )

    @cached_property
    def promotes(self) -> bool:
        """Whether the dtype of results may be another one than that of an operand: `out=` then takes others, too."""
        operands = {a.name for a in self.schema.arguments if a.kind in ("Tensor", "Scalar")} - {*self.keep}
        return self.compute != "promote" or len(operands if self.over is None else operands & {*self.over}) > 1

    def __call__(self, *args: Any) -> Any:
        key = _kinds_of(args)
        result = self.known.get(key) if key is not None else None
        if result is None:
            result = self._found(args)
            if key is not None and not result.is_passing and _asks_nothing(args):
                self.known[key] = result
        return result

    def _found(self, args: tuple[Any, ...]) -> Type:
        tensors = [a for a in args if isinstance(a, TensorType)]
        name = self.schema.base
        if not tensors:
            return number_type(self.result_dtype(args))
        if any(not t.is_complete for t in tensors):
            return self._partial(args, tensors)
        dims = broadcast_dims(name, [t.shape for t in tensors])
        return tensor_type(self.result_dtype(args), dims, tensors[0].device if tensors else "cpu")

    def looks_at_numbers(self, args: tuple[Any, ...]) -> bool:
        """Whether `check_numbers` may refuse a number beside tensors of these types."""
        return type(self).check_numbers is not Pointwise.check_numbers

    def check_numbers(self, args: tuple[Any, ...]) -> None:
        """Refuse values of numbers among the arguments. Eager mode keeps one plan for all numbers of a type,
        and asks a rule that overrides this each time."""

    def _partial(self, args: tuple[Any, ...], tensors: list[TensorType]) -> TensorType:
        dtype = self.result_dtype(args) if all(t.dtype is not None and t.dims is not None for t in tensors) else None
        if any(t.dims is None for t in tensors):
            return tensor_type(dtype, None)
        rank = max(len(t.dims or ()) for t in tensors)
        return tensor_type(dtype, (None,) * rank)

    def promoted(self, args: tuple[Any, ...]) -> DType:
        """The joint dtype of the promoting operands."""
        dims: list[DType] = []
        zero_dims: list[DType] = []
        numbers: list[DType] = []
        for argument, value in zip(self.schema.arguments, args, strict=True):
            if value is None or argument.name in self.keep:
                continue
            if self.over is not None and argument.name not in self.over:
                continue
            if isinstance(value, TensorType):
                assert value.dtype is not None
                (dims if value.dims else zero_dims).append(value.dtype)
            elif argument.kind in ("Tensor", "Scalar"):
                numbers.append(promotion.number_dtype(kind_of_number(value)))
        return promotion.result_type(tuple(dims), tuple(zero_dims), tuple(numbers))

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        """The dtype in which the body runs, before half precisions are widened."""
        joined = self.promoted(args)
        if joined.is_floating_point and not any(isinstance(a, TensorType) for a in args):
            joined = dt.float64  # numbers alone: as Python computes them
        if self.accepts is not None and not self.accepts(joined):
            raise NotForDType(
                f"{self.schema.base}: not implemented for {joined}" + (f"; it takes {self.wants}" if self.wants else "")
            )
        if callable(self.compute):
            return self.compute(joined)
        if self.compute in ("float", "real_float") and not joined.is_differentiable:
            return dt.get_default()
        if self.compute == "real_float" and joined.is_complex:
            raise DTypeError(f"{self.schema.base}: does not support complex tensors, got {joined}")
        return joined

    def operand_dtype(self, args: tuple[Any, ...]) -> DType:
        """The dtype in which the body gets its operands: that of computation, half precisions widened."""
        return dt.compute_dtype(self.compute_dtype(args))

    def result_dtype(self, args: tuple[Any, ...]) -> DType:
        computed = self.compute_dtype(args)
        if isinstance(self.result, DType):
            return self.result
        if self.result == "bool":
            return dt.bool_
        if self.result == "real":
            return computed.to_real()
        if self.result == "self":
            first = next(a for a in args if isinstance(a, TensorType))
            assert first.dtype is not None
            return first.dtype
        return computed


def is_integral(d: DType) -> bool:
    """bool and integers."""
    return d.category <= dt.INT


def is_real(d: DType) -> bool:
    """Anything but complex."""
    return not d.is_complex
