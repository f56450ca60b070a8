"""A complex window leaves no gap where its square is not 0, whatever its sign: istft undoes stft, with gradients;
compiled, the window's size may be a size of the program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft

Program = Callable[[weft.Tensor, weft.Tensor], weft.Tensor]


def _spectrum(x: weft.Tensor, window: weft.Tensor) -> weft.Tensor:
    n = window.numel()
    return weft.stft(x, n, n // 2, window=window, center=False, onesided=False, return_complex=True)


def _signal(spectrum: weft.Tensor, window: weft.Tensor) -> weft.Tensor:
    n = window.numel()
    return weft.istft(spectrum, n, n // 2, window=window, center=False, onesided=False, return_complex=True)


def test_there_and_back(rng: np.random.Generator) -> None:
    forth, back = weft.compile(_spectrum), weft.compile(_signal)
    for half in rng.permutation(np.arange(2, 6))[:2]:
        _there_and_back(2 * int(half), forth, back, rng)


def _there_and_back(n: int, forth: Program, back: Program, rng: np.random.Generator) -> None:
    window = weft.from_numpy(rng.uniform(0.1, 0.3, n) + 1j * rng.uniform(1, 2, n))  # squares with real parts below 0
    x = weft.from_numpy(rng.standard_normal((2, 2 * n)) + 1j * rng.standard_normal((2, 2 * n)))
    spectrum = _spectrum(x, window)
    assert weft.allclose(_signal(spectrum, window), x)
    assert weft.allclose(forth(x, window), spectrum) and weft.allclose(back(spectrum, window), x)
    assert weft.autograd.gradcheck(lambda s: _signal(s, window), spectrum.detach().requires_grad_())
    with pytest.raises(RuntimeError, match="gaps"):
        _signal(spectrum, weft.zeros_like(window))
