"""A compiled forward under an eager backward: returned views are views to autograd, and each output's graph is freed
when eager frees it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.support import pytree
from weft.support.errors import StateError

WRAPS: list[Callable[[Any], Any]] = [lambda f: f, weft.compile]


def test_returned_views_are_what_they_are_in_eager_mode(rng: np.random.Generator) -> None:
    m = weft.nn.Linear(3, 2)

    def forward(x: weft.Tensor) -> Any:
        y = m(x)
        with weft.no_grad():
            quiet = y[0]
        return (
            y, y.t(), y[0], y.view(-1)[1:], y.detach(), y.detach()[0], x, x[0], m.weight, m.weight.t(), m.weight[0],
            y.unbind(1), y.chunk(2, -1), quiet
        )

    x = weft.from_numpy(rng.standard_normal((4, 3)).astype(np.float32))
    seen = []
    for wrap in WRAPS:
        found = pytree.flatten(wrap(forward)(x))[0]
        seen.append([
            (
                t._is_view(), t.requires_grad, t.grad_fn is None, t.shape, t.stride(),
                [i for i, o in enumerate(found) if t._base is o],
            )
            for t in found
        ])
    assert seen[0] == seen[1]


def test_a_write_through_a_returned_view_reaches_the_gradient(rng: np.random.Generator) -> None:
    x, scale = (weft.from_numpy(rng.standard_normal((3, 2))) for _ in range(2))
    gradients = []
    for wrap in WRAPS:
        w = weft.ones(2, dtype=weft.float64, requires_grad=True)

        def forward(x: weft.Tensor, w: weft.Tensor = w) -> Any:
            y = (x * w) * 2
            return y, y[0], y.t()

        y, first, turned = wrap(forward)(x)
        first.mul_(3)
        (y * scale).sum().backward(retain_graph=True)
        turned.sum().backward()
        gradients.append(w.grad.numpy().copy())
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-12)


@pytest.mark.parametrize("wrap", WRAPS, ids=["eager", "compiled"])
def test_a_view_of_a_leaf_may_not_be_written(wrap: Any) -> None:
    w = weft.ones(2, 3, requires_grad=True)
    with pytest.raises(
        StateError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"
    ):
        wrap(lambda: w.t())().mul_(2)


def _two(kind: str, w: weft.Tensor, v: weft.Tensor) -> Callable[[weft.Tensor], Any]:
    def apart(x: weft.Tensor) -> Any:
        return (x * w).exp().sum(), (x * v).exp().sum()

    def joined(x: weft.Tensor) -> Any:
        y = (x * w).exp()
        return y.sum(), (y * v).sum()

    def plain(x: weft.Tensor) -> Any:
        return (x + w).sum(), (x + v + w).sum()

    return {"apart": apart, "joined": joined, "plain": plain}[kind]


@pytest.mark.parametrize("order", [(0,), (1,), (0, 1), (1, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("kind", ["apart", "joined", "plain"])
def test_backward_through_each_output(kind: str, order: tuple[int, ...], rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal(3))
    seen = []
    for wrap in WRAPS:
        w, v = (weft.full((3,), k, dtype=weft.float64, requires_grad=True) for k in (0.5, 0.25))
        outputs = wrap(_two(kind, w, v))(x)
        log: list[Any] = []
        for i in order:
            try:
                outputs[i].backward()
                log.append("ran")
            except StateError as error:
                log.append(str(error)[:50])
        if "ran" in log[-1]:  # (eager mode may have accumulated a part before it refuses)
            log += [None if t.grad is None else np.round(t.grad.numpy(), 12).tolist() for t in (w, v)]
        seen.append(log)
    assert seen[0] == seen[1]


def test_a_compiled_module_is_indexed_copied_and_pickled(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((2, 3)).astype(np.float32))
    module = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.Tanh())
    compiled = weft.compile(module)
    expected = compiled(x)
    assert compiled[0] is module[0]
    assert (len(compiled), list(compiled), module[1] in compiled, bool(compiled)) == (2, list(module), True, True)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert other[0] is not module[0]
        np.testing.assert_array_equal(other(x).detach().numpy(), expected.detach().numpy())
        assert other.stages(x)
    assert bool(weft.compile(weft.nn.Tanh()))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_control_flow_in_the_backward_of_a_function(sign: float) -> None:
    class Scaled(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
            x, w = ctx.saved_tensors
            # what the branches read is saved between the halves
            return weft.cond(g.sum() > 0, lambda: g * w * 2, lambda: g * w * 3), g * x

    def gradients(wrap: Any) -> list[list[float]]:
        w, x = (weft.tensor(v, requires_grad=True) for v in ([1.0, 2.0, 3.0], [0.1, 0.2, 0.3]))
        (wrap(lambda x: Scaled.apply(x.sin(), w))(x) * sign).sum().backward()
        return [x.grad.tolist(), w.grad.tolist()]

    assert gradients(weft.compile) == gradients(lambda f: f)
