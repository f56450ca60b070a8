"""Fourier transforms: native, beside their definition in float64, with gradients; any length, dim, norm and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

LENGTHS = (1, 2, 3, 4, 30, 49, 97, 128)  # nothing, factors, primes, powers of two; others are drawn
PRECISIONS = [(np.float32, 2e-7), (np.float64, 4e-16)]


def close(got: Any, wanted: np.ndarray, precision: float) -> None:
    """The error is a few roundings of the whole signal's size."""
    assert got.shape == wanted.shape
    if wanted.size:
        bound = precision * (2 + np.log2(max(wanted.shape))) * max(np.linalg.norm(wanted), 1e-300)
        assert np.linalg.norm(got.detach().numpy() - wanted) <= bound


def signal(rng: np.random.Generator, dims: tuple[int, ...], is_complex: bool) -> np.ndarray:
    x: np.ndarray = rng.standard_normal(dims)
    return x + 1j * rng.standard_normal(dims) if is_complex else x


def of(x: np.ndarray, dtype: Any) -> weft.Tensor:
    return weft.from_numpy(x.astype(np.result_type(dtype, np.complex64) if np.iscomplexobj(x) else dtype))


@pytest.mark.parametrize(("dtype", "precision"), PRECISIONS, ids=["float32", "float64"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_lengths_dims_and_norms(name: str, dtype: Any, precision: float, rng: np.random.Generator) -> None:
    ours, theirs = getattr(weft.fft, name), getattr(np.fft, name)
    rows = weft.compile(lambda x, n: ours(x, n, -1, "ortho"))
    columns = weft.compile(lambda x: ours(x, None, 0, "forward"))
    weft.counters.reset()
    for length in (*LENGTHS, *(int(n) for n in rng.integers(5, 300, 2))):
        count = int(rng.integers(1, 40))
        have = max(1, (length // 2 + 1 if name == "irfft" else length) + int(rng.integers(-2, 3)))
        x = of(signal(rng, (count, have), name != "rfft"), dtype)
        wide = x.numpy().astype(np.result_type(x.numpy().dtype, np.float64))
        close(rows(x, length), theirs(wide, length, -1, "ortho"), precision)
        if name != "irfft" or have > 1:
            close(columns(x.t().contiguous()), theirs(wide.T, None, 0, "forward"), precision)
    assert weft.counters.foreign_segments == 0


@pytest.mark.parametrize("is_complex", [True, False], ids=["complex", "real"])
def test_gradients_and_layouts(is_complex: bool, rng: np.random.Generator) -> None:
    """Against the matrix of the transform."""

    def step(x: weft.Tensor) -> Any:
        spectrum = weft.fft.fft(weft.fft.rfft(x, dim=1) if not is_complex else x, dim=-1)
        first = weft.autograd.grad((spectrum.abs() ** 4).sum(), x, create_graph=True)[0]
        return spectrum.detach(), first.detach(), weft.autograd.grad((first.abs() ** 2).sum(), x)[0]

    compiled = weft.compile(step)
    n = int(rng.integers(3, 20))
    for dims, strided in (((3, n, 4), False), ((4, n, 3), True)):
        data = weft.from_numpy(signal(rng, dims, is_complex))
        x = (data.transpose(0, 2) if strided else data).requires_grad_()
        x = x if not strided else x.detach().transpose(1, 2).requires_grad_()
        spectrum, first, second = compiled(x)
        wide = x.detach().numpy()
        part = wide if is_complex else np.fft.rfft(wide, axis=1)
        close(spectrum, np.fft.fft(part, axis=-1), 4e-16)
        for got, eager in zip((first, second), step(x)[1:], strict=True):
            close(got, eager.numpy(), 4e-15)

    def loss(a: np.ndarray) -> float:
        part = a if is_complex else np.fft.rfft(a, axis=1)
        return float((np.abs(np.fft.fft(part, axis=-1)) ** 4).sum())

    towards = signal(rng, wide.shape, is_complex)
    change = (loss(wide + 1e-5 * towards) - loss(wide - 1e-5 * towards)) / 2e-5
    np.testing.assert_allclose(np.vdot(first.numpy(), towards).real, change, rtol=1e-6)


def test_several_dims_and_what_is_left_of_them(rng: np.random.Generator) -> None:
    compiled = weft.compile(lambda x: weft.fft.irfft2(weft.fft.fft2(x)[..., : x.shape[-1] // 2 + 1], x.shape[-2:]))
    weft.counters.reset()
    for dims in ((2, 12, 10), (1, 7, 5), (0, 4, 4)):
        x = rng.standard_normal(dims)
        close(compiled(weft.from_numpy(x)), x, 1e-15)
    assert weft.counters.foreign_segments == 0


def test_special_values_stay_in_their_signal(rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 24))
    x[2, 5], x[4, 7] = np.nan, np.inf
    got = weft.compile(weft.fft.fft)(weft.from_numpy(x)).numpy()
    assert np.isfinite(got[[0, 1, 3, 5]]).all() and not np.isfinite(got[[2, 4]]).any()
    assert (weft.compile(weft.fft.fft)(weft.zeros(3, 8)).numpy() == 0).all()


@pytest.mark.parametrize(("dtype", "precision"), PRECISIONS, ids=["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_real_signals_of_even_length_are_halved(
    axis: int, dtype: Any, precision: float, rng: np.random.Generator
) -> None:
    """Sizes that the program knows: two elements, a prime's double, a power of two, signals too short and too long."""
    for length, extra in ((2, 1), (22, -3), (64, 0)):
        def both(x: weft.Tensor, length: int = length) -> Any:
            spectrum = weft.fft.rfft(x, length, axis)
            return spectrum, weft.fft.irfft(spectrum * (1 - 2j), length, axis)

        dims = [int(rng.integers(4, 30))] * 2
        dims[axis] = max(1, length + extra)
        x = of(rng.standard_normal(dims), dtype)
        spectrum, back = weft.compile(both)(x)
        wanted = np.fft.rfft(x.numpy().astype(np.float64), length, axis)
        close(spectrum, wanted, precision)
        close(back, np.fft.irfft(wanted * (1 - 2j), length, axis), 2 * precision)
