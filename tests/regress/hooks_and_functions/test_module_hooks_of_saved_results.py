"""A full backward hook of a module runs where a walk has passed the module's result: not where one comes in past it,
through a result that an operator of the module has saved, or through one that the module kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft import Tensor

_BODIES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda x: x.tanh(), "exp": lambda x: (x * 0.5).exp(), "sigmoid": lambda x: x.sigmoid() * 2,
    "sum_of_saved": lambda x: (x.sin() + x.cos()).tanh(), "saved_first": lambda x: x.tanh().sin(),
    "softmax": lambda x: x.softmax(0), "sqrt": lambda x: (x * x + 1).sqrt(),
}


class _Body(weft.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.body = _BODIES[name]
        self.register_full_backward_hook(lambda _, inputs, outputs: (inputs[0] * 1.5 + outputs[0].sum() * 0.1,))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def _orders(forward: Callable[[Tensor], Tensor], data: np.ndarray) -> list[np.ndarray]:
    x, grads = weft.tensor(data, requires_grad=True), list[np.ndarray]()
    value = forward(x).sum()
    for _ in range(2):
        (grad,) = weft.autograd.grad(value, x, create_graph=True)
        grads.append(grad.detach().numpy())
        value = (grad * grad).sum()
    return grads


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("name", sorted(_BODIES))
def test_second_gradients_through_what_a_module_saved(name: str, backend: str, rng: np.random.Generator) -> None:
    one, other = _Body(name), _Body(str(rng.choice(sorted(_BODIES))))
    forwards: list[Callable[[Tensor], Tensor]] = [
        lambda x: one(x), lambda x: other(one(x)), lambda x: one(one(x)), lambda x: one(x * 2).view(-1) * x,
    ]
    for forward in forwards:
        compiled = weft.compile(forward, backend=backend)
        for _ in range(2):
            data = rng.uniform(-1, 1, int(rng.integers(1, 5)))
            for a, b in zip(_orders(compiled, data), _orders(forward, data), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_a_hook_reads_a_gradient_that_an_earlier_one_kept(rng: np.random.Generator) -> None:
    """What hooks keep of a walk is a function of the inputs in later hooks of the walk."""
    def forward(x: Tensor) -> Tensor:
        kept = []
        y = (x * 1).sin()
        z = y.cos()
        z.register_hook(lambda g: kept.append(g))
        y.register_hook(lambda g: g * 2 + kept[0] * x)
        return z * x

    data = rng.uniform(-1, 1, 3)
    for a, b in zip(_orders(weft.compile(forward), data), _orders(forward, data), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


class _Keeps(weft.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.kept = x.tanh()
        return self.kept.cos()


def test_a_walk_that_comes_in_past_the_result() -> None:
    module = _Keeps()
    module.register_full_backward_hook(lambda _, inputs, outputs: (inputs[0] * 1.5,))

    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return module(x), module.kept

    compiled = weft.compile(forward)
    for picks in ([0], [1], [0, 1]):
        rows = []
        for f in (forward, compiled):
            x = weft.tensor([0.5, 1.0, -0.3], requires_grad=True)
            results = f(x)
            (grad,) = weft.autograd.grad(sum(results[i].sum() for i in picks), x, create_graph=True)
            rows.append([grad.tolist(), weft.autograd.grad((grad * grad).sum(), x)[0].tolist()])
        np.testing.assert_allclose(rows[1], rows[0], rtol=1e-5)
