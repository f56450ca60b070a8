"""Native convolutions and max pooling against loops over windows in float64, with memory that ends where it is said to:
any rank, step, padding, dilation, groups and strides of the operands; same bits for any cut and any vector width."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.ops.oracles.windows import back_to_maxima, convolve, convolve_input, convolve_weight, window_maxima
from tests.unit.codegen import guarded, run_lowered
from tests.unit.codegen.run_lowered import Runner, graph_of
from weft.codegen.compiler import compile_object
from weft.codegen.convolution.library import convolution_module
from weft.codegen.target import host_target, x86_target
from weft.ops.packet import aten

Array = np.ndarray[Any, Any]
F = weft.nn.functional


@dataclasses.dataclass(frozen=True)
class Case:
    """Settings of a convolution, and its operands."""

    x: Array
    w: Array
    g: Array
    size: list[int]
    how: tuple[list[int], list[int], list[int], int]


def draw(rng: np.random.Generator, rank: int, dtype: str) -> Case:
    def each(low: int, high: int) -> list[int]:
        return [int(n) for n in rng.integers(low, high, rank)]

    groups = int(rng.choice([1, 1, 2, 3]))
    channels, outputs = int(rng.choice([1, 2, 3, 9])), int(rng.choice([1, 2, 3, 7, 17]))
    kernel, step, dilation, padding = each(1, 5), each(1, 4), each(1, 4), each(0, 4)
    image = [
        max(n, (k - 1) * d + 1 - 2 * p) for n, k, d, p in zip(each(3, 9), kernel, dilation, padding, strict=True)
    ]
    image[-1] += int(rng.choice([0, 0, 13, 150]))
    size = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(image, padding, dilation, kernel, step, strict=True)
    ]
    samples = int(rng.choice([0, 1, 2, 3]))
    shapes = (
        (samples, channels * groups, *image), (outputs * groups, channels, *kernel), (samples, outputs * groups, *size),
    )
    x, w, g = (rng.standard_normal(dims).astype(dtype) for dims in shapes)
    return Case(x, w, g, size, (step, padding, dilation, groups))


def three(case: Case) -> list[tuple[Callable[..., Any], tuple[Array, Array], Array]]:
    """Each operator, its operands, and the result in float64."""
    kernel, image, how = list(case.w.shape[2:]), list(case.x.shape[2:]), case.how
    x, w, g = (a.astype(np.float64) for a in (case.x, case.w, case.g))
    step, padding, dilation, groups = (tuple(h) if isinstance(h, list) else h for h in how)
    settings: tuple[Any, ...] = (step, padding, dilation, groups)
    return [
        (lambda x, w: aten._convolve(x, w, case.size, *how), (case.x, case.w), convolve(x, w, None, *settings)),
        (
            lambda g, w: aten._convolve_input(g, w, image, *how), (case.g, case.w),
            convolve_input(g, w, image, *settings),
        ),
        (
            lambda g, x: aten._convolve_weight(g, x, kernel, *how), (case.g, case.x),
            convolve_weight(g, x, kernel, *settings),
        ),
    ]


class GuardedNumpy:
    """numpy, whose `full` ends before a page that nobody may touch."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def full(shape: Any, value: Any, dtype: Any = None) -> Array:
        return guarded.guarded(np.full(shape, value, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions_of_any_kind(
    rank: int, dtype: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lowered, "np", GuardedNumpy())
    for _ in range(3):
        for operator, operands, expected in three(draw(rng, rank, dtype)):
            graph, sizes = graph_of(operator, *operands, symbolic=bool(rng.integers(0, 2)))
            runner = Runner(graph)
            assert not runner.host_calls
            inputs = [guarded.guarded(a) for a in operands]
            (out,) = runner(inputs, sizes, parts=int(rng.choice([1, 3, 64])))
            scale = max(float(np.abs(expected).max()), 1e-30) if expected.size else 1.0
            assert np.abs(out - expected).max(initial=0) <= scale * (2e-6 if dtype == "float32" else 1e-14)
            np.testing.assert_array_equal(runner(inputs, sizes, parts=7)[0], out)


def test_same_bits_for_other_vectors(rng: np.random.Generator) -> None:
    host = host_target()
    narrow = dataclasses.replace(host, vector_bytes=16, vector_registers=16)
    for operator, operands, _ in three(draw(rng, 2, "float32")):
        graph, sizes = graph_of(operator, *operands)
        outs = [Runner(graph, target)(operands, sizes)[0] for target in (host, narrow)]
        np.testing.assert_array_equal(*outs)


def test_a_machine_without_shipped_objects_has_code() -> None:
    target = x86_target("x86-64")
    assert len(compile_object(convolution_module("float64", target).text(), target)) > 10_000


def test_operands_as_they_lie(rng: np.random.Generator) -> None:
    """Rows of neighbours are read in place; other layouts are copied once, and one buffer may be both operands."""
    whole = rng.standard_normal((2, 6, 9, 11)).astype(np.float32)
    w = rng.standard_normal((5, 3, 3, 3)).astype(np.float32)
    how = ([1, 1], [1, 1], [1, 1], 1)
    views: list[tuple[Callable[[Any], Any], int]] = [
        (lambda x: aten.slice(aten.slice(x, 1, 2, 5), 2, 1, 8, 1), 2),
        (lambda x: aten.slice(x, 1, 0, 6, 2), 2),
        (lambda x: aten.slice(aten.permute(x, (0, 2, 1, 3)), 1, 3, 6), 2),
        (lambda x: aten.slice(aten.permute(x, (0, 3, 1, 2)), 1, 0, 3), 3),  # channels last
    ]
    for view, kernels in views:
        def operator(x: Any, w: Any, view: Callable[[Any], Any] = view) -> Any:
            y = view(x)
            return aten._convolve(y, w, list(y.dims[2:]), *how)

        graph, sizes = graph_of(operator, whole, w, symbolic=False)
        runner = Runner(graph)
        assert len(runner.kernels) == kernels and not runner.host_calls
        image = view(weft.from_numpy(whole)).numpy().astype(np.float64)
        expected = convolve(image, w.astype(np.float64), None, (1, 1), (1, 1), (1, 1), 1)
        np.testing.assert_allclose(runner((whole, w), sizes)[0], expected, rtol=1e-4, atol=1e-4)
    square = rng.standard_normal((3, 3, 3, 3))
    graph, sizes = graph_of(lambda x: aten._convolve(x, x, [3, 3], *how), square)
    np.testing.assert_allclose(
        Runner(graph)((square,), sizes)[0], convolve(square, square, None, (1, 1), (1, 1), (1, 1), 1), atol=1e-12
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_max_pooling(rank: int, dtype: str, rng: np.random.Generator) -> None:
    kernel, step, dilation = ([int(n) for n in rng.integers(1, 4, rank)] for _ in range(3))
    before = [int(rng.integers(0, (k - 1) * d // 2 + 1)) for k, d in zip(kernel, dilation, strict=True)]
    after = [int(rng.integers(0, 3)) for _ in kernel]
    image = [(k - 1) * d + int(rng.integers(1, 20)) for k, d in zip(kernel, dilation, strict=True)]
    x = np.round(rng.standard_normal((2, 3, *image)) * 4).astype(dtype)  # with equal ones
    x.flat[rng.integers(0, x.size, 3)] = np.nan
    graph, sizes = graph_of(lambda x: tuple(aten._max_pool(x, kernel, step, before, after, dilation)), x)
    runner = Runner(graph)
    assert len(runner.kernels) == 1
    values, picked = runner((guarded.guarded(x),), sizes, parts=3)
    expected = window_maxima(x, kernel, step, before, after, dilation)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(picked, expected[1])
    x = np.nan_to_num(x)
    picked = window_maxima(x, kernel, step, before, [0] * rank, dilation)[1]
    g = rng.standard_normal(picked.shape).astype(dtype)
    back = Runner(graph_of(
        lambda g, picked: aten._max_pool_input(g, picked, image, kernel, step, before, dilation), g, picked,
        symbolic=False,
    )[0])
    np.testing.assert_allclose(
        back((g, picked), {}, parts=2)[0], back_to_maxima(g, picked, image, kernel, step, before, dilation), rtol=1e-5
    )
    there = Runner(graph_of(
        lambda x, picked: aten._max_pool_picked(x, picked, kernel, step, before, dilation), x, picked, symbolic=False,
    )[0])
    np.testing.assert_array_equal(
        there((x, picked), {})[0], window_maxima(x, kernel, step, before, [0] * rank, dilation)[0]
    )


def test_no_columns_in_memory(rng: np.random.Generator) -> None:
    """A step needs room for its values alone: no copy of the image is made for the taps of a window."""
    n, c, side = 16, 16, int(rng.integers(60, 70))
    x, w = weft.randn(n, c, side, side, requires_grad=True), weft.randn(c, c, 5, 5, requires_grad=True)

    def step(x: Any, w: Any) -> Any:
        return weft.autograd.grad((F.max_pool2d(F.conv2d(x, w, padding=2), 3, 1, 1) ** 2).sum(), (x, w))

    (program,) = weft.explain(step, x, w).programs
    # two values, places (twice as large), two gradients, memory of parts; columns would be 25 images
    assert program.foreign == [] and program.arena_bytes <= 8 * math.prod(x.shape) * 4
