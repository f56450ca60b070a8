"""Loops over lists of parameters: one kernel for each type of parameter and no copies, however long the lists are; the
bits of unrolled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Step = Callable[[], Any]
Shape = tuple[int, ...]


def _parameters(shapes: list[Shape]) -> list[Any]:
    weft.manual_seed(0)
    ps = [weft.nn.Parameter(weft.randn(shape)) for shape in shapes]
    for p in ps:
        p.grad = weft.randn(p.shape)
    return ps


def _optimizer(ps: list[Any], kind: str = "Adam") -> Step:
    opt = getattr(weft.optim, kind)(ps, lr=1e-2, **({"momentum": .9} if kind == "SGD" else {}))

    @weft.compile
    def step() -> None:
        opt.step()

    return step


def _work(step: Step) -> tuple[int, int, int]:
    """Kernels and copies of a call after the first, and modules that LLVM compiled for all."""
    with weft.knobs(cache="off"):
        weft.counters.reset()
        step()
        compiles = weft.counters.llvm_compiles
        weft.counters.reset()
        step()
    assert weft.counters.captures == 0
    return weft.counters.kernels, weft.counters.copies, compiles


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_kernels_do_not_grow_with_a_list(kind: str) -> None:
    few, more = ((150, 220), (450, 600)) if kind == "SGD" else ((80, 120), (200, 260))
    rng = np.random.default_rng(0)
    _work(_optimizer(_parameters([(2,)] * 30), kind))  # (what all programs share is compiled with the first)
    shapes: list[Shape] = [(8, 8), (16,), (4, 6)]
    short, long = (_work(_optimizer(_parameters([shapes[0]] * n), kind)) for n in few)
    assert short == long and long[1] == 0 and long[0] <= 4
    mixed = [
        _work(_optimizer(_parameters([shapes[i] for i in rng.integers(0, 3, n)]), kind)) for n in more
    ]
    assert mixed[0] == mixed[1] and mixed[0][1] == 0 and mixed[0][0] <= 7


@pytest.mark.parametrize("function", [
    lambda ps: weft.stack([p.detach() for p in ps]), lambda ps: weft.cat([p.detach() for p in ps], 0),
    lambda ps: weft.cat([p.detach() for p in ps], -2), lambda ps: weft.stack([p.detach() for p in ps], -3).sum(0),
    lambda ps: weft.stack([p.detach().norm() for p in ps]), lambda ps: weft.stack(ps, 1).detach(),
    lambda ps: weft.cat([p.detach() * 2 for p in ps[::-1]] + [p.detach() for p in ps]),
])
def test_joins_of_many_values(function: Callable[..., Any]) -> None:
    ps = _parameters([(3, 4)] * 100)
    values = []
    for fold in ("on", "off"):
        with weft.knobs(fold=fold):
            values.append(weft.compile(function)(ps).numpy())
    assert values[0].tobytes() == values[1].tobytes()


def test_norms_of_parameters_of_several_types() -> None:
    """What several loops compute goes into one list in turn."""
    rng = np.random.default_rng(1)

    def step(ps: list[Any]) -> Any:
        total = weft.stack([(p.grad * p.grad).sum().sqrt() for p in ps]).sum()
        for p in ps:
            p.grad.mul_(1 / (total + 1)).add_(p.detach()).mul_(.5)
        return total

    def kernels(count: int, *folds: str) -> int:
        shapes: list[Shape] = [((3, 4), (5,), (2, 2))[i] for i in rng.integers(0, 3, count)]
        results = []
        for fold in folds:
            ps = _parameters(shapes)
            with weft.knobs(fold=fold):
                compiled = weft.compile(step)
                results.append([compiled(ps).numpy().tobytes(), *[p.grad.numpy().tobytes() for p in ps]])
        assert results[0] == results[-1]
        weft.counters.reset()
        compiled(ps)
        return weft.counters.kernels

    assert kernels(360, "off", "on") == kernels(420, "on")


def _explained(step: Step) -> list[str]:
    return [str(loop) for program in weft.explain(step).programs for loop in program.loops]


def test_explain_says_that_a_list_is_a_loop() -> None:
    ps = _parameters([(3, 4)] * 100)
    (line,) = _explained(_optimizer(ps))
    assert "100 iterations of 9 operators, one loop" in line


def _norms(ps: list[Any], ms: list[Any]) -> Any:
    return weft.stack([p.detach().square().sum() for p in ps]).sqrt().sum()


def _penalty(ps: list[Any], ms: list[Any]) -> Any:
    loss = sum((p * p).sum() for p in ps)
    loss.backward()
    return loss.detach()


def _clipped(ps: list[Any], ms: list[Any]) -> Any:
    total = weft.nn.utils.clip_grad_norm_(ps, .5)
    with weft.no_grad():
        for p, m in zip(ps, ms, strict=True):
            m.mul_(.9).add_(p.grad)
            p.sub_(.1 * m)
    return total


def _on_lists(ps: list[Any], ms: list[Any]) -> Any:
    with weft.no_grad():
        weft._foreach_mul_(ms, .9)
        weft._foreach_add_(ms, [p.grad for p in ps])
        weft._foreach_add_(ps, ms, alpha=-.1)
    return ms[0].sum()


def _exchanged(ps: list[Any], ms: list[Any]) -> Any:
    """Each row is written where another iteration reads."""
    with weft.no_grad():
        old = [m.clone() for m in ms]
        for m, o in zip(ms, reversed(old), strict=True):
            m.copy_(o.sum() * .5 + m)
    return ms[-1].sum()


def _returned(ps: list[Any], ms: list[Any]) -> Any:
    return [m * 2 + p.detach() for p, m in zip(ps, ms, strict=True)]


@pytest.mark.parametrize("function", [_norms, _penalty, _clipped, _on_lists, _exchanged, _returned])
@pytest.mark.parametrize("shapes", [[(2, 3)] * 12, [(2, 3), (4,)] * 6, [(), (5,), (5,), (), (), (5,), (5,), ()]])
def test_bits_of_lists(function: Callable[..., Any], shapes: list[Shape]) -> None:
    def values(fold: str) -> tuple[list[Any], int]:
        ps = _parameters(shapes)
        ms = [weft.randn(shape) for shape in shapes]
        with weft.knobs(fold=fold):
            step = weft.compile(lambda: function(ps, ms))
            results = [step() for _ in range(3)]
            loops = sum(n.op.name == "prim::Loop" for n in step.stages()["optimized"].nodes)
        flat = [r for result in results for r in (result if isinstance(result, list) else [result])]
        tensors = [*flat, *ps, *ms, *[p.grad for p in ps]]
        return [t.detach().numpy().tobytes() for t in tensors], loops

    (folded, loops), (unrolled, none) = values("all"), values("off")
    assert folded == unrolled and loops > 0 and none == 0
