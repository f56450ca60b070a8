"""Windows of signals against NumPy's and closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

windows = weft.signal.windows
NUMPY: dict[str, Callable[[int], Any]] = {
    "bartlett": np.bartlett, "blackman": np.blackman, "hamming": np.hamming, "hann": np.hanning,
    "kaiser": lambda n: np.kaiser(n, 12.0),
}


@pytest.mark.parametrize("name", NUMPY)
def test_those_that_numpy_has(name: str, rng: np.random.Generator) -> None:
    for n in (1, 2, 3, int(rng.integers(4, 40))):
        whole = NUMPY[name](n)
        window = getattr(windows, name)(n, dtype=weft.float64)
        np.testing.assert_allclose(window.numpy(), whole, rtol=1e-9, atol=1e-12)
        periodic = getattr(windows, name)(n, sym=False, dtype=weft.float64)
        np.testing.assert_allclose(periodic.numpy(), NUMPY[name](n + 1)[:n] if n > 1 else [1.0], rtol=1e-9, atol=1e-12)


def test_the_others(rng: np.random.Generator) -> None:
    n = int(rng.integers(2, 30))
    k, x = np.arange(n), 2 * np.pi * np.arange(n) / (n - 1)
    expected = {
        "cosine": (np.sin((k + 0.5) * np.pi / n), {}),
        "exponential": (np.exp(-np.abs(k - (n - 1) / 2) / 2.5), {"tau": 2.5}),
        "gaussian": (np.exp(-(((k - (n - 1) / 2) / 0.7) ** 2) / 2), {"std": 0.7}),
        "general_cosine": (0.5 - 0.3 * np.cos(x) + 0.2 * np.cos(2 * x), {"a": [0.5, 0.3, 0.2]}),
        "general_hamming": (0.3 - 0.7 * np.cos(x), {"alpha": 0.3}),
        "nuttall": (
            0.3635819 - 0.4891775 * np.cos(x) + 0.1365995 * np.cos(2 * x) - 0.0106411 * np.cos(3 * x), {},
        ),
    }
    for name, (values, options) in expected.items():
        window = getattr(windows, name)(n, dtype=weft.float64, **options)
        np.testing.assert_allclose(window.numpy(), values, rtol=1e-9, atol=1e-12)
    moved = windows.exponential(n, center=1.5, sym=False, dtype=weft.float64)
    np.testing.assert_allclose(moved.numpy(), np.exp(-np.abs(k - 1.5)), rtol=1e-12)


def test_options_and_sizes() -> None:
    for name in windows.__all__:
        make = getattr(windows, name)
        options = {"a": [0.5, 0.5]} if name == "general_cosine" else {}
        assert make(0, **options).shape == (0,) and make(1, **options).tolist() == [1.0]
        made = make(5, requires_grad=True, **options)
        assert made.dtype is weft.float32 and made.requires_grad
        compiled = weft.compile(lambda x, make=make, options=options: x * make(5, **options))
        weft.testing.assert_close(compiled(weft.full((5,), 2.0)), 2 * made.detach())


def test_what_is_refused() -> None:
    for call, text in (
        (lambda: windows.hann(-1), "non-negative window length"),
        (lambda: windows.gaussian(3, std=0), "must be positive"),
        (lambda: windows.hann(3, dtype=weft.float16), "float32 or float64"),
        (lambda: windows.general_cosine(3, a=[]), "cannot be empty"),
        (lambda: windows.kaiser(3, beta=-1), "non-negative"),
        (lambda: windows.exponential(3, center=1.0), "must be None"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="list/tuple"):
        windows.general_cosine(3, a=2)  # type: ignore[arg-type]
