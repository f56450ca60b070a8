"""Spectra over several dims, orders of frequencies, windows, and short-time transforms,
against NumPy and direct sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

Rng = np.random.Generator


def _tensor(rng: Rng, *dims: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(dims))


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_several_dims(norm: str | None, rng: Rng) -> None:
    x = _tensor(rng, 3, 4, 5)
    z = weft.complex(x, _tensor(rng, 3, 4, 5))
    both: list[tuple[str, weft.Tensor, dict[str, Any], dict[str, Any]]] = [  # options here, and as NumPy names them
        ("rfft2", x, {}, {}), ("rfftn", x, {"dim": (2, 0)}, {"axes": (2, 0)}),
        ("irfft2", z, {"s": (3, 7)}, {"s": (3, 7)}),
        ("irfftn", z, {"dim": (0, 1)}, {"axes": (0, 1)}), ("hfft", z, {"n": 6}, {"n": 6}),
        ("ihfft", x, {"dim": 1}, {"axis": 1}),
    ]
    for name, given, ours, theirs in both:
        np.testing.assert_allclose(
            getattr(weft.fft, name)(given, norm=norm, **ours).numpy(),
            getattr(np.fft, name)(given.numpy(), norm=norm, **theirs), atol=1e-12,
        )
    assert weft.autograd.gradcheck(lambda v: weft.fft.rfftn(v).abs().sum(), x[:, :, :3].clone().requires_grad_())


def test_orders_of_frequencies(rng: Rng) -> None:
    for n in (4, 5):
        np.testing.assert_allclose(weft.fft.fftfreq(n, 0.3, dtype=weft.float64).numpy(), np.fft.fftfreq(n, 0.3))
        np.testing.assert_allclose(weft.fft.rfftfreq(n, 0.3, dtype=weft.float64).numpy(), np.fft.rfftfreq(n, 0.3))
    x = _tensor(rng, 4, 5)
    for dim in (None, (1,), (0, 1)):
        np.testing.assert_array_equal(weft.fft.fftshift(x, dim).numpy(), np.fft.fftshift(x.numpy(), dim))
        assert weft.equal(weft.fft.ifftshift(weft.fft.fftshift(x, dim), dim), x)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("hann", np.hanning), ("hamming", np.hamming), ("blackman", np.blackman), ("bartlett", np.bartlett)],
)
def test_windows(name: str, expected: Any, rng: Rng) -> None:
    make = getattr(weft, f"{name}_window")
    n = int(rng.integers(2, 9))
    np.testing.assert_allclose(make(n, periodic=False, dtype=weft.float64).numpy(), expected(n), atol=1e-15)
    np.testing.assert_allclose(make(n, dtype=weft.float64).numpy(), expected(n + 1)[:-1], atol=1e-15)
    assert make(1).tolist() == [1]
    assert make(0).shape == (0,)
    assert make(n, requires_grad=True).requires_grad


def test_kaisers_window() -> None:
    np.testing.assert_allclose(weft.kaiser_window(7, False, 5.0, dtype=weft.float64).numpy(), np.kaiser(7, 5.0))


def test_short_time_transform_by_direct_sums(rng: Rng) -> None:
    n, hop, width = 8, int(rng.integers(1, 4)), int(rng.integers(4, 9))
    x, window = _tensor(rng, 20), _tensor(rng, width)
    full = np.zeros(n)
    full[(n - width) // 2 : (n - width) // 2 + width] = window.numpy()
    padded = np.pad(x.numpy(), n // 2, mode="reflect")
    frames = [np.fft.rfft(padded[i : i + n] * full) for i in range(0, len(padded) - n + 1, hop)]
    np.testing.assert_allclose(
        weft.stft(x, n, hop, width, window, return_complex=True).numpy(), np.stack(frames, 1), atol=1e-12
    )
    assert weft.autograd.gradcheck(
        lambda v: x[:9].stft(4, 2, window=v, return_complex=True), _tensor(rng, 4).requires_grad_()
    )


@pytest.mark.parametrize("center", [False, True])
def test_a_signal_comes_back(center: bool, rng: Rng) -> None:
    x, window = _tensor(rng, 2, 26), weft.hann_window(8, dtype=weft.float64) + 0.1
    spectrum = x.stft(8, 3, window=window, center=center, normalized=True, return_complex=True)
    back = spectrum.istft(8, 3, window=window, center=center, normalized=True)
    np.testing.assert_allclose(back.numpy(), x[:, : back.shape[1]].numpy(), atol=1e-12)
    assert spectrum.istft(8, 3, window=window, center=center, normalized=True, length=30).shape == (2, 30)
    again = weft.compile(lambda v: v.stft(8, 3, window=window, center=center, return_complex=True).istft(
        8, 3, window=window, center=center
    ))
    for n in (26, 32):
        y = _tensor(rng, 2, n)
        np.testing.assert_allclose(again(y).numpy(), y[:, : again(y).shape[1]].numpy(), atol=1e-12)


def test_refused_short_time_transforms() -> None:
    x = weft.zeros(20)
    for refused in (
        lambda: x.stft(8), lambda: x.stft(8, 2, 9, return_complex=True),
        lambda: x.stft(8, 2, window=weft.ones(5), return_complex=True),
        lambda: x[:4].stft(8, 2, center=False, return_complex=True), lambda: weft.istft(weft.ones(5, 3), 8),
        lambda: weft.istft(
            x.stft(8, 8, window=weft.hann_window(8), return_complex=True), 8, 8, window=weft.hann_window(8)
        ),
    ):
        with pytest.raises(RuntimeError, match=r"stft|fft"):
            refused()
