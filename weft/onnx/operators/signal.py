"""Spectra: Fourier transforms, windows, scales of hearing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft
from weft.onnx.dtypes import dtype_of
from weft.onnx.registry import operator
from weft.onnx.values import Host, number, numbers
from weft.tensor.tensor import Tensor


def _complex(x: Tensor) -> Tensor:
    if x.shape[-1] == 1:
        x = weft.cat([x, weft.zeros_like(x)], -1)
    return weft.view_as_complex(x.contiguous())


@operator("DFT")
def dft(
    x: Tensor, length: Host = None, axis: Host = None, *, axis_: int = 1, inverse: int = 0, onesided: int = 0,
    opset: int,
) -> Tensor:
    at = (axis_ if opset < 20 else -2) if axis is None else number(axis, "axis")
    at = at % x.ndim
    count = x.shape[at] if length is None else number(length, "dft_length")
    if inverse and onesided:  # the half of a spectrum whose signal is real
        transformed = weft.fft.irfft(_complex(x), n=count if length is not None else None, dim=at)
        return transformed.unsqueeze(-1)
    values = _complex(x)
    if inverse:
        return weft.view_as_real(weft.fft.ifft(values, n=count, dim=at))
    transformed = weft.fft.fft(values, n=count, dim=at)
    return weft.view_as_real(transformed.narrow(at, 0, count // 2 + 1) if onesided else transformed)


@operator("STFT")
def stft(
    signal: Tensor, frame_step: Host, window: Tensor | None = None, frame_length: Host = None, *, onesided: int = 1
) -> Tensor:
    step = number(frame_step, "frame_step")
    length = number(frame_length, "frame_length") if frame_length is not None else window.shape[0]  # type: ignore[union-attr]
    values = _complex(signal) if signal.ndim == 3 else signal
    count = (values.shape[1] - length) // step + 1
    places = (weft.arange(count) * step)[:, None] + weft.arange(length)[None, :]
    frames = values[:, places]
    frames = frames if window is None else frames * window
    spectra = weft.fft.fft(frames, dim=-1)
    spectra = spectra.narrow(-1, 0, length // 2 + 1) if onesided else spectra
    return weft.view_as_real(spectra.contiguous())


def _window(name: str, terms: tuple[float, ...]) -> None:
    def run(size: Host, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
        n = number(size, "the size of a window")
        angle = weft.arange(n).to(weft.float64) * (2 * math.pi / (n if periodic else max(n - 1, 1)))
        window = weft.zeros((n,), dtype=weft.float64)
        for k, term in enumerate(terms):
            window = window + (-1) ** k * term * weft.cos(k * angle)
        return window.to(dtype_of(output_datatype))

    operator(name)(run)


_window("HannWindow", (0.5, 0.5))
_window("HammingWindow", (25 / 46, 21 / 46))
_window("BlackmanWindow", (0.42, 0.5, 0.08))


@operator("MelWeightMatrix")
def mel_weights(
    bins: Host, length: Host, rate: Host, low: Host, high: Host, *, output_datatype: int = 1
) -> Tensor:
    count, dft_length, sample_rate, lower, upper = (
        numbers(v, "an input of MelWeightMatrix")[0] for v in (bins, length, rate, low, high)
    )
    scale = [2595 * math.log10(1 + f / 700) for f in (lower, upper)]
    places = np.arange(count + 2) * ((scale[1] - scale[0]) / (count + 2)) + scale[0]
    edges = ((dft_length + 1) * (700 * (10 ** (places / 2595) - 1)) // sample_rate).astype(int)
    weights = np.zeros((dft_length // 2 + 1, count))
    for i in range(count):
        start, centre, end = edges[i : i + 3]
        if centre == start:
            weights[centre, i] = 1
        for j in range(start, centre + 1):
            if centre != start:
                weights[j, i] = (j - start) / (centre - start)
        for j in range(centre, end):
            if end != centre:
                weights[j, i] = (end - j) / (end - centre)
    return weft.from_numpy(weights).to(dtype_of(output_datatype))


__all__ = ["Any"]
