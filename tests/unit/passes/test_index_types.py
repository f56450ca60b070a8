"""Types of `x[...]`: what is told of dtype, rank and sizes is what a run finds, for drawn indexes."""

from __future__ import annotations

import numpy as np

import weft
import weft.jit
from weft import Tensor


def part(rng: np.random.Generator) -> tuple[str, int]:
    """The text of one part of an index, and how many dims it goes over."""
    bounds = [str(int(v)) if rng.random() < 0.6 else "" for v in rng.integers(-3, 4, 2)]
    choices = [
        (str(int(rng.integers(-1, 1))), 1), (":".join(bounds), 1), (f"{bounds[0]}::{int(rng.integers(1, 3))}", 1),
        ("None", 0), ("n", 1), ("n:", 1), (":n + 1", 1), (":", 1),
    ]
    return choices[int(rng.integers(len(choices)))]


def test_what_is_told_of_an_index_is_what_a_run_finds(rng) -> None:
    told = 0
    for _ in range(60):
        shape = tuple(int(v) for v in rng.integers(1, 4, int(rng.integers(1, 4))))
        parts: list[str] = []
        left = len(shape)
        for text, count in (part(rng) for _ in range(int(rng.integers(1, 4)))):
            if count <= left:
                parts.append(text)
                left -= count
        if rng.random() < 0.3:
            parts.insert(int(rng.integers(len(parts) + 1)), "...")
        if not parts:
            continue
        text = f"def f(x, n: int):\n    return x[{', '.join(parts)}]\n"
        unit = weft.jit.CompilationUnit(text)
        x = weft.zeros(shape, dtype=weft.float64)
        typed = weft.jit.shape_analysis(unit.f.graph, (x, 0)).outputs()[0].type()
        for n in (0, 1):
            try:
                found = unit.f(x, n)
            except IndexError:
                continue
            sizes = typed.dims
            assert typed.dtype is found.dtype and (sizes is None or len(sizes) == found.ndim), f"{text}{typed}"
            assert all(s is None or s == d for s, d in zip(sizes or (), found.shape, strict=sizes is not None)), text
        told += typed.dims is not None
    assert told > 40


def test_tensors_among_an_index() -> None:
    @weft.jit.script
    def f(x, at: Tensor, mask: Tensor):
        return x[at], x[:, at], x[mask], x[0, mask[0]], x[at, at], x[None, mask]

    x, at = weft.zeros(2, 3, 4), weft.tensor([[0, 1], [1, 1], [0, 0]])
    mask = weft.tensor([[True, False, True], [False, False, True]])
    typed = weft.jit.shape_analysis(f.graph, (x, at, mask))
    kinds = list(map(str, typed.outputs()[0].type().elements))
    assert kinds == ["f32[3, 2, 3, 4]", "f32[2, 3, 2, 4]", "f32[*, 4]", "f32[*, 4]", "f32[...]", "f32[1, *, 4]"]
    found = f(x, at, mask)
    assert [t.ndim for t in found] == [4, 4, 2, 2, 3, 3]
