"""Two tensors that a compiled step computes in the same way are one value of its program: what a hook wrote into the
one that it was given showed in the other."""

from __future__ import annotations

import pytest

import weft


def with_gradient_computed_twice(x, w, hook):
    h = x * w
    h.register_hook(hook)
    gradient, again = x.exp(), x.exp()
    h.backward(gradient)
    return w.grad + 0, again * 1


def with_gradient_read_after(x, w, hook):
    h = x * w
    h.register_hook(hook)
    gradient, again = x.exp(), x.exp()
    h.backward(gradient)
    return w.grad + 0, again * 1, gradient * 1


@pytest.mark.parametrize("function", [with_gradient_computed_twice, with_gradient_read_after])
def test_an_equal_value_stays_as_it_was(function, rng):
    def hook(g):
        print(end="")
        with weft.no_grad():
            g.mul_(3.0)

    values = rng.standard_normal(int(rng.integers(1, 9))).tolist()
    outcomes = []
    for run in (function, weft.compile(function)):
        for _ in range(2):
            x, w = weft.tensor(values), weft.ones(len(values), requires_grad=True)
            outcomes.append([number for t in run(x, w, hook) for number in t.tolist()])
    assert all(outcome == pytest.approx(outcomes[0]) for outcome in outcomes[1:])
