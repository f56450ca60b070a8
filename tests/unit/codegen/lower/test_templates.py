"""Groups of one structure are lowered once, and groups that differ in anything that a kernel depends on are
not of one structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from run_lowered import Array, check, graph_of

import weft.codegen.lower.lowering as lowering
from weft.codegen.emit import Module
from weft.codegen.lower.graph import lower_graph
from weft.codegen.target import host_target
from weft.ops.packet import aten
from weft.types import dtype as dt

Layer = Callable[[Any, Any], Any]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The groups that nests are built for."""
    built: list[Any] = []
    build = lowering.build_nests

    def build_nests(group: Any, *rest: Any) -> Any:
        built.append(group)
        return build(group, *rest)

    monkeypatch.setattr(lowering, "build_nests", build_nests)
    return built


def half(x: Any, which: int) -> Any:
    """The first or the second half of the rows."""
    rows = x.dims[0] // 2
    return aten.slice(x, 0, which * rows, (which + 1) * rows)


# Layers that are nearly alike, each in one respect different from another.
NEAR: dict[str, Layer] = {
    "plain": lambda x, y: (x * y + 1.5).tanh(),
    "another literal": lambda x, y: (x * y + 2.5).tanh(),
    "zero": lambda x, y: x * y + 0.0,
    "negative zero": lambda x, y: x * y + -0.0,
    "one integer": lambda x, y: aten.pow(x, 1) + y,
    "one float": lambda x, y: aten.pow(x, 1.0) + y,
    "the same twice": lambda x, y: (x * x + 1.5).tanh(),
    "turned": lambda x, y: (aten.t(x) * y + 1.5).tanh(),
    "both turned": lambda x, y: (aten.t(x) * aten.t(y) + 1.5).tanh(),
    "first row": lambda x, y: (aten.select(x, 0, 0) * y + 1.5).tanh(),
    "second row": lambda x, y: (aten.select(x, 0, 1) * y + 1.5).tanh(),
    "a column": lambda x, y: (aten.slice(x, 1, 0, 1) * y + 1.5).tanh(),
    "a half": lambda x, y: (half(x, 0) * half(y, 0) + 1.5).tanh(),
    "another half": lambda x, y: (half(x, 1) * half(y, 0) + 1.5).tanh(),
    "row sums": lambda x, y: (x * y).sum(1, keepdim=True) * x,
    "row sums kept": lambda x, y: _with(lambda s: s * x, (x * y).sum(1, keepdim=True)),
    "column sums": lambda x, y: (x * y).sum(0),
    "all sums": lambda x, y: (x * y).sum(),
    "greatest": lambda x, y: aten.amax(x * y, (1,), True) - y,
    "a fill": lambda x, y: x + aten.full((x.dims[1],), 3.0, dtype=dt.float32) * y,
    "another fill": lambda x, y: x + aten.full((x.dims[1],), 4.0, dtype=dt.float32) * y,
    "a range": lambda x, y: x + aten.arange(x.dims[1], dtype=dt.float32) * y,
    "half precision": lambda x, y: x.to(dt.float16) * y,
    "kept": lambda x, y: _with(lambda p: (p + 1.5).tanh(), x * y),
    "a view of what it made": lambda x, y: aten.t(x * y).unsqueeze(0) + 1,
}


def _with(last: Callable[[Any], Any], first: Any) -> tuple[Any, Any]:
    """What a function makes of a value, and the value: it is stored as well."""
    return first, last(first)


def inputs(rng: np.random.Generator, count: int, n: int) -> list[Array]:
    return [rng.standard_normal((n, n)).astype(np.float32) for _ in range(count)]


def test_equal_layers_are_built_once(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    built = counted(monkeypatch)
    count = int(rng.integers(5, 20))
    graph, _ = graph_of(
        lambda *xs: tuple(NEAR["plain"](x, y) for x, y in zip(xs[::2], xs[1::2], strict=True)),
        *inputs(rng, 2 * count, 6), symbolic=False,
    )
    lowered = lower_graph(graph, Module.for_target(host_target()), host_target())
    assert len(lowered.steps) == count and len(built) == 1
    assert len({v for step in lowered.steps for v in step.buffers}) == 3 * count  # type: ignore[union-attr]


@pytest.mark.parametrize("turn", range(8))
def test_nearly_equal_layers(rng: np.random.Generator, turn: int) -> None:
    """Many layers in one program, each on inputs of its own and twice over."""
    names = rng.permutation([*NEAR])[: len(NEAR) if turn < 2 else int(rng.integers(4, 10))].tolist() * 2

    def program(*xs: Any) -> Any:
        made = [NEAR[name](xs[2 * i], xs[2 * i + 1]) for i, name in enumerate(names)]
        return tuple(r for m in made for r in (m if isinstance(m, tuple) else (m,)))

    check(program, *inputs(rng, 2 * len(names), int(rng.integers(2, 40))), symbolic=bool(turn % 2), tolerance=2e-3)


def test_zeros_keep_their_signs() -> None:
    x = np.full((2, 3), -0.0, np.float32)
    runner = check(lambda x, y: (x + 0.0, y + -0.0), x, x.copy(), symbolic=False)
    assert [bool(np.signbit(runner.read(r)).all()) for r in runner.lowered.results] == [False, True]


def test_sums_in_parts_have_memory_of_their_own(rng: np.random.Generator) -> None:
    """Partial results are values that lowering makes: each group has its own."""
    xs = [rng.standard_normal((300, 70)).astype(np.float32) for _ in range(4)]
    runner = check(lambda *xs: tuple((x * x).sum() for x in xs), *xs, symbolic=False, tolerance=1e-3)
    made = [v for k in runner.kernels for v in k.writes]
    assert len(set(made)) == len(made) > len(xs)
