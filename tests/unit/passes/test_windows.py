"""Convolutions, transposed convolutions, pooling and unfold, opened by the compiler: eager's values and gradients,
no host segments, any sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

F = weft.nn.functional
Function = Callable[..., Any]


def _tensor(rng: np.random.Generator, *dims: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(dims)).requires_grad_()


def _step(function: Function) -> Function:
    """Value, gradients, and gradients of a norm of the gradients."""

    def step(*tensors: Any) -> Any:
        y = function(*tensors)
        firsts = weft.autograd.grad((y * y.sin()).sum(), tensors, create_graph=True)
        seconds = weft.autograd.grad(sum((g * g).sum() for g in firsts), tensors, allow_unused=True)
        return y.detach(), [g.detach() for g in firsts], seconds

    return step


def _check(function: Function, draws: list[tuple[weft.Tensor, ...]], captures: int = 1) -> None:
    """Compiled against eager for several sets of operands, all by one program."""
    step = _step(function)
    compiled = weft.compile(step)
    weft.counters.reset()
    for tensors in draws:
        for got, expected in zip(_flat(compiled(*tensors)), _flat(step(*tensors)), strict=True):
            np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)
    assert weft.counters.captures <= captures and weft.counters.foreign_segments == 0


def _flat(results: Any) -> list[weft.Tensor]:
    y, firsts, seconds = results
    return [y, *firsts, *[s for s in seconds if s is not None]]


CASES = [
    (1, {"stride": 1, "padding": 0}, 1), (1, {"stride": 3, "padding": 2, "dilation": 2}, 1),
    (2, {"stride": 1, "padding": 1}, 1),
    (2, {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)}, 2), (2, {"stride": 2, "padding": 3}, 1),
    (3, {"stride": 2, "padding": 1}, 1),
]


@pytest.mark.parametrize(("rank", "options", "groups"), CASES)
def test_convolution(rank: int, options: dict[str, Any], groups: int, rng: np.random.Generator) -> None:
    convolve = getattr(F, f"conv{rank}d")
    c, o, kernel = 2 * groups, 3 * groups, [int(k) for k in rng.integers(2, 4, rank)]
    w, b = _tensor(rng, o, c // groups, *kernel), _tensor(rng, o)
    draws = [(_tensor(rng, n, c, *[int(s) for s in rng.integers(7, 10, rank)]), w, b) for n in (2, 3)]
    _check(lambda x, w, b: convolve(x, w, b, groups=groups, **options), draws)


@pytest.mark.parametrize(
    ("rank", "options"),
    [(1, {"stride": 2}), (2, {"stride": (2, 1), "padding": 1, "output_padding": (1, 0)}), (2, {"dilation": 2})],
)
def test_transposed_convolution(rank: int, options: dict[str, Any], rng: np.random.Generator) -> None:
    convolve = getattr(F, f"conv_transpose{rank}d")
    w = _tensor(rng, 3, 2, *[3] * rank)
    draws = [(_tensor(rng, n, 3, *[int(s) for s in rng.integers(3, 6, rank)]), w) for n in (2, 3)]
    _check(lambda x, w: convolve(x, w, **options), draws)


@pytest.mark.parametrize(("size", "step"), [(2, 2), (3, 2), (2, 3), (4, 1), (5, 2)])
def test_windows_of_any_overlap(size: int, step: int, rng: np.random.Generator) -> None:
    draws = [(_tensor(rng, 2, n, 3),) for n in (6, 7, 8, 9)]
    _check(lambda x: x.unfold(1, size, step) * 1.5, draws)


@pytest.mark.parametrize("options", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}])
def test_pooling(options: dict[str, Any], rng: np.random.Generator) -> None:
    draws = [(_tensor(rng, 2, 3, *[int(s) for s in rng.integers(5, 9, 2)]),) for _ in range(2)]
    _check(lambda x: F.max_pool2d(x, **options) + F.avg_pool2d(x, **options), draws)


@pytest.mark.parametrize("dtype", [weft.bfloat16, weft.float16])
def test_half_precision_is_convolved_in_float32(dtype: weft.dtype, rng: np.random.Generator) -> None:
    x, w = (weft.tensor(rng.standard_normal(d), dtype=dtype) for d in ((1, 2, 5, 5), (3, 2, 3, 3)))
    compiled = weft.compile(lambda x, w: F.conv2d(x, w))
    weft.counters.reset()
    np.testing.assert_allclose(compiled(x, w).float().numpy(), F.conv2d(x, w).float().numpy(), rtol=1e-2)
    assert weft.counters.foreign_segments == 0


@pytest.mark.parametrize(
    "options", [{"stride": 2, "padding": 1}, {"stride": (3, 2), "groups": 2}, {"stride": (1, 2), "padding": (2, 0)}]
)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_layers_whose_windows_are_apart(options: dict[str, Any], is_transposed: bool, rng: np.random.Generator) -> None:
    kind = weft.nn.ConvTranspose2d if is_transposed else weft.nn.Conv2d
    layer = kind(4, 6, 3, **options).double()

    def step(x: weft.Tensor) -> Any:
        layer.zero_grad()
        y = layer(x)
        y.sin().sum().backward()
        return y.detach()

    compiled = weft.compile(step)
    weft.counters.reset()
    for n in (2, 3):
        x = _tensor(rng, n, 4, *[int(s) for s in rng.integers(7, 11, 2)])
        y, expected = compiled(x), step(x.detach().requires_grad_())
        np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)
        found = []
        for call in (compiled, step):
            x.grad = None
            call(x)
            found.append([p.grad.clone() for p in (x, *layer.parameters())])
        for g, w in zip(*found, strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-9, atol=1e-11)
    assert weft.counters.captures == 1 and weft.counters.foreign_segments == 0
