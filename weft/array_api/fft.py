"""Discrete Fourier transforms, with the Array API's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.ops.packet import aten
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]


def _one(name: str, doc: str) -> Callable[..., Tensor]:
    apply: Any = getattr(aten, f"fft_{name}")

    def function(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return apply(x, n, axis, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _many(name: str, doc: str) -> Callable[..., Tensor]:
    apply: Any = getattr(aten, f"fft_{name}")

    def function(
        x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Tensor:
        if axes is None and s is not None:
            axes = range(x.ndim - len(s), x.ndim)
        return apply(x, s, None if axes is None else list(axes), norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


fft = _one("fft", "The transform along a dim.")
ifft = _one("ifft", "Its inverse.")
rfft = _one("rfft", "The transform of real numbers: the first half, n // 2 + 1 values.")
irfft = _one("irfft", "Its inverse: n real numbers.")
hfft = _one("hfft", "The transform of a signal of which the first half is given, and which is hermitian: real numbers.")
ihfft = _one("ihfft", "Its inverse.")
fftn = _many("fftn", "The transform along several dims, all for axes=None.")
ifftn = _many("ifftn", "Its inverse.")
rfftn = _many("rfftn", "The transform of real numbers along several dims.")
irfftn = _many("irfftn", "Its inverse.")


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The frequencies of a transform's n values, at a distance of d between samples."""
    return aten.fft_fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The frequencies of the n // 2 + 1 values of a transform of real numbers."""
    return aten.fft_rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The frequency 0 in the middle."""
    return aten.fft_fftshift(x, [axes] if isinstance(axes, int) else axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The frequency 0 in front again."""
    return aten.fft_ifftshift(x, [axes] if isinstance(axes, int) else axes)
