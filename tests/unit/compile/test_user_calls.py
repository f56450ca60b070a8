"""Custom Functions and hooks inside of a compiled step that do what no program can repeat: as in eager mode, once for
each call, in order."""

from __future__ import annotations

import os
import random
import traceback

import numpy as np
import pytest

import weft
from weft.autograd import Function, grad
from weft.support.errors import CaptureError

LOG: list[object] = []
TABLE: dict[object, object] = {}


def printed(g):
    print("shape", tuple(g.shape))
    return g * 2


def logged(g):
    LOG.append(float(g.sum()))
    return g * 2


def kept(g):
    TABLE[len(TABLE)] = {"norm": g.norm()}
    return g * 2


def branched(g):
    return g * 2 if g.sum() > 0 else g * 3


def by_numpy(g):
    return weft.from_numpy(np.tanh(np.asarray(g.detach())) * 2)


def by_clock_and_chance(g):
    LOG.append(random.Random(3).random())
    return g * (1 + 0 * random.random())


def helped(g):
    return elsewhere(g)


def elsewhere(g):
    """Another function than the hook itself."""
    return g * 2 if g.abs().max().item() > 1 else g


def swallowed(g):
    try:
        return g * float(g.mean() > 0)
    except RuntimeError:
        return g * 100


DEEDS = [printed, logged, kept, branched, by_numpy, by_clock_and_chance, helped, swallowed]


def with_backward(deed):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return deed(g * x)

    def step(x, w):
        loss = Scaled.apply(x * w).sum()
        loss.backward()
        return loss.detach()

    return step


def with_forward(deed):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return deed(x)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def step(x, w):
        loss = (Scaled.apply(x * w) ** 2).sum()
        loss.backward()
        return loss.detach()

    return step


def with_hook(deed):
    def step(x, w):
        y = x * w
        y.register_hook(deed)
        loss = (y * y).sum()
        loss.backward()
        return loss.detach()

    return step


def with_hook_of_a_leaf(deed):
    def step(x, w):
        handle = w.register_hook(deed)
        loss = (x * w).square().sum()
        loss.backward()
        handle.remove()
        return loss.detach()

    return step


def with_post_accumulate_hook(deed):
    def update(p):
        with weft.no_grad():
            p.sub_(deed(p.grad) * 0.1)
            p.grad = None

    def step(x, w):
        handle = w.register_post_accumulate_grad_hook(update)
        loss = (x * w).square().sum()
        loss.backward()
        handle.remove()
        return loss.detach()

    return step


PLACES = [with_backward, with_forward, with_hook, with_hook_of_a_leaf, with_post_accumulate_hook]


def trained(step, data, capsys):
    """What a few steps give: losses, gradients, what they print, log and keep."""
    LOG.clear()
    TABLE.clear()
    weights = weft.full((4,), 0.5).requires_grad_()
    seen = []
    for x in data:
        seen += [step(weft.tensor(x), weights).numpy(), weights.detach().numpy().copy()]
        seen.append(np.zeros(0) if weights.grad is None else weights.grad.numpy().copy())
    lasting = [*LOG, *[float(v["norm"]) for v in TABLE.values()]]
    return seen, lasting, capsys.readouterr().out


# each deed in two places, each place with three deeds or more; WEFT_ALL_PLACES=1 tries all of them
PAIRS = [
    (deed, place) for i, deed in enumerate(DEEDS) for j, place in enumerate(PLACES)
    if "WEFT_ALL_PLACES" in os.environ or (j - 2 * i) % len(PLACES) < 2
]


@pytest.mark.parametrize(("deed", "place"), PAIRS, ids=lambda f: f.__name__)
def test_it_happens_as_in_eager_mode(rng, capsys, place, deed):
    data = [rng.standard_normal((int(n), 4)).astype(np.float32) for n in rng.integers(1, 9, 3)]
    want = trained(place(deed), data, capsys)
    compiled = weft.compile(place(deed))
    got = trained(compiled, data, capsys)
    for a, b in zip(got[0], want[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(got[1], want[1], rtol=2e-5, atol=1e-5)
    assert got[2] == want[2]


def test_a_step_that_waits_for_errors_is_tried_once_and_its_backward_captured_once(rng):
    weft.compiled_autograd.reset()

    def step(x, w):
        y = x * w
        y.register_hook(branched)
        try:
            (y * y).sum().backward()
        except ValueError:
            return None
        return y.detach()

    compiled = weft.compile(step)
    w = weft.ones(4, requires_grad=True)
    before = weft.counters.captures
    for n in (3, int(rng.integers(4, 50)), 1):
        compiled(weft.tensor(rng.standard_normal((n, 4)), dtype=weft.float32), w)
    assert weft.counters.captures == before + 1
    assert len(compiled.misses) == 2 and all("test_user_calls.py" in miss for miss in compiled.misses)
    names = [node.op.base for node in weft.compiled_autograd.last_graph().graph.nodes]
    assert "tensor_hook" in names and "MulBackward0" in names


def test_an_exception_comes_with_its_line_and_with_what_was_done_before(rng):
    def step(x, v, w):
        def fail(g):
            if float(g.sum()) > 1e6:
                raise ValueError("too large")

        y = x * w
        y.register_hook(fail)
        loss = (v * y.sum()).sum() * x.max()
        loss.backward()
        return loss.detach()

    compiled = weft.compile(step)
    v, w = weft.ones(1, requires_grad=True), weft.ones(4, requires_grad=True)
    compiled(weft.ones(4), v, w)
    before = v.grad.item()
    with pytest.raises(ValueError, match="too large") as caught:
        compiled(weft.full((4,), 1e7), v, w)
    assert any(f.name == "fail" for f in traceback.extract_tb(caught.value.__traceback__))
    assert v.grad.item() > before and w.grad.tolist() == [1.0] * 4


def test_two_orders_go_through(rng):
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            LOG.append(g.sum().item())
            return 3 * x * x * g

    def step(x):
        (first,) = grad(Cube.apply(x).sum(), x, create_graph=True)
        return grad(first.sum(), x)[0]

    LOG.clear()
    x = weft.tensor(rng.standard_normal(5), requires_grad=True)
    np.testing.assert_allclose(weft.compile(step)(x).numpy(), 6 * x.detach().numpy())
    assert LOG == [5.0]


def test_a_module_and_its_optimizer_go_on_as_before(rng):
    def run(compiles):
        weft.manual_seed(1)
        model = weft.nn.Sequential(weft.nn.Linear(4, 5), weft.nn.Tanh(), weft.nn.Linear(5, 1))
        opt = weft.optim.AdamW(model.parameters(), lr=0.05)
        norms = []
        for p in model.parameters():
            p.register_hook(lambda g: norms.append(g.norm().item()))

        def step(x):
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
            return loss

        step = weft.compile(step) if compiles else step
        losses = [step(weft.full((n, 4), 0.3)).item() for n in (2, 3, 3, 5)]
        return losses, norms

    np.testing.assert_allclose(run(True)[0], run(False)[0], rtol=1e-4)
    np.testing.assert_allclose(run(True)[1], run(False)[1], rtol=1e-4)


def test_it_becomes_a_program_again_when_nothing_stands_in_the_way(capsys):
    w = weft.ones(3, requires_grad=True)
    handle = w.register_hook(lambda g: print("hook"))

    def step(x):
        w.grad = None
        try:
            (w * x).sum().backward()
        except ValueError:
            return None
        return w.grad

    compiled = weft.compile(step)
    for _ in range(3):
        compiled(weft.ones(3))
    assert not compiled.entries and capsys.readouterr().out == "hook\n" * 3
    handle.remove()
    for i in range(8):
        assert compiled(weft.full((3,), float(i))).tolist() == [float(i)] * 3
    assert len(compiled.entries) == 1 and capsys.readouterr().out == ""


def test_what_the_function_itself_does_is_still_refused():
    def step(x):
        x.register_hook(lambda g: g * 2)
        loss = x.sum()
        loss.backward()
        print(loss)
        return loss

    with pytest.raises(CaptureError, match="prints"):
        weft.compile(step)(weft.ones(2, requires_grad=True))
    with pytest.raises(CaptureError, match="its value"):
        weft.compile(lambda x: x * 2 if x.sum() > 0 else x)(weft.ones(2))
