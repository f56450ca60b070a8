"""autograd.grad by an argument and a parameter gave None for the parameter, where the argument is a view of what an
earlier call gave that depends on the parameter elsewhere: the parameter waited for that call's node, to which nothing
came."""

from __future__ import annotations

from typing import Any

import weft


def test_gradient_of_a_parameter() -> None:
    p = weft.tensor([0.5], requires_grad=True)

    def step(x: Any) -> Any:
        return weft.stack([x.exp(), x]).unbind(0)[1], x.sin() * p

    seen = []
    for f in (step, weft.compile(step, backend="interpret")):
        x, notes = weft.ones(3, requires_grad=True), []
        for _ in range(4):
            view, y = f(x)
            notes += [g.tolist() for g in weft.autograd.grad(y.sum(), [x, p], retain_graph=True)]
            heard: list[Any] = []
            handle = weft.autograd.graph.register_multi_grad_hook([view, y, x], heard.append)
            notes += [g.tolist() for g in weft.autograd.grad(y.sum(), [p, x], retain_graph=True)]
            handle.remove()
            notes.append([[g is None for g in grads] for grads in heard])
            x = view
        seen.append(notes)
    assert seen[1] == seen[0]
