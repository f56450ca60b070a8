"""Windows of signals, of M samples, with 1 as their greatest value.

sym: whether the window is symmetric, as filters want it; False for a periodic one, the first M of M + 1 samples, as
spectra want it. All take dtype, layout, device and requires_grad as factories do, float32 and float64; M is at least 0,
and a window of one sample is 1. Formulas: F. J. Harris, On the Use of Windows for Harmonic Analysis (1978);
A. H. Nuttall, Some Windows with Very Good Sidelobe Behavior (1981) for nuttall.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from weft.layers.factories import FACTORIES
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, Unsupported, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType, get_default

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
    "hann", "kaiser", "nuttall",
]


def _window(
    name: str, M: int, dtype: DType | None, layout: Any, device: Any, requires_grad: bool,
    compute: Callable[[Tensor], Tensor], least: int = 2,
) -> Tensor:
    """compute: the window of the numbers 0, 1, ... M - 1, for so many samples at least; fewer are 1."""
    if M < 0:
        raise ValueProblem(f"{name} requires non-negative window length, got M={M}")
    if layout not in (None, "weft.strided"):
        raise Unsupported(f"{name} is implemented for strided tensors only, got: {layout}")
    wanted = get_default() if dtype is None else dtype
    if wanted not in (dt.float32, dt.float64):
        raise ValueProblem(f"{name} expects float32 or float64 dtypes, got: {wanted}")
    if least > M:
        window = FACTORIES["ones"](M, dtype=wanted, device=device)
    else:
        window = compute(FACTORIES["arange"](M, dtype=wanted, device=device))
    return window.requires_grad_() if requires_grad else window


def _spans(M: int, sym: bool) -> int:
    """How many steps lie between the first sample and the one that ends the period."""
    return M - 1 if sym else M


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: DType | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau). center: of periodic windows; the middle where it is None. Raises ValueProblem for tau
    that is not positive, and for a center of a symmetric window."""
    if tau <= 0:
        raise ValueProblem(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueProblem("Center must be None for symmetric windows")
    middle = _spans(M, sym) / 2 if center is None else center
    return _window(
        "exponential", M, dtype, layout, device, requires_grad, lambda n: aten.exp(-aten.abs(n - middle) / tau),
        least=2 if center is None else 1,
    )


def cosine(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """sin(pi (n + 1/2) / M)."""
    count = M if sym else M + 1
    return _window("cosine", M, dtype, layout, device, requires_grad, lambda n: aten.sin((n + 0.5) * (math.pi / count)))


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-(n - middle)^2 / (2 std^2)). Raises ValueProblem for std that is not positive."""
    if std <= 0:
        raise ValueProblem(f"Standard deviation must be positive, got: {std} instead.")
    middle, scale = _spans(M, sym) / 2, std * math.sqrt(2)
    return _window(
        "gaussian", M, dtype, layout, device, requires_grad, lambda n: aten.exp(-aten.square((n - middle) / scale))
    )


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: DType | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1. Raises ValueProblem for negative beta."""
    if beta < 0:
        raise ValueProblem(f"beta must be non-negative, got: {beta} instead.")

    def compute(n: Tensor) -> Tensor:
        x = n * (2.0 / _spans(M, sym)) - 1.0
        whole = aten.full((), beta, dtype=n.dtype, device=n.device)
        bent = aten.i0(beta * aten.sqrt(aten.clamp_min(1.0 - x * x, 0.0)))
        return bent / aten.i0(whole)  # type: ignore[no-any-return]

    return _window("kaiser", M, dtype, layout, device, requires_grad, compute)


def bartlett(
    M: int, *, sym: bool = True, dtype: DType | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """1 - |2 n / N - 1|, with N = M - 1 (M for a periodic one): a triangle that is 0 at its ends."""
    return _window(
        "bartlett", M, dtype, layout, device, requires_grad,
        lambda n: 1.0 - aten.abs(n * (2.0 / _spans(M, sym)) - 1.0),
    )


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: DType | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:
    """a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., with x = 2 pi n / N. Raises ValueProblem where there are no
    coefficients, ArgumentError where `a` is no list."""
    if not isinstance(a, Iterable):
        raise ArgumentError("Coefficients must be a list/tuple")
    coefficients = list(a)
    if not coefficients:
        raise ValueProblem("Coefficients cannot be empty")

    def compute(n: Tensor) -> Tensor:
        x = n * (2.0 * math.pi / _spans(M, sym))
        terms = [((-1) ** i * c) * aten.cos(x * float(i)) for i, c in enumerate(coefficients)]
        return aten.sum(aten.stack(terms), 0)  # type: ignore[no-any-return]

    return _window("general_cosine", M, dtype, layout, device, requires_grad, compute)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi n / N). options: dtype, layout, device and requires_grad."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """general_hamming with alpha 0.54."""
    return general_hamming(M, alpha=0.54, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """general_hamming with alpha 1/2, which is 0 at its ends."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """general_cosine with 0.42, 0.5 and 0.08."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """general_cosine with Nuttall's four coefficients of the least side lobes."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)
