"""Comparison, logic and bits: entries that answer questions about elements, none of them differentiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.families import alias, pointwise
from weft.ops.op import NOT_DIFFERENTIABLE, Op, Out, define
from weft.ops.rules import Pointwise, is_integral, is_real
from weft.support.errors import DTypeError, StateError
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import BOOL, TensorType


class _Comparison(Pointwise):
    """The rule of comparisons: operands are compared in their joint dtype, a half precision too, so that a number
    is rounded as the elements are."""

    def operand_dtype(self, args: tuple[Any, ...]) -> DType:
        return self.compute_dtype(args)


def _compare(name: str, words: str, body: Callable[..., Any], reference: Callable[..., Any], ordered: bool) -> Op:
    return pointwise(
        f"aten::{name}.Tensor(Tensor self, Tensor other) -> Tensor",
        f"Whether self is {words} other, element by element.",
        scalar=body,
        rule=_Comparison,
        result="bool",
        accepts=is_real if ordered else None,
        wants="real numbers" if ordered else "",
        vjp=NOT_DIFFERENTIABLE,
        reference=reference,
    )


eq = _compare("eq", "equal to", lambda s, a, b: s.eq(a, b), np.equal, ordered=False)
ne = _compare("ne", "different from", lambda s, a, b: s.ne(a, b), np.not_equal, ordered=False)
lt = _compare("lt", "less than", lambda s, a, b: s.lt(a, b), np.less, ordered=True)
le = _compare("le", "less than or equal to", lambda s, a, b: s.le(a, b), np.less_equal, ordered=True)
gt = _compare("gt", "greater than", lambda s, a, b: s.gt(a, b), np.greater, ordered=True)
ge = _compare("ge", "greater than or equal to", lambda s, a, b: s.ge(a, b), np.greater_equal, ordered=True)

for _name, _op in (("not_equal", ne), ("less", lt), ("less_equal", le), ("greater", gt), ("greater_equal", ge)):
    alias(f"aten::{_name}.Tensor(Tensor self, Tensor other) -> Tensor", _op)


def _question(name: str, words: str, body: Callable[..., Any], reference: Callable[..., Any], **fields: Any) -> Op:
    return pointwise(
        f"aten::{name}(Tensor self) -> Tensor", f"Whether each element is {words}.", scalar=body, result="bool",
        vjp=NOT_DIFFERENTIABLE, reference=reference, inplace=False,
        out=fields.pop("out", False), numbers=False, **fields,
    )


def _unless_integer(ask: Callable[[Any, Any], Any], otherwise: bool) -> Callable[[Any, Any], Any]:
    """A question about floats (about either part, for complex numbers) whose answer for integers is known."""

    def body(s: Any, x: Any) -> Any:
        dtype = s.dtype(x)
        if dtype.category <= dt.INT:
            same = s.eq(x, x)
            return same if otherwise else s.bit_not(same)
        if not dtype.is_complex:
            return ask(s, x)
        both = s.bit_and if otherwise else s.bit_or
        return both(ask(s, s.real(x)), ask(s, s.imag(x)))

    return body


isnan = _question("isnan", "not a number", _unless_integer(lambda s, x: s.isnan(x), False), np.isnan)
isinf = _question("isinf", "infinite", _unless_integer(lambda s, x: s.isinf(x), False), np.isinf)
isfinite = _question("isfinite", "finite", _unless_integer(lambda s, x: s.isfinite(x), True), np.isfinite)
_INF = float("inf")
isposinf = _question(
    "isposinf", "positive infinity", _unless_integer(lambda s, x: s.eq(x, s.const(_INF, s.dtype(x))), False),
    np.isposinf, accepts=is_real, out=True)
isneginf = _question(
    "isneginf", "negative infinity", _unless_integer(lambda s, x: s.eq(x, s.const(-_INF, s.dtype(x))), False),
    np.isneginf, accepts=is_real, out=True)
isreal = _question(
    "isreal", "a number without imaginary part",
    lambda s, x: s.eq(s.imag(x), s.const(0, s.dtype(s.imag(x)))) if s.dtype(x).is_complex else s.const(True, dt.bool_),
    np.isreal)


def _sign_bit(s: Any, x: Any) -> Any:
    return s.lt(x, s.const(0, s.dtype(x))) if s.dtype(x).category <= dt.INT else s.signbit(x)


signbit = _question(
    "signbit", "negative (-0.0 included)", _sign_bit, lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
    accepts=is_real, out=True,
)


class _SameDTypes(Pointwise):
    """isclose's rule: operands of one dtype, computed in float64 when they are integers."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        a, b = args[0].dtype, args[1].dtype
        if a is not b:
            raise DTypeError(f"{self.schema.base}: {a} did not match {b}")
        return a if a.is_differentiable else dt.float64

    def __call__(self, *args: Any) -> Any:
        _check_bounds(args[2], args[3])
        return super().__call__(*args)


def _check_bounds(rtol: float, atol: float) -> None:
    for name, bound in (("rtol", rtol), ("atol", atol)):
        if bound < 0:
            raise StateError(f"isclose: {name} must be greater than or equal to zero, but got {bound}")


def _is_close(s: Any, a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    _check_bounds(rtol, atol)  # eager plans ask the rule for dtypes only
    difference, size = s.abs(s.sub(a, b)), s.abs(b)
    real = s.dtype(size)
    allowed = s.add(s.const(atol, real), s.mul(s.const(rtol, real), size))
    near = s.bit_and(s.bit_and(_finite(s, b), _finite(s, a)), s.le(difference, allowed))
    close = s.bit_or(s.eq(a, b), near)
    return s.bit_or(close, s.bit_and(s.ne(a, a), s.ne(b, b))) if equal_nan else close


def _finite(s: Any, x: Any) -> Any:
    return s.bit_and(s.isfinite(s.real(x)), s.isfinite(s.imag(x))) if s.dtype(x).is_complex else s.isfinite(x)


isclose = pointwise(
    "aten::isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    "Whether |self - other| <= atol + rtol * |other|, element by element; equal infinities are close.",
    scalar=_is_close,
    over=("self", "other"),
    rule=_SameDTypes,
    result="bool",
    inplace=False,
    out=False,
    numbers=False,
    vjp=NOT_DIFFERENTIABLE,
    reference=np.isclose,
)


def _answer_type(self: TensorType, other: TensorType, *rest: Any) -> Any:
    return BOOL


def _all_close_type(self: TensorType, other: TensorType, *rest: Any) -> Any:
    """What isclose refuses, allclose refuses."""
    isclose.type(self, other, *rest)  # type: ignore[misc]
    return BOOL


allclose = define(
    "aten::allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
    "Whether all elements are close (isclose); a Python bool.",
    type=_all_close_type,
    kernel=lambda a, b, rtol, atol, equal_nan: bool(np.all(np.isclose(a, b, rtol, atol, equal_nan))),
    vjp=NOT_DIFFERENTIABLE,
    reference=np.allclose,
)

equal = define(
    "aten::equal(Tensor self, Tensor other) -> bool",
    "Whether two tensors have the same sizes and elements; a Python bool.",
    type=_answer_type,
    kernel=lambda a, b: a.shape == b.shape and bool(np.all(a == b)),
    vjp=NOT_DIFFERENTIABLE,
    reference=np.array_equal,
)


def _logical(name: str, words: str, body: Callable[..., Any], reference: Callable[..., Any]) -> Op:
    return pointwise(
        f"aten::{name}(Tensor self, Tensor other) -> Tensor",
        f"Whether {words}, element by element; a number is true when it is not 0.",
        scalar=lambda s, a, b: body(s, s.cast(a, dt.bool_), s.cast(b, dt.bool_)),
        result="bool",
        number_first=True,
        vjp=NOT_DIFFERENTIABLE,
        reference=reference,
    )


logical_and = _logical("logical_and", "both are true", lambda s, a, b: s.bit_and(a, b), np.logical_and)
logical_or = _logical("logical_or", "either is true", lambda s, a, b: s.bit_or(a, b), np.logical_or)
logical_xor = _logical("logical_xor", "exactly one is true", lambda s, a, b: s.bit_xor(a, b), np.logical_xor)

logical_not = pointwise(
    "aten::logical_not(Tensor self) -> Tensor",
    "Whether each element is 0 or False.",
    scalar=lambda s, x: s.bit_not(s.cast(x, dt.bool_)),
    result="bool",
    out=Out("castable"),
    numbers=False,
    vjp=NOT_DIFFERENTIABLE,
    reference=np.logical_not,
)


def _bits(name: str, overload: str, words: str, body: Callable[..., Any], reference: Callable[..., Any],
          accepts: Callable[[DType], bool] = is_integral) -> Op:
    return pointwise(
        f"aten::{name}.{overload}(Tensor self, Tensor other) -> Tensor",
        f"{words}, element by element.",
        scalar=body,
        accepts=accepts,
        wants="integers" if accepts is not is_integral else "integers and bool",
        number_first=True,
        vjp=NOT_DIFFERENTIABLE,
        reference=reference,
    )


def _is_int(d: DType) -> bool:
    return d.category == dt.INT


bitwise_and = _bits("bitwise_and", "Tensor", "Bits set in both", lambda s, a, b: s.bit_and(a, b), np.bitwise_and)
bitwise_or = _bits("bitwise_or", "Tensor", "Bits set in either", lambda s, a, b: s.bit_or(a, b), np.bitwise_or)
bitwise_xor = _bits("bitwise_xor", "Tensor", "Bits set in exactly one", lambda s, a, b: s.bit_xor(a, b), np.bitwise_xor)
bitwise_left_shift = _bits(
    "bitwise_left_shift", "Tensor", "Bits moved up by `other` places",
    lambda s, a, b: s.shl(a, b), np.left_shift, _is_int)
bitwise_right_shift = _bits(
    "bitwise_right_shift", "Tensor", "Bits moved down by `other` places, keeping the sign", lambda s, a, b: s.shr(a, b),
    np.right_shift, _is_int)

bitwise_not = pointwise(
    "aten::bitwise_not(Tensor self) -> Tensor",
    "Every bit turned round; logical not for bool.",
    scalar=lambda s, x: s.bit_not(x),
    accepts=is_integral,
    wants="integers and bool",
    vjp=NOT_DIFFERENTIABLE,
    reference=np.invert,
)


def _is_nonzero(x: Any) -> bool:
    return bool(x.reshape(-1)[0] != 0)


def _is_nonzero_type(self: TensorType) -> Any:
    if self.is_complete and isinstance(self.numel, int) and self.numel != 1:
        what = "no values" if self.numel == 0 else "more than one value"
        raise DTypeError(f"Boolean value of Tensor with {what} is ambiguous")
    return BOOL


is_nonzero = define(
    "aten::is_nonzero(Tensor self) -> bool",
    "Whether the only element differs from 0; a Python bool.",
    type=_is_nonzero_type,
    kernel=_is_nonzero,
    vjp=NOT_DIFFERENTIABLE,
    reference=lambda x: bool(x.any()),
)
