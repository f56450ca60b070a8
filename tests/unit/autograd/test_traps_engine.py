"""T-ENG-*: the engine: order, depth, modes, errors, threads, memory."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function, once_differentiable

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


# ---- T-ENG-1
@pytest.mark.parametrize("start", ["backward", "hook"])
def test_t_eng_1_re_entrant_backward_of_depth_300(rng: Rng, start: str) -> None:
    depth = [300]

    def deeper(g: weft.Tensor) -> None:
        depth[0] -= 1
        if depth[0]:
            with weft.enable_grad():
                begin()

    class Nested(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            deeper(g)
            return g

    def begin() -> weft.Tensor:
        x = weft.ones(1, requires_grad=True)
        if start == "backward":
            Nested.apply(x).sum().backward()
        else:
            x.register_hook(deeper)
            (x * 1.0).sum().backward()
        return x

    assert begin().grad.item() == 1.0 and depth[0] == 0


def test_t_eng_1_a_chain_of_100000_nodes_runs_and_is_freed(request: pytest.FixtureRequest) -> None:
    length = shorter(request, 100_000, 5_000)
    x = weft.ones(1, requires_grad=True)
    y = x
    for _ in range(length):
        y = y + x
    y.backward()
    assert x.grad.item() == length + 1.0
    last = weakref.ref(y.grad_fn)
    del y
    assert last() is None
    z = x * x
    for _ in range(length // 3):
        z = z.neg()
    del z  # never run, freed all the same


def shorter(request: pytest.FixtureRequest, count: int, compiled: int) -> int:
    """How often something is done: `compiled` times where compiled autograd compares two walks."""
    return compiled if request.node.callspec.params["walk_of_backward"] == "compiled" else count


# ---- T-ENG-2
def test_t_eng_2_order_by_creation(rng: Rng) -> None:
    def run() -> list[str]:
        log: list[str] = []
        x = leaf(rng, 1)
        parts = []
        for name in "abcd":
            p = x * 1.0
            p.grad_fn.register_hook(lambda i, o, name=name: log.append(name))
            parts.append(p)
        w = leaf(rng, 1)
        w.register_post_accumulate_grad_hook(lambda t: log.append("w"))
        (parts[2] + parts[0] * w + parts[3] + parts[1]).sum().backward()
        return log

    first = run()
    assert first == ["w", "d", "c", "b", "a"] and run() == first


# ---- T-ENG-3
def test_t_eng_3_grad_mode_after_exceptions(rng: Rng) -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor, early: bool) -> weft.Tensor:
            if early:
                raise ZeroDivisionError
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            raise ZeroDivisionError

    x = leaf(rng, 2)
    for early in (True, False):
        with pytest.raises(ZeroDivisionError):
            Fails.apply(x, early).sum().backward()
        assert weft.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), weft.no_grad():
        raise ZeroDivisionError
    assert weft.is_grad_enabled()


def test_t_eng_3_grad_mode_within_backward(rng: Rng) -> None:
    seen: list[bool] = []

    class Looks(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            seen.append(weft.is_grad_enabled())
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            seen.append(weft.is_grad_enabled())
            with weft.enable_grad():
                t = weft.ones(2, dtype=weft.float64, requires_grad=True)
                (d,) = weft.autograd.grad((t * t * t).sum(), t)
            return g * d

    x = leaf(rng, 2)
    (g,) = weft.autograd.grad(Looks.apply(x).sum(), x)
    (g,) = weft.autograd.grad(Looks.apply(x).sum(), x, create_graph=True)
    assert seen == [False, False, False, True] and g.tolist() == [3.0, 3.0]


def test_t_eng_3_nesting_and_decorators() -> None:
    assert weft.is_grad_enabled()
    with weft.no_grad():
        with weft.enable_grad():
            assert weft.is_grad_enabled()
            with weft.inference_mode():
                assert not weft.is_grad_enabled() and weft.is_inference_mode_enabled()
            assert weft.is_grad_enabled() and not weft.is_inference_mode_enabled()
        assert not weft.is_grad_enabled()
    with weft.set_grad_enabled(False):
        assert not weft.is_grad_enabled()
    weft.set_grad_enabled(False)
    assert not weft.is_grad_enabled()
    weft.set_grad_enabled(True)

    @weft.no_grad()
    def plain() -> bool:
        return weft.is_grad_enabled()

    @weft.no_grad
    def bare() -> bool:
        return weft.is_grad_enabled()

    @weft.set_grad_enabled(False)
    def setting() -> bool:
        return weft.is_grad_enabled()

    @weft.inference_mode()
    def inference() -> bool:
        return weft.is_inference_mode_enabled()

    assert (plain(), bare(), setting(), inference()) == (False, False, False, True)
    assert weft.is_grad_enabled() and plain.__name__ == "plain"


def test_t_eng_3_generators() -> None:
    log: list[bool] = []

    @weft.no_grad()
    def numbers() -> Iterator[Any]:
        try:
            got = yield weft.is_grad_enabled()
            try:
                yield got, weft.is_grad_enabled()
            except KeyError:
                yield "caught", weft.is_grad_enabled()
        finally:
            log.append(weft.is_grad_enabled())

    it = numbers()
    assert next(it) is False and weft.is_grad_enabled()
    assert it.send(5) == (5, False) and weft.is_grad_enabled()
    assert it.throw(KeyError) == ("caught", False) and weft.is_grad_enabled()
    it.close()
    assert log == [False] and weft.is_grad_enabled()
    assert list(numbers()) == [False, (None, False)]


# ---- T-ENG-4
def test_t_eng_4_roots_that_share_nodes(rng: Rng) -> None:
    x = leaf(rng, 2)
    v = x.detach().numpy()
    shared = x.exp()
    a, b = (shared * 2.0).sum(), (shared * shared).sum()
    a.backward(retain_graph=True)
    b.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(v) + 2 * np.exp(2 * v))
    x.grad = None
    shared = x.exp()
    weft.autograd.backward([(shared * 2.0).sum(), shared], [None, weft.ones(2, dtype=weft.float64)])
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.exp(v))


def test_t_eng_4_seeds_and_inputs(rng: Rng) -> None:
    x, w = leaf(rng, 2), leaf(rng, 2)
    y = x * w
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        y.backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        y.backward(weft.ones(3, dtype=weft.float64))
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        weft.ones(1).backward()
    z = y * 2.0
    z.sum().backward(inputs=[y], retain_graph=True)
    assert y.grad.tolist() == [2.0, 2.0] and x.grad is None
    z.sum().backward(inputs=[x, x], retain_graph=True)
    np.testing.assert_allclose(x.grad.numpy(), 2 * w.detach().numpy())
    assert w.grad is None
    g1, g2, gy = weft.autograd.grad(z.sum(), (x, x, y))
    assert g1.tolist() == g2.tolist() and gy.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * w).sum().backward(inputs=[])


def test_t_eng_4_batched_gradients(rng: Rng) -> None:
    x = leaf(rng, 3)
    y = x.exp()
    seeds = weft.from_numpy(rng.standard_normal((2, 3)))
    (g,) = weft.autograd.grad(y, x, seeds, is_grads_batched=True)
    np.testing.assert_allclose(g.numpy(), seeds.numpy() * np.exp(x.detach().numpy()))


# ---- T-ENG-5
def test_t_eng_5_threads_share_a_leaf(rng: Rng) -> None:
    x = weft.zeros(50, requires_grad=True)
    modes: list[bool] = []

    def work() -> None:
        modes.append(weft.is_grad_enabled())
        weft.set_grad_enabled(True)
        for _ in range(100):
            (x * 2.0).sum().backward()

    with weft.no_grad():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert x.grad.tolist() == [800.0] * 50 and modes == [True] * 4


# ---- T-ENG-6
def test_t_eng_6_an_exception_in_a_node(rng: Rng) -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            raise ValueError("in backward of Fails")

    x = leaf(rng, 2)
    with pytest.raises(ValueError, match="in backward of Fails") as caught:
        (Fails.apply(x * 1.0) + x).sum().backward()
    assert any(f.name == "backward" and f.filename == __file__ for f in traceback.extract_tb(caught.tb))
    (x * 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_t_eng_6_anomaly_mode_shows_the_forward_line() -> None:
    x = weft.tensor([-1.0, 1.0], requires_grad=True)
    with weft.autograd.detect_anomaly():
        y = x.sqrt()  # the forward line
        with pytest.warns(UserWarning, match="the forward line"), pytest.raises(
            RuntimeError, match=r"SqrtBackward0.*nan values in its 0th output"
        ):
            y.sum().backward()
    assert not weft.autograd.is_anomaly_enabled()
    with weft.autograd.set_detect_anomaly(True, check_nan=False):
        x.sqrt().sum().backward()
    assert bool(x.grad.isnan()[0])


# ---- T-ENG-7
def test_t_eng_7_callbacks(rng: Rng) -> None:
    x, log = leaf(rng, 2), []

    def last() -> None:
        log.append(("last", x.grad.tolist()))

    def first() -> None:
        log.append(("first", x.grad.tolist()))
        weft.autograd.queue_callback(last)

    y = x * 2.0
    y.register_hook(lambda g: weft.autograd.queue_callback(first))
    y.sum().backward()
    assert log == [("first", [2.0, 2.0]), ("last", [2.0, 2.0])]
    with pytest.raises(RuntimeError, match="during backward"):
        weft.autograd.queue_callback(last)


# ---- T-ENG-8
def test_t_eng_8_graphs_are_freed_without_the_collector(rng: Rng) -> None:
    class Kept(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
            out = x.exp()
            ctx.save_for_backward(x, out)
            return out, x * 2.0

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor, h: weft.Tensor) -> weft.Tensor:
            return g * ctx.saved_tensors[1] + 2.0 * h

    gc.collect()
    gc.disable()
    try:
        x = leaf(rng, 3)
        for run in (True, False):
            a, b = Kept.apply(x * 1.0)
            c = a[1:].clone()
            c[0].mul_(b[0])
            y = c.sin().sum()
            nodes = [weakref.ref(n) for n in (a.grad_fn, c.grad_fn, y.grad_fn)]
            if run:
                y.backward()
            del a, b, c, y
            assert [n() for n in nodes] == [None] * 3
    finally:
        gc.enable()


def test_t_eng_8_2000_training_steps_leave_memory_flat(request: pytest.FixtureRequest) -> None:
    layer = weft.nn.Linear(4, 4)
    optimizer = weft.optim.SGD(layer.parameters(), lr=0.01, momentum=0.9)
    x = weft.randn(3, 4)

    def step() -> None:
        optimizer.zero_grad()
        (layer(x).tanh() ** 2).sum().backward()
        optimizer.step()

    for _ in range(10):
        step()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(shorter(request, 2000, 500)):
            step()
        assert len(gc.get_objects()) - before < 200
    finally:
        gc.enable()


def test_t_eng_8_once_differentiable(rng: Rng) -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            assert not weft.is_grad_enabled()
            return 2.0 * g * ctx.saved_tensors[0]

    x = leaf(rng, 2)
    Square.apply(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    seed = leaf(rng, 2)
    (g,) = weft.autograd.grad(Square.apply(x), x, seed, create_graph=True)
    assert g.requires_grad
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.sum().backward()


# ---- T-ENG-9
def test_t_eng_9_leaves_and_their_flags(rng: Rng) -> None:
    x = leaf(rng, 2)
    y = x * 2.0
    with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf variables"):
        y.requires_grad_(False)
    assert y.requires_grad_() is y and y.grad_fn is not None
    with pytest.raises(RuntimeError, match=re.escape("Can't detach views in-place")):
        y[:1].detach_()
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    with weft.no_grad():
        z = x * 2.0
    assert z.is_leaf and not z.requires_grad and z.requires_grad_().requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        weft.ones(2, dtype=weft.int64).requires_grad_()
    x.grad = weft.ones(2, dtype=weft.float64)
    assert x.detach_().grad is not None


def test_t_eng_9_copies_and_pickles(rng: Rng) -> None:
    x = leaf(rng, 2)
    (x * 2.0).sum().backward()
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.requires_grad and made.is_leaf and made.tolist() == x.tolist() and made.data_ptr() != x.data_ptr()
    assert copy.deepcopy(x).grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="explicitly by the user"):
        copy.deepcopy(x * 2.0)
    without = pickle.loads(pickle.dumps(x * 2.0))  # a pickle keeps the value of a non-leaf, and drops its history
    assert without.tolist() == (x * 2.0).tolist() and without.requires_grad and without.grad_fn is None
