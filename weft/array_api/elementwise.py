"""Functions of each element. Those that PyTorch has too are made from the tables; the others, whose special values
differ, are written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array_api.promotion import promoted
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor

# the standard's name: the operator of that name, or the one behind the colon
_UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert:bitwise_not ceil conj cos cosh exp floor isfinite isinf isnan "
    "log log1p log2 log10 logical_not negative positive reciprocal round signbit sin sinh square sqrt tan trunc"
)
_BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide:true_divide "
    "equal:eq greater:gt greater_equal:ge hypot less:lt less_equal:le logaddexp logical_and logical_or logical_xor "
    "maximum minimum multiply:mul nextafter not_equal:ne pow remainder subtract:sub"
)


def _unary(name: str, operator: str) -> Callable[[Tensor], Tensor]:
    apply: Any = getattr(aten, operator)

    def function(x: Tensor, /) -> Tensor:
        return apply(x)

    return _named(function, name, f"{name} of each element.")


def _binary(name: str, operator: str) -> Callable[[Any, Any], Tensor]:
    apply: Any = getattr(aten, operator)

    def function(x1: Any, x2: Any, /) -> Tensor:
        return apply(*promoted(x1, x2))

    return _named(function, name, f"{name} of each pair of elements; one of the two may be a Python number.")


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _made() -> dict[str, Callable[..., Tensor]]:
    functions: dict[str, Callable[..., Tensor]] = {}
    for table, make in ((_UNARY, _unary), (_BINARY, _binary)):
        for entry in table.split():
            name, _, operator = entry.partition(":")
            functions[name] = make(name, operator or name)
    return functions


FUNCTIONS = _made()


def real(x: Tensor, /) -> Tensor:
    """The real part; a tensor of real numbers itself."""
    return aten.real(x)


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part; zeros for real numbers."""
    return aten.imag(x) if x.is_complex() else aten.zeros_like(x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Each element, or the bound that it lies beyond; in the dtype of x."""
    out = x
    if min is not None:
        out = aten.maximum(*_beside(out, min))
    if max is not None:
        out = aten.minimum(*_beside(out, max))
    return x.clone() if out is x else out


def _beside(x: Tensor, bound: Any) -> tuple[Tensor, Tensor]:
    return x, bound.to(x.dtype) if isinstance(bound, Tensor) else aten.full((), bound, dtype=x.dtype)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; x / abs(x) for complex numbers; NaN for NaN."""
    if x.is_complex():
        return aten.where(x == 0, aten.zeros_like(x), aten.sgn(x))
    return aten.where(aten.isnan(x), x, aten.sign(x)) if x.is_floating_point() else aten.sign(x)


def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """The quotient, rounded down; with infinities that of the limit: -0 for 1 / -infinity."""
    x1, x2 = promoted(x1, x2)
    out: Tensor = aten.floor_divide(x1, x2)
    if not out.is_floating_point():
        return out
    return aten.where(aten.isinf(x1) ^ aten.isinf(x2), aten.true_divide(x1, x2).trunc(), out)


def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1, exact near 0."""
    if not x.is_complex():
        return aten.expm1(x)
    a, b = aten.real(x), aten.imag(x)
    is_far = aten.isinf(a) & ~aten.isfinite(b)  # where the angle has no meaning
    half = aten.sin(b / 2)
    along = aten.expm1(a) * aten.cos(b) - 2 * half * half
    across = aten.where(b == 0, b, aten.exp(a) * aten.sin(b))
    along = aten.where(is_far | (b == 0), aten.expm1(a), along)
    return aten.complex(along, aten.where(is_far & (a < 0), aten.zeros_like(b), across))


def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent; of an infinite real part 1 or -1, whatever the angle."""
    if not x.is_complex():
        return aten.tanh(x)
    a, b = aten.real(x), aten.imag(x)
    limit = aten.complex(aten.sign(a), aten.copysign(aten.zeros_like(b), b))
    return aten.where(aten.isinf(a), limit, aten.tanh(x))
