"""Complex numbers in native code: elements of two parts, sums and products of parts; values beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "arithmetic": (lambda x, y: x * y - x / (y + 3) + 2j * x, lambda x, y: x * y - x / (y + 3) + 2j * x),
    "functions": (lambda x, y: weft.exp(x) * weft.log(y) + weft.sqrt(x), lambda x, y: np.exp(x) * np.log(y) + x**0.5),
    "to real": (lambda x, y: x.abs() * y.angle() + x.real, lambda x, y: np.abs(x) * np.angle(y) + x.real),
    "sums": (lambda x, y: (x * y).sum(0) + x.mean(), lambda x, y: (x * y).sum(0) + x.mean()),
    "scan": (lambda x, y: (x * y).cumsum(1), lambda x, y: (x * y).cumsum(1)),
    "product": (lambda x, y: x @ y.conj().t(), lambda x, y: x @ y.conj().T),
    "views": (lambda x, y: x[:, ::2].t() * 2 - y[:, ::2].t().conj(), lambda x, y: x[:, ::2].T * 2 - y[:, ::2].T.conj()),
    "joined": (lambda x, y: weft.cat([x, y.flip(0)], 1), lambda x, y: np.concatenate([x, y[::-1]], 1)),
    "pairs": (lambda x, y: weft.view_as_real(x * y), lambda x, y: np.stack([(x * y).real, (x * y).imag], -1)),
    "chosen": (lambda x, y: weft.where(x.real > 0, x, y), lambda x, y: np.where(x.real > 0, x, y)),
    "masked": (lambda x, y: (x * y)[x.imag > 0], lambda x, y: (x * y)[x.imag > 0]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["complex64", "complex128"])
def test_values_and_gradients(name: str, dtype: Any, rng: np.random.Generator) -> None:
    ours, theirs = CASES[name]

    def step(x: weft.Tensor, y: weft.Tensor) -> Any:
        z = ours(x, y)
        return z.detach(), *weft.autograd.grad((z.abs() ** 2).sum(), (x, y))

    compiled = weft.compile(step)
    weft.counters.reset()
    tolerance = 2e-5 if dtype is np.complex64 else 1e-12
    for dims in ((1, 1), (3, 2), (2, 17), tuple(int(n) for n in rng.integers(3, 40, 2))):
        wide = [rng.standard_normal(dims) + 1j * rng.standard_normal(dims) for _ in range(2)]
        x, y = (weft.from_numpy(w.astype(dtype)).requires_grad_() for w in wide)
        value, *grads = compiled(x, y)
        np.testing.assert_allclose(value.numpy(), theirs(*wide), rtol=tolerance, atol=tolerance * 10)
        towards = rng.standard_normal(dims) + 1j * rng.standard_normal(dims)
        size = float((np.abs(theirs(*wide)) ** 2).sum())
        for k, grad in enumerate(grads):  # central differences
            ends = [[w + s * 1e-6 * towards * (i == k) for i, w in enumerate(wide)] for s in (1, -1)]
            if name in ("chosen", "masked"):  # (where no choice changes)
                if not all(np.array_equal(e[0].real > 0, wide[0].real > 0) for e in ends):
                    continue
                if not all(np.array_equal(e[0].imag > 0, wide[0].imag > 0) for e in ends):
                    continue
            high, low = (float((np.abs(theirs(*e)) ** 2).sum()) for e in ends)
            slope = float(np.vdot(grad.numpy(), towards).real)
            assert abs(slope - (high - low) / 2e-6) <= 2e-3 * (abs(slope) + size + 1)
    if (name, dtype) != ("masked", np.complex128):  # (16 bytes are more than masks move)
        assert weft.counters.foreign_segments == 0


def test_real_numbers_become_complex_ones_and_back(rng: np.random.Generator) -> None:
    compiled = weft.compile(lambda a, b: (weft.complex(a, b) * weft.polar(a.abs(), b)).real + weft.view_as_complex(
        weft.stack([a, b], -1)).imag)
    weft.counters.reset()
    for n in (0, 1, 2, 50):
        a, b = rng.standard_normal(n), rng.standard_normal(n)
        got = compiled(weft.from_numpy(a), weft.from_numpy(b)).numpy()
        np.testing.assert_allclose(got, ((a + 1j * b) * np.abs(a) * np.exp(1j * b)).real + b, rtol=1e-12, atol=1e-13)
    assert weft.counters.foreign_segments == 0


def test_indices_that_repeat_add_up(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((5, 3)) + 1j * rng.standard_normal((5, 3))).requires_grad_()
    index = weft.tensor([0, 4, 4, 2])
    weights = weft.tensor([[1j], [2], [3j], [4]])
    step = weft.compile(lambda x: weft.autograd.grad((x[index] * weights).abs().sum(), x)[0])
    weft.counters.reset()
    got, at = step(x).numpy(), x.detach().numpy()
    wanted = np.zeros_like(at)
    for i, weight in zip((0, 4, 4, 2), (1, 2, 3, 4), strict=True):
        wanted[i] += weight * at[i] / np.abs(at[i])
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert weft.counters.foreign_segments == 0
