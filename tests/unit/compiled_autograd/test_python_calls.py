"""Hooks, custom Functions and leaves in captured backwards: eager's order and results, on objects that are inputs."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft.compiled_autograd.cache import cache
from weft.support.counters import counters

Rng = np.random.Generator
MODES = [ca.native, ca.interpret]


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


class Logged(weft.autograd.Function):
    """Squares; backward reads an attribute, appends to a list and branches on a value."""

    log: ClassVar[list[Any]] = []

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor, name: str) -> weft.Tensor:
        ctx.save_for_backward(x, None, x)
        ctx.name, ctx.rows = name, x.shape[0]
        return x * x

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        x, nothing, again = ctx.saved_tensors
        assert nothing is None
        Logged.log.append((ctx.name, ctx.rows))
        return (g * x * 2 if float(g.sum()) > 0 else g * again * 2), None


@pytest.mark.parametrize("mode", MODES)
def test_t_ca_6_custom_functions_run_once_each_in_order(rng: Rng, mode: Any) -> None:
    ca.reset()
    before = counters.captures
    for n in (10, 100, 10, 15, 20, 25):
        x = leaf(rng, n)
        Logged.log.clear()
        with ca.enable(mode):
            (Logged.apply(x, "first") + Logged.apply(x.sin(), "second")).sum().backward()
        assert Logged.log == [("second", n), ("first", n)]
        v = x.detach().numpy()
        np.testing.assert_allclose(x.grad.numpy(), 2 * v + 2 * np.sin(v) * np.cos(v))
    assert counters.captures - before == 1


class Maybe(weft.autograd.Function):
    """Gives a gradient to the arguments that it is told to."""

    @staticmethod
    def forward(ctx: Any, a: weft.Tensor, b: weft.Tensor, which: tuple[bool, bool]) -> weft.Tensor:
        ctx.which = which
        return a + b

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        return g if ctx.which[0] else None, g if ctx.which[1] else None, None


@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_are_missing_stay_missing(rng: Rng, mode: Any) -> None:
    """Whether a custom backward gives a gradient is known when it has run; leaves behind a missing one keep None,
    and a hook runs once."""
    for which in ((True, True), (False, True), (True, False), (False, False), (True, True)):
        a, b = leaf(rng, 3), leaf(rng, 3)
        seen: list[Any] = []
        x = a * 2
        x.register_hook(lambda g, seen=seen: seen.append(g))
        y = Maybe.apply(x, b.sin(), which)
        z = Maybe.apply(y, y * 1.0, (True, True))
        with ca.enable(mode):
            z.sum().backward()
        assert (a.grad is not None) == which[0] and (b.grad is not None) == which[1]
        assert len(seen) == 1 and (seen[0] is not None) == which[0]
        if which[0]:
            np.testing.assert_allclose(a.grad.numpy(), np.full(3, 4.0))
        if which[1]:
            np.testing.assert_allclose(b.grad.numpy(), 2 * np.cos(b.detach().numpy()))


@pytest.mark.parametrize("mode", MODES)
def test_an_error_in_python_comes_out_as_it_is(rng: Rng, mode: Any) -> None:
    class Fails(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            raise ValueError("zz")

    x = leaf(rng, 3)
    with pytest.raises(ValueError, match="zz") as caught, ca.enable(mode):
        Fails.apply(x).sum().backward()
    assert any(entry.name == "backward" and entry.path.name == "test_python_calls.py" for entry in caught.traceback)
    with ca.enable(mode):
        (x * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 3.0))


@pytest.mark.parametrize("shape", [(2,), (4, 2), (1, 2), (5,), ()])
@pytest.mark.parametrize("dtype", [weft.float32, weft.float64, weft.int64])
def test_what_python_gives_is_validated_as_eager_does(shape: tuple[int, ...], dtype: Any) -> None:
    class Gives(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            return weft.ones(shape, dtype=dtype)

    outcomes: list[Any] = []
    for compiled in (False, True):
        x = weft.ones(2, requires_grad=True)
        try:
            with ca.enable() if compiled else ca.disable():
                Gives.apply(x).sum().backward()
            outcomes.append((x.grad.dtype, x.grad.tolist()))
        except RuntimeError as error:
            outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("mode", MODES)
def test_an_optimizer_in_backward_keeps_one_gradient_alive(rng: Rng, mode: Any) -> None:
    layers = [leaf(rng, 4, 4) for _ in range(8)]
    start = [w.detach().numpy().copy() for w in layers]
    alive: list[int] = []
    order: list[int] = []
    held: list[Any] = []

    def step(i: int) -> Any:
        def hook(w: weft.Tensor) -> None:
            order.append(i)
            held.append(weakref.ref(w.grad))
            alive.append(sum(r() is not None for r in held))
            with weft.no_grad():
                w.sub_(w.grad * 0.1)
            w.grad = None

        return hook

    x = weft.from_numpy(rng.standard_normal((2, 4)))
    expected = _steps(start, x.numpy())
    for i, w in enumerate(layers):
        w.register_post_accumulate_grad_hook(step(i))
    for _ in range(2):
        held.clear()
        h = x
        for w in layers:
            h = (h @ w).tanh()
        with ca.enable(mode):
            h.sum().backward()
    assert order == [7, 6, 5, 4, 3, 2, 1, 0] * 2 and max(alive) == 1
    for w, e in zip(layers, expected, strict=True):
        np.testing.assert_allclose(w.detach().numpy(), e)


def _steps(weights: list[np.ndarray[Any, Any]], x: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Two steps of gradient descent by hand."""
    weights = [w.copy() for w in weights]
    for _ in range(2):
        values = [x]
        for w in weights:
            values.append(np.tanh(values[-1] @ w))
        g = np.ones_like(values[-1])
        for i in reversed(range(len(weights))):
            g = g * (1 - values[i + 1] ** 2)
            slope, g = values[i].T @ g, g @ weights[i].T
            weights[i] -= 0.1 * slope
    return weights


@pytest.mark.parametrize("mode", MODES)
def test_saved_tensor_hooks_are_asked_as_often_as_eager_asks(rng: Rng, mode: Any) -> None:
    counts: list[list[str]] = []
    for compiled in (False, True):
        log: list[str] = []
        x = leaf(rng, 3)
        with weft.autograd.graph.saved_tensors_hooks(
            lambda t, log=log: (log.append("pack"), t.numpy())[1] if not t.requires_grad else (
                log.append("pack"), t.detach().numpy()
            )[1],
            lambda a, log=log: (log.append("unpack"), weft.from_numpy(a))[1],
        ):
            y = (x * x).exp()
        with ca.enable(mode) if compiled else ca.disable():
            y.sum().backward()
        v = x.detach().numpy()
        np.testing.assert_allclose(x.grad.numpy(), 2 * v * np.exp(v * v))
        counts.append(log)
    assert counts[0] == counts[1] == ["pack"] * 3 + ["unpack"] * 3


@pytest.mark.parametrize("mode", MODES)
def test_backward_inside_of_a_hook_and_callbacks(rng: Rng, mode: Any) -> None:
    x, y = leaf(rng, 3), leaf(rng, 3)
    done: list[str] = []

    def hook(g: weft.Tensor) -> None:
        with weft.enable_grad():
            (y * 2).sum().backward()
        weft.autograd.Variable._execution_engine.queue_callback(lambda: done.append("end"))

    z = x * 3
    z.register_hook(hook)
    calls = cache.calls
    with ca.enable(mode):
        z.sum().backward()
        done.append("after")
    assert done == ["end", "after"] and cache.calls - calls == 2
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 3.0))
    np.testing.assert_array_equal(y.grad.numpy(), np.full(3, 2.0))


@pytest.mark.parametrize("mode", MODES)
def test_higher_orders(rng: Rng, mode: Any) -> None:
    v = rng.standard_normal(4)
    x = weft.from_numpy(v).requires_grad_()
    with ca.enable(mode):
        (first,) = weft.autograd.grad((x**4).sum(), x, create_graph=True)
        (second,) = weft.autograd.grad(first.sum(), x, create_graph=True)
        (third,) = weft.autograd.grad(second.sum(), x)
    np.testing.assert_allclose(third.numpy(), 24 * v)
    assert weft.autograd.gradgradcheck(lambda t: (t.sin() * t).cumsum(0), (x,), fast_mode=True)


@pytest.mark.parametrize("mode", MODES)
def test_in_place_writes_through_views_are_three_calls(rng: Rng, mode: Any) -> None:
    x = leaf(rng, 4, 3)
    factor = weft.from_numpy(rng.standard_normal(3))
    b = x * 1.0
    b.t()[1].mul_(factor[0])
    b[2].mul_(factor)
    with ca.enable(mode):
        b.sum().backward()
    called = [node.op.base for node in ca.last_graph().graph.nodes]
    assert called.count("copy_slices_prologue") == called.count("copy_slices_epilogue") == 2
    expected = np.ones((4, 3))
    expected[:, 1] *= factor[0].item()
    expected[2] *= factor.numpy()
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_a_value_used_often_is_added_up_without_touching_what_hooks_saw(rng: Rng) -> None:
    x = leaf(rng, 3)
    seen: list[Any] = []
    y = x * 1.0
    uses = [y * float(k) for k in range(1, 13)]
    for u in uses:
        u.register_hook(lambda g: seen.append((g, g.numpy().copy())))
    with ca.enable():
        sum(uses).sum().backward()  # type: ignore[union-attr]
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 78.0))
    assert len(seen) == 12
    for g, copy in seen:
        np.testing.assert_array_equal(g.numpy(), copy)
    adds = [node for node in ca.last_graph().graph.nodes if node.op.base == "add"]
    assert len(adds) == 11


def test_a_compiled_forward_inside(rng: Rng) -> None:
    f = weft.compile(lambda a, b: (a @ b).tanh())
    a, b = leaf(rng, 3, 4), leaf(rng, 4, 2)
    expected = weft.autograd.grad(((a @ b).tanh() * (a.sum() + 1)).sum(), (a, b))
    for _ in range(2):
        with ca.enable():
            found = weft.autograd.grad((f(a, b) * (a.sum() + 1)).sum(), (a, b))
        for e, g in zip(expected, found, strict=True):
            np.testing.assert_allclose(g.numpy(), e.numpy())


def test_two_threads(rng: Rng) -> None:
    import threading

    x = leaf(rng, 50)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                with ca.enable():
                    (x * 2).sum().backward()
        except BaseException as error:  # shown below
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    np.testing.assert_array_equal(x.grad.numpy(), np.full(50, 40.0))
