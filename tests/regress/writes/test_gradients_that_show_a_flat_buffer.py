"""`.grad` that a step sets to a view (of an argument, of state, of what it makes) shows that memory after the call, as
in eager mode: later writes to the one show in the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn

Step = Callable[[Tensor, Tensor], Any]


class _Model:
    """Two parameters with room for their gradients in one buffer."""

    def __init__(self) -> None:
        self.flat, self.other = weft.zeros(6), weft.zeros(6)
        self.p, self.q = nn.Parameter(weft.ones(2)), nn.Parameter(weft.ones(2, 2))
        self.optimizer = weft.optim.SGD([self.p, self.q], lr=0.1, momentum=0.9)

    def loss(self, x: Tensor) -> Tensor:
        return (self.p * x).sum() + (self.q @ x).sin().sum()


def _of_argument(m: _Model) -> Step:
    def step(x: Tensor, flat: Tensor) -> None:
        m.p.grad, m.q.grad = flat[0:2], flat[2:6].view(2, 2)

    return step


def _of_state(m: _Model) -> Step:
    def step(x: Tensor, flat: Tensor) -> None:
        m.p.grad, m.q.grad = m.flat[0:2].view_as(m.p), m.flat[2:6].view_as(m.q)
        m.flat.zero_()
        m.loss(x).backward()
        m.flat.mul_(0.5)
        m.optimizer.step()

    return step


def _once(m: _Model) -> Step:
    def step(x: Tensor, flat: Tensor) -> Tensor:
        if m.p.grad is None:
            m.p.grad, m.q.grad = flat[0:2], flat[2:].view(2, 2)
        m.loss(x).backward()
        return flat.sum()

    return step


def _of_what_it_makes(m: _Model) -> Step:
    def step(x: Tensor, flat: Tensor) -> Tensor:
        made = weft.arange(6.0) * x.sum()
        m.p.grad, m.q.grad = made[:2], made[2:].view(2, 2)
        m.loss(x).backward()
        return made

    return step


def _by_rows(m: _Model) -> Step:
    def step(x: Tensor, flat: Tensor) -> None:
        rows = flat.view(3, 2)
        m.p.grad, m.q.grad = rows[0], rows[1:].t()
        m.loss(x).backward()

    return step


def _sometimes(m: _Model) -> Step:
    def step(x: Tensor, flat: Tensor) -> None:
        m.p.grad = None
        m.loss(x).backward()
        m.p.grad = flat[:2].copy_(m.p.grad)

    return step


_STEPS = [_of_argument, _of_state, _once, _of_what_it_makes, _by_rows, _sometimes]


def _log(make: Callable[[_Model], Step], way: Callable[[Step], Step], data: np.ndarray) -> list[Any]:
    weft.manual_seed(0)
    model, log = _Model(), []
    step = way(make(model))
    for number, row in enumerate(data):
        flat = model.other if number == len(data) - 1 else model.flat
        result = step(weft.tensor(row), flat)
        for g in (model.p.grad, model.q.grad):
            owners = {"flat": model.flat, "other": model.other, "made": result if isinstance(result, Tensor) else None}
            shared = [name for name, t in owners.items() if g is not None and t is not None and t.dim()
                      and t.untyped_storage().data_ptr() == g.untyped_storage().data_ptr()]
            log.append((shared, None if g is None else (g.stride(), g.storage_offset(), g.tolist())))
        with weft.no_grad():
            model.flat.add_(1.0)
            if model.p.grad is not None:
                model.p.grad.mul_(2.0)
        log.append((model.flat.tolist(), model.other.tolist(), None if model.q.grad is None else model.q.grad.tolist()))
        log.append((model.p.tolist(), model.q.tolist()))
    return log


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(_equal, a, b))
    return bool(np.isclose(a, b, rtol=1e-4, atol=1e-5)) if isinstance(a, float) else a == b


@pytest.mark.parametrize("make", _STEPS)
@pytest.mark.parametrize("way", ["llvm", "interpret", "split"])
def test_memory_is_shared_over_several_calls(
    make: Callable[[_Model], Step], way: str, rng: np.random.Generator
) -> None:
    data = rng.normal(size=(5, 2)).astype(np.float32)

    def compiled(step: Step) -> Step:
        return weft.compile(step, split=True) if way == "split" else weft.compile(step, backend=way)

    for a, b in zip(_log(make, compiled, data), _log(make, lambda step: step, data), strict=True):
        assert _equal(a, b), (a, b)


def test_split_by_a_value(rng: np.random.Generator) -> None:
    """A step in parts, for it asks for a value."""
    def make(m: _Model) -> Step:
        def step(x: Tensor, flat: Tensor) -> None:
            m.p.grad, m.q.grad = flat[0:2], flat[2:6].view(2, 2)
            if m.loss(x).item() > -100:
                m.loss(x).backward()
            flat.add_(1)

        return step

    data = rng.normal(size=(5, 2)).astype(np.float32)
    split = _log(make, lambda step: weft.compile(step, split=True), data)
    for a, b in zip(split, _log(make, lambda step: step, data), strict=True):
        assert _equal(a, b), (a, b)
