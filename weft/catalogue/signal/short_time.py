"""Windows of signals (hann, hamming, blackman, bartlett, kaiser) and short-time Fourier transforms: stft, istft."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.creation.factories import OPTIONS, or_default
from weft.catalogue.samples import F, P, case, draw
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import DTypeError, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

# ---- windows


def _window_type(window_length: Dim, periodic: bool, *rest: Any) -> TensorType:
    dtype, device = rest[-2:]
    shape_env.refuse_negative(
        (window_length,), lambda: ShapeError(f"a window's length must not be negative, got {window_length}")
    )
    if dtype is not None and not dtype.is_floating_point:
        raise DTypeError(f"windows are of floating point dtypes, got {dtype}")
    return tensor_type(or_default(dtype), (window_length,), device or "cpu")


def _places(length: Dim, periodic: bool) -> Any:
    """0 at the first element and 1 at the last (periodic: at the one that would follow it); 1/2 for a single element,
    the top of every window."""
    if shape_env.equal(length, 1):
        return aten.full((1,), 0.5, dtype=dt.float64)
    return aten._to_copy(aten._iota(length), dtype=dt.float64) / (length if periodic else length - 1)


def _cosines(at: Any, *weights: float) -> Any:
    return sum((aten.cos(at * (2 * math.pi * i)) * w for i, w in enumerate(weights[1:], 1)), start=at * 0 + weights[0])


def _window(name: str, words: str, values: Callable[..., Any], more: str = "") -> None:
    define(
        f"aten::{name}_window(int window_length, bool periodic=True, {more}*, {OPTIONS}) -> Tensor",
        f"{words} of `window_length` elements: symmetric, or for a periodic one the first elements of a symmetric one "
        "that is longer by one.",
        type=_window_type,
        decompose=lambda length, periodic, *rest: aten._to_copy(
            values(_places(length, periodic), *rest[:-2]), dtype=or_default(rest[-2])
        ),
        vjp=NOT_DIFFERENTIABLE,
        public=("weft",),
    )


_window("hann", "A raised cosine, 0 at the ends,", lambda at: _cosines(at, 0.5, -0.5))
_window(
    "hamming", "alpha - beta cos(2 pi t), t from 0 to 1,", lambda at, alpha, beta: _cosines(at, alpha, -beta),
    "float alpha=0.54, float beta=0.46, ",
)
_window("blackman", "Blackman's sum of three cosines", lambda at: _cosines(at, 0.42, -0.5, 0.08))
_window("bartlett", "A triangle, 0 at the ends,", lambda at: 1 - aten.abs(at * 2 - 1))
_window(
    "kaiser", "Kaiser's window of shape `beta`",
    lambda at, beta: aten.special_i0(aten.sqrt(aten.clamp_min(1 - aten.square(at * 2 - 1), 0)) * beta) / float(
        np.i0(beta)
    ),
    "float beta=12.0, ",
)

# ---- short-time transforms


def _centred_window(name: str, window: Any, n_fft: Dim, win_length: Dim, like: Any) -> Any:
    """The window (ones without one), with zeros on both sides up to n_fft elements."""
    _check_order(win_length, n_fft, f"{name}: expected 0 < win_length <= n_fft, but got win_length={win_length}")
    if window is None:
        window = aten.new_ones(like, (win_length,), dtype=like.dtype.to_real() if like.dtype.is_complex else None)
    elif window.ndim != 1 or not shape_env.equal(window.dims[0], win_length):
        raise ShapeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.dims)}"
        )
    left = dm.floordiv(n_fft - win_length, 2)
    return window if win_length == n_fft else aten.constant_pad_nd(window, (left, n_fft - win_length - left))


def _check_order(small: Dim, great: Dim, text: str) -> None:
    """0 < small <= great, or a ShapeError with the text."""
    shape_env.refuse_less(small, 1, lambda: ShapeError(text))
    shape_env.refuse_less(great, small, lambda: ShapeError(text))


def _widths(n_fft: Dim, hop_length: Dim | None, win_length: Dim | None) -> tuple[Dim, Dim]:
    """How far apart windows are, and how wide."""
    return (
        dm.floordiv(n_fft, 4) if hop_length is None else hop_length, n_fft if win_length is None else win_length
    )


def _stft(
    self: Any, n_fft: int, hop_length: int | None, win_length: int | None, window: Any, center: bool, pad_mode: str,
    normalized: bool, onesided: bool | None, return_complex: bool | None, align_to_window: bool | None,
) -> Any:
    del align_to_window
    hop, width = _widths(n_fft, hop_length, win_length)
    is_complex = self.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not is_complex:
        raise ShapeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True"
        )
    if self.ndim not in (1, 2) or not self.dtype.is_differentiable:
        raise ShapeError(
            f"stft: expected a 1D or 2D tensor of floating point or complex values, but got {self.dtype} with "
            f"{self.ndim} dims"
        )
    shape_env.refuse_less(hop, 1, lambda: ShapeError(f"stft: expected hop_length > 0, but got hop_length={hop}"))
    window = _centred_window("stft", window, n_fft, width, self)
    x = aten.unsqueeze(self, 0) if self.ndim == 1 else self
    if center:
        x = aten.squeeze(aten.pad(aten.unsqueeze(x, 1), (n_fft // 2, n_fft // 2), pad_mode), 1)
    if shape_env.less(x.dims[1], n_fft):
        raise ShapeError(f"stft: expected 0 < n_fft <= {x.dims[1]}, but got n_fft={n_fft}")
    frames = aten.unfold(x, 1, n_fft, hop) * window
    half = not is_complex if onesided is None else onesided
    if half and is_complex:
        raise ShapeError("Cannot have onesided output if window or input is complex")
    transform = aten.fft_rfft if half else aten.fft_fft
    out = aten.transpose(transform(frames, None, -1, "ortho" if normalized else None), 1, 2)
    out = aten.squeeze(out, 0) if self.ndim == 1 else out
    return out if return_complex is not False else aten.view_as_real(out)


define(
    "aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    "bool center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None, "
    "bool? align_to_window=None) -> Tensor",
    "The Fourier transforms of windows of a signal, hop_length (n_fft // 4) apart: [..., time] -> [..., "
    "frequency, window].",
    precision="float32",
    decompose=_stft,
    samples=draw(
        case(F(2, 20), 8, 2, window=P(8), return_complex=True),
        case(F(20), 6, 3, 4, center=False, onesided=False, return_complex=True),
    ),
)


def _istft(
    self: Any, n_fft: int, hop_length: int | None, win_length: int | None, window: Any, center: bool, normalized: bool,
    onesided: bool | None, length: int | None, return_complex: bool,
) -> Any:
    hop, width = _widths(n_fft, hop_length, win_length)
    if not self.dtype.is_complex or self.ndim not in (2, 3):
        raise ShapeError(
            f"istft requires a complex-valued input tensor of 2 or 3 dims, but got {self.dtype} with {self.ndim}"
        )
    for d in self.dims:
        shape_env.refuse_less(d, 1, lambda: ShapeError(f"istft: input tensor cannot be empty: {dims_text(self.dims)}"))
    _check_order(hop, width, f"istft: expected 0 < hop_length <= win_length, but got hop_length={hop}")
    x = aten.unsqueeze(self, 0) if self.ndim == 2 else self
    count = x.dims[2]
    half = not shape_env.equal(x.dims[1], n_fft) if onesided is None else onesided
    bins = n_fft // 2 + 1 if half else n_fft
    if not shape_env.equal(x.dims[1], bins):
        raise ShapeError(
            f"istft: expected the frequency dimension to be {bins} for n_fft={n_fft} and onesided={half}, "
            f"but got {x.dims[1]}"
        )
    if half and return_complex:
        raise ShapeError("istft: cannot have onesided input and return a complex signal")
    window = _centred_window("istft", window, n_fft, width, x)
    norm = "ortho" if normalized else None
    rows = aten.transpose(x, 1, 2)
    if return_complex:
        frames = aten.fft_ifft(rows, None, -1, norm) * window
    else:  # a real signal's second half of frequencies says nothing new, and is not looked at
        frames = aten.fft_irfft(aten.slice(rows, -1, 0, n_fft // 2 + 1), n_fft, -1, norm) * window
    whole = (count - 1) * hop + n_fft
    signal = aten.unfold_backward(frames, (x.dims[0], whole), 1, n_fft, hop)
    weight = aten.unfold_backward(aten.expand(aten.square(window), (1, count, n_fft)), (1, whole), 1, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - start
    kept = end if length is None else dm.minimum(end, whole)
    signal, weight = aten.slice(signal, 1, start, kept), aten.slice(weight, 1, start, kept)
    out = signal / aten._checked_values(
        weight, 1e-11, None, "istft: the windows leave gaps; their sum of squares must not be 0 anywhere"
    )
    if length is not None and shape_env.less(whole, end):
        out = aten.constant_pad_nd(out, (0, end - whole))
    return aten.squeeze(out, 0) if self.ndim == 2 else out


define(
    "aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    "bool center=True, bool normalized=False, bool? onesided=None, int? length=None, "
    "bool return_complex=False) -> Tensor",
    "The signal whose stft with these options is nearest to a spectrogram, by summing overlapping windows: "
    "[..., frequency, window] -> [..., time].",
    decompose=_istft,
)
