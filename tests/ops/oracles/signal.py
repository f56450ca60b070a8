"""Windows of signals, and transforms as sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.oracles.shapes import padded
from tests.ops.oracles.table import given_floats as given
from weft.catalogue.samples import Drawn, P, case
from weft.types import dtype as dt

Array = Any


def window(made: Any) -> Any:
    """A window of n: periodic ones are the first n of n + 1."""
    return lambda n, periodic=True, *rest: made(n + 1, *rest)[:-1] if periodic and n > 1 else made(n, *rest)


given(
    "bartlett_window", window(lambda n, *_: np.bartlett(n)), case(6, dtype=dt.float64),
    case(5, False, dtype=dt.float64), case(1),
)
given(
    "blackman_window", window(lambda n, *_: np.blackman(n)), case(6, dtype=dt.float64), case(5, False, dtype=dt.float64)
)
given("hann_window", window(lambda n, *_: np.hanning(n)), case(6, dtype=dt.float64), case(5, False, dtype=dt.float64))
given(
    "hamming_window", window(lambda n, a, b, *_: a - b * np.cos(2 * np.pi * np.arange(n) / (n - 1))),
    case(6, dtype=dt.float64), case(5, False, 0.6, 0.3, dtype=dt.float64),
)
given(
    "kaiser_window", window(lambda n, beta, *_: np.kaiser(n, beta)), case(6, dtype=dt.float64),
    case(5, False, 8.0, dtype=dt.float64),
)


def irfft(x: Array, n: int | None, dim: int, norm: str | None) -> Array:
    return np.fft.irfft(x, n, dim, norm)


def centred(win: Any, width: int, n: int) -> Array:
    left = (n - width) // 2
    return np.pad(np.ones(width) if win is None else win, (left, n - width - left))


def stft(
    x: Array, n: int, hop: Any, width: Any, win: Any, center: bool, mode: str, normalized: bool, onesided: Any,
    is_complex: Any, *_: Any,
) -> Array:
    if x.ndim == 1:
        return stft(x[None], n, hop, width, win, center, mode, normalized, onesided, is_complex)[0]
    hop, win = hop or n // 4, centred(win, width or n, n)
    x = padded(x, (n // 2, n // 2), mode) if center else x
    half = not np.iscomplexobj(x) if onesided is None else onesided
    turns = np.exp(-2j * np.pi * np.outer(np.arange(n // 2 + 1 if half else n), np.arange(n)) / n)
    out = np.stack([(x[:, t:t + n] * win) @ turns.T for t in range(0, x.shape[1] - n + 1, hop)], -1)
    return out / np.sqrt(n) if normalized else out


def istft(
    spectra: Array, n: int, hop: Any, width: Any, win: Any, center: bool, normalized: bool, onesided: Any, length: Any,
    is_complex: bool,
) -> Array:
    if spectra.ndim == 2:
        return istft(spectra[None], n, hop, width, win, center, normalized, onesided, length, is_complex)[0]
    hop, win, count = hop or n // 4, centred(win, width or n, n), spectra.shape[2]
    total = n + hop * (count - 1)
    out, weight = np.zeros((len(spectra), total)), np.zeros(total)
    for t in range(count):
        frame = (
            np.fft.irfft(spectra[:, :, t], n, -1, "ortho" if normalized else None) if spectra.shape[1] == n // 2 + 1
            else np.fft.ifft(spectra[:, :, t], n, -1).real
        )
        out[:, t * hop:t * hop + n] += frame * win
        weight[t * hop:t * hop + n] += win**2
    start = n // 2 if center else 0
    end = total - start if length is None else start + length
    return out[:, start:end] / weight[start:end]


given("fft_irfft", irfft)
given("stft", stft)
given(
    "istft", istft, case(Drawn("complex", (5, 6)), 8, 2, window=P(8)),
    case(Drawn("complex", (2, 5, 6)), 8, 4, normalized=True),
)
