"""Views under capture: bytes read as another dtype, and windows that show an element several times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


def _bits_written(x: weft.Tensor) -> Any:
    y = x * 2
    y.view(weft.int32)[1:].fill_(0)
    y.view(weft.uint8)[:, ::2].fill_(0)
    return y


def _real_part_written(x: weft.Tensor) -> Any:
    y = weft.complex(x, x)
    weft.view_as_real(y)[..., 0].fill_(1)
    return y


def _window_written(x: weft.Tensor) -> Any:
    y = x.clone()
    y.unfold(0, 2, 1)[0].add_(1)
    y.expand(3, *y.shape)[0, 1:].mul_(2)
    return y


PROGRAMS: dict[str, Callable[[weft.Tensor], Any]] = {
    "bits": lambda x: (
        x.view(weft.int32) + 1, (x * 2).view(weft.int32), (x + 1).view(weft.int32).view(weft.float32) * 2
    ),
    "narrower and wider": lambda x: (
        (x * 2).view(weft.uint8)[1:], (x * 2).view(weft.int16)[:, 1:].long() + 1, (x.double() * 2).view(weft.float32)
    ),
    "bits written": _bits_written,
    "real part written": _real_part_written,
    "parts of complex": lambda x: (
        weft.view_as_real(weft.complex(x, x * 2)) + 1, (weft.complex(x, -x) * weft.complex(x, x)).abs()
    ),
    "window written": _window_written,
}


@pytest.mark.parametrize("backend", ["llvm", "numpy", "interpret"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_as_eager(name: str, backend: str, rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((int(rng.integers(3, 40)), 4)).astype(np.float32))
    eager, captured = PROGRAMS[name](x), weft.compile(PROGRAMS[name], backend=backend)(x)
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (eager, captured)), strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-6)


def test_the_gradient_of_a_written_window(rng: np.random.Generator) -> None:
    w = weft.from_numpy(rng.standard_normal(5)).requires_grad_()
    scale = rng.standard_normal(5)

    def step(s: weft.Tensor) -> Any:
        y = w * 1.0
        y.unfold(0, 2, 1)[1].mul_(3)
        (y * s).sum().backward()
        out = w.grad
        w.grad = None
        return out

    for wrap in (lambda f: f, weft.compile):
        np.testing.assert_allclose(wrap(step)(weft.from_numpy(scale)).numpy(), scale * [1, 3, 3, 1, 1])


@pytest.mark.parametrize("backend", ["llvm", "numpy", "interpret"])
def test_complex_views_are_copied_somehow(backend: str, rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> Any:
        y = x.t() * 2
        return [
            y, x.t().clone(), x.t().reshape(-1), x.t().contiguous(), x.flip(0), y.roll(1, 0), weft.cat([x, x]).t(),
            x.expand(2, 3, 2).clone(), x.diagonal().clone(), x.unfold(0, 2, 1).clone(),
            weft.cond(x.abs().sum() > 0, lambda: x.t() * 3, lambda: x.t() + 1),
        ]

    x = weft.from_numpy((rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))).astype(np.complex64))
    for a, b in zip(weft.compile(step, backend=backend)(x), step(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


def test_windows_of_a_row_that_a_tensor_picks() -> None:
    def step(x: weft.Tensor, i: weft.Tensor) -> weft.Tensor:
        y = x.clone()
        y[i].unfold(-1, 2, 1)[1].add_(10)
        return y

    x, i = weft.arange(6.0).view(2, 3), weft.tensor(1)
    assert weft.compile(step)(x, i).tolist() == step(x, i).tolist() == [[0, 1, 2], [3, 14, 15]]


def test_a_window_that_a_tensor_picks_is_refused() -> None:
    def step(x: weft.Tensor, i: weft.Tensor) -> weft.Tensor:
        y = x.clone()
        y.unfold(0, 2, 1)[i].add_(10)
        return y

    with pytest.raises(weft.WeftError, match="overlapping windows that a tensor picks"):
        weft.compile(step)(weft.arange(6.0), weft.tensor(1))


def test_one_value_written_to_repeated_elements() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        y = x.clone()
        y[0].expand(3, 2).zero_()
        y.expand(4, 3, 2)[2:, 1].fill_(7)
        return y

    x = weft.arange(6.0).view(3, 2)
    assert weft.compile(step)(x).tolist() == step(x).tolist() == [[0, 0], [7, 7], [4, 5]]


def test_windows_in_a_row_across_a_size_that_is_1() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        y = x.clone()
        y.unfold(2, 2, 2).transpose(2, 1).view(-1).add_(2)
        return y

    compiled = weft.compile(step)
    for dims in ((6, 1, 6), (3, 1, 4)):
        assert compiled(weft.zeros(dims)).tolist() == step(weft.zeros(dims)).tolist()


def test_a_part_whose_size_is_known_from_its_source_alone() -> None:
    def step(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        windows = x.unfold(0, 1, 2)
        part = windows.tensor_split(2, 0)[1]
        windows -= 3
        return x, windows, part

    found, wanted = weft.compile(step)(weft.arange(3)), step(weft.arange(3))
    assert [t.tolist() for t in found] == [t.tolist() for t in wanted]
