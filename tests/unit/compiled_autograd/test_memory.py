"""weft.memory, and what a compiled backward holds: counted bytes, against those of the engine."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca

Rng = np.random.Generator
Made = tuple[weft.Tensor, list[weft.Tensor]]


@pytest.fixture(autouse=True)
def _stop_counting() -> Iterator[None]:
    gc.collect()  # what earlier tests left in cycles is not of ours
    yield
    weft.memory.stop()


def test_bytes_of_storages(rng: Rng) -> None:
    n, m = (int(k) for k in rng.integers(50, 99, 2))
    before = weft.zeros(n)  # from before counting began: counted all the same
    start = weft.memory.current()
    x = weft.zeros(n, m)
    assert weft.memory.current() == start + 4 * n * m
    views = [x.t(), x[1:], x.detach(), x.view(-1)]
    y = x.double()
    assert weft.memory.current() == start + 12 * n * m  # views hold nothing more
    weft.memory.reset_peak()
    z = y + 1
    del z
    assert weft.memory.current() == start + 12 * n * m and weft.memory.peak() == start + 20 * n * m
    del x
    assert weft.memory.current() == start + 12 * n * m  # views hold it
    views.clear()
    del y, before
    assert weft.memory.current() == start - 4 * n
    weft.memory.reset_peak()
    assert weft.memory.peak() == weft.memory.current()


def test_what_a_graph_and_a_program_hold(rng: Rng) -> None:
    n = int(rng.integers(1000, 2000))
    w = weft.randn(n, requires_grad=True)
    start = weft.memory.current()
    y = w.sin().cos()  # cos saves the sine
    assert weft.memory.current() == start + 8 * n
    y.sum().backward()
    assert weft.memory.current() == start + 8 * n  # the sine is let go, the gradient is there
    del y
    w.grad = None
    step = weft.compile(lambda a: (a.sin().cumsum(0) * 2).exp())
    out = step(w.detach())
    held = weft.memory.current()
    assert held >= start + 4 * n
    del out
    assert weft.memory.current() <= held - 4 * n


def _chain(layers: int, batch: int, width: int) -> Callable[[], Made]:
    weights = [(weft.randn(width, width) * 0.1).requires_grad_() for _ in range(layers)]
    x = weft.randn(batch, width)

    def make() -> Made:
        h = x
        for w in weights:
            h = (h @ w).tanh()
        return h.sum(), weights

    return make


def _perceptron(layers: int, batch: int, width: int) -> Callable[[], Made]:
    linear = weft.nn.Linear
    model = weft.nn.Sequential(*[m for _ in range(layers) for m in (linear(width, width), weft.nn.ReLU())])
    x = weft.randn(batch, width)
    return lambda: (model(x).square().mean(), list(model.parameters()))


def _pointwise(layers: int, batch: int, width: int) -> Callable[[], Made]:
    w = weft.randn(batch, width, requires_grad=True)

    def make() -> Made:
        h = w
        for _ in range(layers):
            h = (h * 1.1).sin()
        return h.sum(), [w]

    return make


def _peak(make: Callable[[], Made], compiled: bool) -> tuple[int, int]:
    """Bytes at most during a backward, and how many of them it keeps (the gradients)."""
    loss, leaves = make()
    for p in leaves:
        p.grad = None
    gc.collect()  # what the call before has left in cycles is not this one's
    weft.memory.reset_peak()
    start = weft.memory.current()
    with ca.enable() if compiled else ca.disable():
        loss.backward()
    return weft.memory.peak(), start - weft.memory.current()


@pytest.mark.parametrize("kind", [_chain, _perceptron, _pointwise])
@pytest.mark.parametrize(("batch", "width"), [(64, 64), (16, 160), (512, 40), (8, 8)])
def test_the_peak_of_a_chain_of_twenty_layers(
    rng: Rng, kind: Callable[[int, int, int], Callable[[], Made]], batch: int, width: int
) -> None:
    batch, width = batch + int(rng.integers(0, 8)), width + int(rng.integers(0, 8))
    make = kind(20, batch, width)
    weft.memory.current()
    _peak(make, False), _peak(make, True)  # programs are made
    (eager, freed), (compiled, also_freed) = _peak(make, False), _peak(make, True)
    layer = 4 * width * (width + batch)  # (a share of what little else the process holds is no measure for small ones)
    assert compiled <= 1.1 * eager + layer and also_freed >= freed


def test_gradients_that_hooks_let_go(rng: Rng) -> None:
    """With an optimizer in the backward, no more than a few gradients' bytes come on top of what was saved."""
    width = int(rng.integers(96, 128))
    make = _chain(20, 4, width)
    _, weights = make()
    for w in weights:
        w.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    peaks = []
    for compiled in (False, True, False, True):
        loss, _ = make()
        weft.memory.reset_peak()
        start = weft.memory.current()
        with ca.enable() if compiled else ca.disable():
            loss.backward()
        peaks.append(weft.memory.peak() - start)
    assert max(peaks) < 5 * 4 * width * width


def test_a_cached_backward_leaves_nothing_behind(rng: Rng) -> None:
    make = _perceptron(4, 100, int(rng.integers(100, 200)))
    found = []
    with ca.enable():
        for _ in range(5):
            loss, leaves = make()
            loss.backward()
            for p in leaves:
                p.grad = None
            del loss
            found.append(weft.memory.current())
    assert len(set(found[1:])) == 1
