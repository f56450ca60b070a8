"""Random functions with hooks of every place at their nodes: on a tensor, in front of its node, behind it. All are
linear in the gradients, so that a compiled forward, which hears those of a second order in parts, gives what eager mode
gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import Tensor

Forward = Callable[[Tensor, Tensor], Tensor]
OPERATORS = (
    "$a.sin()", "$a * $b", "$a.tanh() + $b", "$a * 0.5 - $b", "($a * $b).cumsum(0)", "$a.exp() * 0.3",
    "$a.flip(0) * $b",
    "weft.cat([$a[1:], $b[:1]])", "weft.stack([$a, $b]).unbind(0)[1] * $a", "($a[:, None] * $b).sum(1)",
    "$a.softmax(0) * $b", "Straight.apply($a) * $b", "weft.cat([$a, $b]).chunk(2)[0] * $b",
    "$a.double().reciprocal().clamp(-3, 3)", "$a.view(-1)", "$a.view(1, -1)[0]", "$a[:]", "$a.view_as($a)",
    "$a.unsqueeze(0).squeeze(0)", "$a.expand($a.shape[0])", "Seen.apply($a)",
)  # fmt: skip
HOOKS = (
    "$a.register_hook(lambda g: g * 2)", "$a.register_hook(lambda g: g.flip(0) + g)",
    "$a.register_hook(lambda g: g * w[: g.shape[0]])", "$a.register_hook(lambda g: g * w.view(-1) + constant(g))",
    "$a.grad_fn.register_prehook(lambda outs: tuple(g if g is None else g * w for g in outs))",
    "$a.grad_fn.register_prehook(lambda outs: tuple(g if g is None else g.flip(0) for g in outs))",
    "$a.grad_fn.register_hook(lambda ins, outs: tuple(g if g is None else g * 3 for g in ins))",
    "$a.grad_fn.register_hook(lambda ins, outs: tuple(g if g is None else g - g.mean() * 0.5 for g in ins))",
)  # fmt: skip


class Straight(weft.autograd.Function):
    """A rule that is not the derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class Seen(weft.autograd.Function):
    """A view, with another gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return constant(grad) * 0.25 + grad.view(-1) * 1.5


def constant(gradient: Tensor) -> Tensor:
    """Computed from a gradient, and no function of it."""
    with weft.no_grad():
        return gradient * 0.5


def draw(seed: int) -> str:
    """The text of a function of two vectors."""
    rng = np.random.default_rng(seed)
    names, lines = ["x", "w"], []
    for i in range(int(rng.integers(2, 6))):
        a, b = rng.choice(names[-4:]), rng.choice(names)
        lines.append(f"v{i} = {str(rng.choice(OPERATORS)).replace('$a', a).replace('$b', b)}")
        names.append(f"v{i}")
        lines += [str(h).replace("$a", f"v{i}") for h in rng.choice(HOOKS, int(rng.integers(0, 3)))]
    body = "".join(f"    {line}\n" for line in lines)
    return f"def forward(x, w):\n{body}    return {names[-1]} * x + {rng.choice(names)}\n"


def function(text: str) -> Forward:
    """The function that a text is."""
    space: dict[str, Any] = {"weft": weft, "Straight": Straight, "Seen": Seen, "constant": constant}
    exec(text, space)
    return space["forward"]  # type: ignore[no-any-return]


def gradients(forward: Forward, calls: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Of each call: its value, and gradients of two orders."""
    notes = []
    for data in calls:
        x, w = (weft.tensor(row).requires_grad_() for row in data)
        y = forward(x, w)
        first = weft.autograd.grad(y.sin().sum(), (x, w), create_graph=True, materialize_grads=True)
        total = sum((g * g).sum() for g in first)
        second = weft.autograd.grad(total, (x, w), materialize_grads=True)
        notes.append([t.detach().numpy() for t in (y, *first, *second)])
    return notes
