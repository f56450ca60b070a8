"""The NumPy handler of the scalar protocol: arrays in place of scalars.
It is the reference that native code is compared with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from weft.ops import special
from weft.support.errors import DTypeError
from weft.types import dtype as dt
from weft.types.dtype import DType

Array = Any

_INT_BITS = {4: np.int32, 8: np.int64}


class NumpyScalar:
    """Evaluates a pointwise body over arrays (or NumPy scalars)."""

    def const(self, value: Any, dtype: DType) -> Array:
        if isinstance(value, complex) and not dtype.is_complex and dtype is not dt.bool_:
            raise DTypeError(f"value {value} cannot be converted to type {dtype} without overflow")
        if dtype.category == dt.INT and isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                value, bits = int(value), dtype.bits
            except (OverflowError, ValueError):
                raise DTypeError(f"value {value} cannot be converted to type {dtype} without overflow") from None
            value &= (1 << bits) - 1
            if dtype.is_signed and value >= 1 << (bits - 1):
                value -= 1 << bits
        return dtype.numpy.type(value)

    def cast(self, x: Array, dtype: DType) -> Array:
        target = dtype.numpy
        if x.dtype == target:
            return x
        if dtype is dt.bool_:
            return x != 0
        if x.dtype.kind == "c" and not dtype.is_complex:
            x = x.real
        if dtype.category == dt.INT and x.dtype.kind == "f":
            return _float_to_int(x, dtype)
        return x.astype(target) if 0 not in x.strides else x.astype(target, order=copied_order(x))

    def dtype(self, x: Array) -> DType:
        return dt.from_numpy(x.dtype)

    def bits(self, x: Array) -> Array:
        return np.asarray(x).view(_INT_BITS[x.dtype.itemsize])

    def from_bits(self, x: Array, dtype: DType) -> Array:
        return np.asarray(x).view(dtype.numpy)

    add = staticmethod(np.add)
    sub = staticmethod(np.subtract)
    mul = staticmethod(np.multiply)
    div = staticmethod(np.true_divide)
    neg = staticmethod(np.negative)

    def floordiv(self, x: Array, y: Array) -> Array:
        return _floordiv(x, y)

    def truncdiv(self, x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return np.trunc(np.true_divide(x, y))
        quotient = np.floor_divide(x, y)
        inexact = (quotient * y != x) & ((x < 0) != (y < 0))
        return (quotient + inexact).astype(x.dtype)

    def remainder(self, x: Array, y: Array) -> Array:
        return np.remainder(x, y)

    def fmod(self, x: Array, y: Array) -> Array:
        return np.fmod(x, y)

    def abs(self, x: Array) -> Array:
        return np.abs(x) if x.dtype.kind != "b" else x

    def sign(self, x: Array) -> Array:
        if x.dtype.kind == "b":
            return x
        if x.dtype.kind == "c":
            size = np.abs(x)
            size = np.where(size == 0, size.dtype.type(1), size)
            out = np.empty(x.shape, x.dtype)  # part by part: NumPy's quotient of complex numbers overflows at tiny ones
            out.real, out.imag = x.real / size, x.imag / size
            return out
        if x.dtype.kind not in "iu":
            return np.subtract(x > 0, x < 0, dtype=x.dtype)  # (NumPy's own sign of NaN is NaN)
        return np.sign(x)

    def pow(self, x: Array, y: Array) -> Array:
        if x.dtype.kind in "iub":
            return _integer_pow(x, y)
        if y.ndim == 0:
            return _constant_power(x, y)
        return _complex_power(x, y) if x.dtype.kind == "c" else np.power(x, y)

    floor = staticmethod(np.floor)
    ceil = staticmethod(np.ceil)
    trunc = staticmethod(np.trunc)
    round = staticmethod(np.rint)
    sqrt = staticmethod(np.sqrt)

    def rsqrt(self, x: Array) -> Array:
        return np.true_divide(x.dtype.type(1), np.sqrt(x))

    exp = staticmethod(np.exp)
    exp2 = staticmethod(np.exp2)
    expm1 = staticmethod(np.expm1)
    log = staticmethod(np.log)
    log2 = staticmethod(np.log2)
    log10 = staticmethod(np.log10)
    log1p = staticmethod(np.log1p)
    sin = staticmethod(np.sin)
    cos = staticmethod(np.cos)
    tan = staticmethod(np.tan)
    asin = staticmethod(np.arcsin)
    acos = staticmethod(np.arccos)
    atan = staticmethod(np.arctan)
    atan2 = staticmethod(np.arctan2)
    sinh = staticmethod(np.sinh)
    cosh = staticmethod(np.cosh)
    tanh = staticmethod(np.tanh)
    asinh = staticmethod(np.arcsinh)
    acosh = staticmethod(np.arccosh)
    atanh = staticmethod(np.arctanh)

    def sigmoid(self, x: Array) -> Array:
        one = x.dtype.type(1)
        return one / (one + np.exp(-x))

    def erf(self, x: Array) -> Array:
        return special.erf(x)

    def erfc(self, x: Array) -> Array:
        return special.erfc(x)

    def erfinv(self, x: Array) -> Array:
        return special.erfinv(x)

    copysign = staticmethod(np.copysign)
    maximum = staticmethod(np.maximum)
    minimum = staticmethod(np.minimum)
    eq = staticmethod(np.equal)
    ne = staticmethod(np.not_equal)
    lt = staticmethod(np.less)
    le = staticmethod(np.less_equal)
    gt = staticmethod(np.greater)
    ge = staticmethod(np.greater_equal)
    isnan = staticmethod(np.isnan)
    isinf = staticmethod(np.isinf)
    isfinite = staticmethod(np.isfinite)
    signbit = staticmethod(np.signbit)
    bit_and = staticmethod(np.bitwise_and)
    bit_or = staticmethod(np.bitwise_or)
    bit_xor = staticmethod(np.bitwise_xor)
    bit_not = staticmethod(np.invert)

    def shl(self, x: Array, y: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        if _is_place(y, bits):
            return np.left_shift(x, y)
        inside = (y >= 0) & (y < bits)
        return np.where(inside, np.left_shift(x, np.where(inside, y, 0).astype(x.dtype)), x.dtype.type(0))

    def shr(self, x: Array, y: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        if _is_place(y, bits):
            return np.right_shift(x, y)
        inside = (y >= 0) & (y < bits)
        return np.right_shift(x, np.where(inside, y, bits - 1).astype(x.dtype)) if x.dtype.kind == "i" else np.where(
            inside, np.right_shift(x, np.where(inside, y, 0).astype(x.dtype)), x.dtype.type(0))

    where = staticmethod(np.where)

    def complex(self, real: Array, imag: Array) -> Array:
        out = np.empty(
            np.broadcast(real, imag).shape, np.result_type(real, 1j) if real.dtype == np.float64 else np.complex64
        )
        out.real, out.imag = real, imag
        return out

    def real(self, x: Array) -> Array:
        return x.real

    def imag(self, x: Array) -> Array:
        return x.imag

    conj = staticmethod(np.conjugate)

    def angle(self, x: Array) -> Array:
        if x.dtype.kind == "c":
            return np.angle(x)
        return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(np.pi), x.dtype.type(0)))


def copied_order(x: Array) -> Literal["K", "C"]:
    """The order in memory of a copy of `x`: x's own, where no elements share memory
    (NumPy would put a repeated dim innermost)."""
    return "C" if any(stride == 0 and size > 1 for stride, size in zip(x.strides, x.shape, strict=True)) else "K"


def _floordiv(x: Array, y: Array) -> Array:
    """NumPy's floor division, except that a float quotient by zero follows IEEE division."""
    out = np.floor_divide(x, y)
    if x.dtype.kind == "f":
        zero = y == 0
        if np.any(zero):
            out = np.where(zero, np.true_divide(x, y), out)
    return out


def _is_place(y: Array, bits: int) -> bool:
    """Whether a shift count is one number within range (the usual case, which needs no masks)."""
    return y.ndim == 0 and 0 <= int(y) < bits


_LARGE_EXPONENT = 1e30  # (times a logarithm it stays a number)
_POWERS: dict[float, Callable[[Array], Array]] = {
    0.5: np.sqrt, 1.0: np.positive, 2.0: np.square, -1.0: np.reciprocal, 3.0: lambda x: x * x * x,
    -2.0: lambda x: np.reciprocal(x * x), -0.5: lambda x: np.reciprocal(np.sqrt(x)),
}


def _constant_power(x: Array, y: Array) -> Array:
    """A power with one exponent: the common ones are products, roots and reciprocals, as in PyTorch."""
    if y.dtype.kind == "c":
        exponent = y.item()
        if exponent in (1, 0.5):
            return _POWERS[exponent.real](x)
        if exponent in (2, 3):
            return np.power(x, y)
        return _complex_power(x, y)
    shortcut = _POWERS.get(y.item()) if y.dtype.kind == "f" else None
    return np.power(x, y) if shortcut is None else shortcut(x)


def _complex_power(x: Array, y: Array) -> Array:
    """NumPy multiplies where exponents are whole: what overflows on the way, or before its reciprocal is taken,
    and powers of 0 and of infinities, are exp(y log x). (Reciprocals of
    other numbers are not lost.)"""
    out = np.asarray(np.power(x, y))
    lost = ~(np.isfinite(out) | np.isnan(x)) & (np.abs(y) < _LARGE_EXPONENT) & ((y != -1) | (x == 0) | np.isinf(x))
    if not lost.any():
        return out
    with np.errstate(all="ignore"):
        return np.where(lost, np.exp(y * np.log(x)), out)


def _float_to_int(x: Array, dtype: DType) -> Array:
    """Truncate through 32 bits (64 for int64 and uint8); what does not fit becomes the most negative number there,
    whose low bits are 0."""
    wide = np.int64 if dtype in (dt.int64, dt.uint8) else np.int32
    if not _casts_as_x86():
        limit = x.dtype.type(2.0 ** (8 * wide().itemsize - 1))
        x = np.where(np.abs(x) < limit, x, -limit)
    return x.astype(wide, order=copied_order(x)).astype(dtype.numpy, copy=False)


@functools.cache
def _casts_as_x86() -> bool:
    """Whether this machine gives the most negative number for a float that no integer holds."""
    with np.errstate(invalid="ignore"):
        return all(
            np.array([np.inf, -np.inf, np.nan]).astype(t).tolist() == [np.iinfo(t).min] * 3
            for t in (np.int32, np.int64)
        )


def _integer_pow(x: Array, y: Array) -> Array:
    if x.dtype.kind == "b":
        return x | ~y
    power = np.power(x, np.where(y < 0, 0, y).astype(y.dtype))
    negative = (
        np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0)) if x.dtype.kind == "i" else (x == 1)
    )
    return np.where(y < 0, negative, power).astype(x.dtype)


NUMPY = NumpyScalar()

BLOCK = 1 << 14  # elements of a float32 operand that stay in cache with a few temporaries


def run_body(body: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The value of a pointwise body. Long operands of one shape go through it in blocks that stay in cache:
    five times faster for long bodies."""
    arrays = [o for o in operands if type(o) is np.ndarray and o.ndim]
    if (
        not arrays or arrays[0].size < 4 * BLOCK
        or not all(a.shape == arrays[0].shape and a.flags.c_contiguous for a in arrays)
    ):
        return body(NUMPY, *operands)
    flat = [o.reshape(-1) if type(o) is np.ndarray and o.ndim else o for o in operands]
    out: Array | None = None
    for start in range(0, arrays[0].size, BLOCK):
        part = slice(start, start + BLOCK)
        value = body(NUMPY, *[o[part] if type(o) is np.ndarray and o.ndim else o for o in flat])
        if out is None:
            if np.shape(value) != (BLOCK,):
                return body(NUMPY, *operands)  # a constant, whatever the operands are
            out = np.empty(arrays[0].shape, value.dtype)
            written = out.reshape(-1)
        written[part] = value
    return out
