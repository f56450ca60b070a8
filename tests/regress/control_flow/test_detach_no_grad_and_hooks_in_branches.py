"""What a branch or a loop body says of gradients counts: detach, no_grad, custom Functions and hooks inside of blocks,
compiled as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function, grad
from weft.support.errors import CaptureError


class Tripled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * g * x


def _unrecorded(x: Any) -> Any:
    with weft.no_grad():
        k = x * x
    return x * k


def _hooked(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 10 * y.detach())
    return y.sin()


BODIES: dict[str, Callable[[Any], Any]] = {
    "detached": lambda x: x * x.detach(), "custom": Tripled.apply, "unrecorded": _unrecorded, "hooked": _hooked,
    "differentiated": lambda x: grad((x.sin() * x).sum(), [x], create_graph=True)[0] * x,
}


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", BODIES)
def test_a_block_has_the_history_that_its_body_makes(name: str, order: int, backend: str) -> None:
    body = BODIES[name]

    def branch(x: Any) -> Any:
        return weft.cond(x.sum() > 0, body, lambda a: a * 3, (x,))

    def loop(x: Any) -> Any:
        return weft.while_loop(lambda a, n: n < 2, lambda a, n: (body(a * 0.5), n + 1), (x, 0))[0]

    for block in (branch, loop):
        def slopes(x: Any, block: Callable[[Any], Any] = block) -> Any:
            found = block(x * 1.0)
            for _ in range(order):
                (found,) = grad((found * found * x).sum(), [x], create_graph=True)
            return found.detach()

        x = weft.tensor([0.7, 1.3], dtype=weft.float64, requires_grad=True)
        np.testing.assert_allclose(weft.compile(slopes, backend=backend)(x).numpy(), slopes(x).numpy(), rtol=1e-12)


def test_a_hook_on_a_tensor_from_outside_is_refused() -> None:
    def step(x: Any) -> Any:
        y = x * 2.0
        out = weft.cond(x.sum() > 0, lambda: (y.register_hook(lambda g: g * 10), y * 1)[1], lambda: y * 1)
        return grad(out.sum(), [x])[0]

    with pytest.raises(
        CaptureError, match=r"hooks_in_branches.*registers a hook on a tensor that was made outside"
    ):
        weft.compile(step, backend="interpret")(weft.tensor([1.0, 2.0], requires_grad=True))
