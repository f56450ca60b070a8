"""A `.grad` from before the call that a compiled step keeps, gives back or lets another leaf have is the one that is
there at each call; programs gave the very tensor of the captured call, with its old values. A deepcopy of a tensor from
outside is a copy of what it holds at each call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import weft


class Holder:
    def __init__(self) -> None:
        self.p = weft.ones(2, requires_grad=True)
        self.q = weft.full((2,), 2.0, requires_grad=True)
        self.x: Any = None
        self.kept: Any = None


def put_back(h: Holder, x: Any) -> Any:
    before, h.p.grad = h.p.grad, None
    (h.p * x).sum().backward()
    own, h.p.grad = h.p.grad, before
    return own


def to_itself(h: Holder, x: Any) -> Any:
    h.p.grad = h.p.grad
    (h.p * x).sum().backward()
    return h.p.grad * 1


def swapped(h: Holder, x: Any) -> Any:
    h.p.grad, h.q.grad = h.q.grad, h.p.grad
    return x


def returned(h: Holder, x: Any) -> Any:
    before, h.p.grad = h.p.grad, None
    (h.p * x).sum().backward()
    return before, h.p.grad


def kept(h: Holder, x: Any) -> Any:
    h.kept, h.p.grad = h.p.grad, None
    return x


def shared(h: Holder, x: Any) -> Any:
    h.q.grad = h.p.grad
    return x


def an_attribute(h: Holder, x: Any) -> Any:
    h.p.grad = h.x
    return x * 2


def an_argument(h: Holder, x: Any) -> Any:
    h.p.grad = x
    (h.p * 3).sum().backward()
    return h.p.grad * 1


STEPS: list[Callable[[Holder, Any], Any]] = [
    put_back, to_itself, swapped, returned, kept, shared, an_attribute, an_argument,
]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_as_in_eager_mode(step: Callable[[Holder, Any], Any], split: bool) -> None:
    seen = []
    for wrap in (lambda f: f, lambda f: weft.compile(f, split=split)):
        h = Holder()
        function, notes = wrap(lambda x, h=h: step(h, x)), []
        for call in range(6):
            if call % 2 == 0 or call == 5:  # others between the calls
                h.p.grad, h.q.grad = weft.full((2,), call + 1.0), weft.full((2,), 10.0 * (call + 1))
                h.x = weft.full((2,), 100.0 + call)
            x = weft.full((2,), call + 1.0)
            known = [h.p.grad, h.q.grad, h.x, h.kept, x]
            out = function(x)
            tensors = [h.p.grad, h.q.grad, h.kept, *(out if isinstance(out, tuple) else (out,))]
            notes += [
                (None if t is None else t.tolist(), [i for i, k in enumerate(known) if k is not None and k is t])
                for t in tensors
            ]
        seen.append(notes)
    assert seen[1] == seen[0]


def deep(h: Holder, x: Any) -> Any:
    both = copy.deepcopy([h.x, h.x[:1], h.p])
    both[0].mul_(2)
    return both[0] * x + both[1] + both[2].detach()


def deep_module(h: Holder, x: Any) -> Any:
    return copy.deepcopy(h.kept)(x)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("step", [deep, deep_module])
def test_deepcopy(step: Callable[[Holder, Any], Any], split: bool) -> None:
    seen = []
    for wrap in (lambda f: f, lambda f: weft.compile(f, split=split)):
        weft.manual_seed(0)
        h = Holder()
        h.x, h.kept = weft.ones(2), weft.nn.Linear(2, 2)

        def function(x: Any, h: Holder = h) -> Any:
            out = step(h, x)
            with weft.no_grad():
                for tensor in (h.x, h.p, *h.kept.parameters()):
                    tensor.add_(x.sum())
            return out.detach()

        run = wrap(function)
        seen.append([run(weft.full((2,), float(k))).tolist() for k in range(4)])
    assert seen[1] == seen[0]
