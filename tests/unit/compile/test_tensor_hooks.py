"""Hooks on tensors and on their AccumulateGrad nodes: added or removed after capture, the next call is eager's."""

from __future__ import annotations

import numpy as np
import pytest

import weft

ADD = {
    "tensor": lambda p, factor: p.register_hook(lambda g: g * factor),
    "node": lambda p, factor: p.expand_as(p).grad_fn.next_functions[0][0].register_prehook(
        lambda grads: (grads[0] * factor,)
    ),
}


@pytest.mark.parametrize("kind", ADD)
@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_a_hook_added_or_removed_after_capture(kind: str, backend: str, rng: np.random.Generator) -> None:
    p = weft.nn.Parameter(weft.from_numpy(rng.normal(size=int(rng.integers(2, 9)))))

    def step() -> None:
        p.grad = None
        (p * 3).sum().backward()

    compiled = weft.compile(step, backend=backend)
    weft.counters.reset()
    compiled()
    assert p.grad.tolist() == [3.0] * len(p)
    first = ADD[kind](p, 2)
    compiled()
    assert p.grad.tolist() == [6.0] * len(p)
    second = ADD[kind](p, 5)
    compiled()
    compiled()
    assert p.grad.tolist() == [30.0] * len(p) and weft.counters.captures == 3
    second.remove()
    first.remove()
    compiled()
    assert p.grad.tolist() == [3.0] * len(p)
    assert weft.counters.captures == 3  # the first program fits again


def test_hooks_elsewhere_miss_nothing(rng: np.random.Generator) -> None:
    p, other = (weft.nn.Parameter(weft.from_numpy(rng.normal(size=3))) for _ in range(2))

    def step() -> None:
        p.grad = None
        (p * 3).sum().backward()

    compiled = weft.compile(step)
    compiled()
    weft.counters.reset()
    other.register_hook(lambda g: g * 2)
    compiled()
    assert weft.counters.guard_misses == 0


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_hooks_of_arguments_run(backend: str, rng: np.random.Generator) -> None:
    def step(x) -> None:
        x.grad = None
        (x * 3).sum().backward()

    compiled = weft.compile(step, backend=backend)
    for factor in (None, 2, 5, None):
        x = weft.from_numpy(rng.normal(size=4)).requires_grad_()
        if factor is not None:
            x.register_hook(lambda g, by=factor: g * by)
        compiled(x)
        compiled(x)
        assert x.grad.tolist() == [3.0 * (factor or 1)] * 4


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_a_compiled_model_leaves_hooks_to_the_eager_backward(backend: str, rng: np.random.Generator) -> None:
    model = weft.nn.Linear(3, 2)
    compiled, calls = weft.compile(model, backend=backend), []
    x = weft.ones(4, 3, requires_grad=True)
    model.weight.register_hook(lambda g: calls.append("weight") or g * 2)
    x.register_hook(lambda g: calls.append("x") or g * 5)
    for _ in range(2):
        want = []
        for run in (model, compiled):
            model.weight.grad = x.grad = None
            calls.clear()
            run(x).sum().backward()
            assert sorted(calls) == ["weight", "x"]
            want.append((model.weight.grad.numpy().copy(), x.grad.numpy().copy()))
        for eager, native in zip(*want, strict=True):
            np.testing.assert_allclose(native, eager, rtol=1e-6)
