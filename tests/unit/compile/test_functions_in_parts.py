"""Custom Functions whose rules a program calls on its way: contexts, saved tensors, results and errors as in eager
mode."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import weft
from weft.autograd import Function
from weft.autograd.function import once_differentiable
from weft.compile.program.calling_entry import CallingEntry


def product(ctx, x, y):
    ctx.save_for_backward(x, y)
    return x * y


def logged(env, ctx, g):
    x, y = ctx.saved_tensors
    env.log.append((y is env.v, g.sum().item()))
    return g * y, g * x


def sometimes_none(env, ctx, g):
    x, y = ctx.saved_tensors
    env.log.append(g.sum().item())
    return g * y, (None if len(env.log) % 2 else g * x)


def of_other_types(env, ctx, g):
    x, y = ctx.saved_tensors
    env.log.append(g.sum().item())
    return (g * y).double(), (g * x).expand(2, 3) / 2


def by_numpy(env, ctx, g):
    x, y = (t.detach().numpy() for t in ctx.saved_tensors)
    env.log.append(float(np.sin(x).sum()))
    return weft.from_numpy(g.detach().numpy() * y), weft.from_numpy(g.detach().numpy() * x)


def keeps_facts(ctx, x, y, k=3):
    ctx.k, ctx.size, ctx.call, ctx.half, ctx.seen = k, x.shape[0], lambda a: a * 2, x.detach() / 2, []
    return x * k + y


def reads_facts(env, ctx, g):
    ctx.seen.append(g.sum().item())
    env.log.append((ctx.k, ctx.size, ctx.call(2), ctx.needs_input_grad, list(ctx.seen), ctx.half.sum().item()))
    return g * ctx.k, g * ctx.half


def raises(env, ctx, g):
    env.log.append(g.sum().item())
    if len(env.log) == 2:
        raise ValueError("two")
    return g, g


def too_many(env, ctx, g):
    env.log.append(g.sum().item())
    return g, g, g


def of_a_wrong_size(env, ctx, g):
    env.log.append(g.sum().item())
    return g[:2], g


def gradients_within(env, ctx, g):
    env.log.append(g.sum().item())
    with weft.enable_grad():
        x, y = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        first, second = weft.autograd.grad((x * y).sum(), (x, y))
    return g * first, g * second


CASES = [
    (product, logged), (product, sometimes_none), (product, of_other_types), (product, by_numpy),
    (keeps_facts, reads_facts), (product, raises), (product, too_many), (product, of_a_wrong_size),
    (product, gradients_within), (product, once_differentiable(lambda ctx, *g: None)),
]


def trained(forward, backward, compiles, rates):
    w, v = weft.tensor([1.0, 2.0, 3.0], requires_grad=True), weft.tensor([0.5, 0.5, -0.5], requires_grad=True)
    env = SimpleNamespace(log=[], v=v)
    if not hasattr(backward, "__wrapped__"):
        def rule(ctx, *grads):
            return backward(env, ctx, *grads)
    else:
        rule = once_differentiable(lambda ctx, *grads: logged(env, ctx, *grads))

    class Own(Function):
        pass

    Own.forward, Own.backward = staticmethod(forward), staticmethod(rule)

    def step(x):
        w.grad = v.grad = None
        loss = Own.apply(w * x, v).square().sum()
        loss.backward()
        with weft.no_grad():
            for p in (w, v):
                if p.grad is not None:
                    p.sub_(p.grad * 0.01)
        return loss.detach()

    step, seen = weft.compile(step) if compiles else step, []
    for rate in rates:
        try:
            seen.append(step(weft.full((3,), rate)).item())
        except (ValueError, RuntimeError) as error:
            seen.append(str(error).splitlines()[0])
        seen += [p.tolist() for p in (w, v, w.grad, v.grad) if p is not None]
    return seen, env.log, step


@pytest.mark.parametrize(("forward", "backward"), CASES, ids=lambda f: f.__name__)
def test_rules_are_called_as_in_eager_mode(forward, backward, rng):
    rates = [float(r) for r in rng.uniform(0.1, 0.9, 5)]
    want, got = (trained(forward, backward, compiles, rates) for compiles in (False, True))
    assert _close(got[:2], want[:2]), (got[:2], want[:2])
    assert any(isinstance(entry, CallingEntry) for entry in got[2].entries) and not got[2].stepwise


def _close(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_close, a, b))
    return abs(a - b) < 1e-4 * (1 + abs(b)) if isinstance(a, float) and isinstance(b, float) else a == b


# ---- forwards: what they give is learned from calls
def saves(log, ctx, x):
    log.append(total(x))
    ctx.save_for_backward(x)
    return weft.from_numpy(np.tanh(x.detach().numpy()))


def of_saved(log, ctx, g):
    (x,) = ctx.saved_tensors
    return g * (1 - weft.tanh(x) ** 2)


def sums_rows(log, ctx, x):
    log.append(total(x))
    ctx.shape = x.shape
    return x.sum(0) * 1.0


def of_shape(log, ctx, g):
    return g.expand(ctx.shape)


def turns(log, ctx, x):
    log.append(total(x))
    return x.t().contiguous() * 2.0


def turns_back(log, ctx, g):
    return g.t() * 2


def picks(log, ctx, x):
    log.append(1 if x.sum() > 0 else 2)
    above = (x > x.mean()).long()
    ctx.mark_non_differentiable(above)
    return x * 2, above


def of_picks(log, ctx, g, none):
    log.append((none is None, total(g)))
    return g * 2


def takes_some_rows(log, ctx, x):
    log.append(total(x))
    ctx.rows = x.shape[0]
    return x[: max(1, len(log) % 3)] * 1.0


def pads(log, ctx, g):
    return weft.cat([g, weft.zeros(ctx.rows - g.shape[0], 3)])


def draws(log, ctx, x):
    log.append(round(weft.rand(1).item(), 4))
    ctx.mask = weft.rand(x.shape)
    return x * ctx.mask


def of_mask(log, ctx, g):
    return g * ctx.mask


def fails_once(log, ctx, x):
    log.append(total(x))
    if len(log) == 3:
        raise ValueError("three")
    return x * 2.0


def doubles(log, ctx, g):
    return g * 2


def gives_it_back(log, ctx, x):
    log.append(total(x))
    return x


def total(x):
    return round(float(x.sum()), 2)


FORWARDS = [
    (saves, of_saved), (sums_rows, of_shape), (turns, turns_back), (picks, of_picks), (takes_some_rows, pads),
    (draws, of_mask), (fails_once, doubles), (gives_it_back, doubles),
]


def learned(forward, backward, compiles, batches):
    w, log = weft.tensor([[0.5, 1.0, -1.0]], requires_grad=True), []

    class Own(Function):
        pass

    Own.forward = staticmethod(lambda ctx, *args: forward(log, ctx, *args))
    Own.backward = staticmethod(lambda ctx, *grads: backward(log, ctx, *grads))

    def step(x):
        w.grad = None
        out = Own.apply(x * w)
        out = out[0] * out[1] if isinstance(out, tuple) else out
        loss = out.square().sum() * weft.rand(())
        loss.backward()
        return loss.detach()

    weft.manual_seed(1)
    step, seen = weft.compile(step) if compiles else step, []
    for batch in batches:
        try:
            seen.append(step(weft.tensor(batch)).item())
        except ValueError as error:
            seen.append(str(error))
        seen.append(None if w.grad is None else w.grad.tolist())
    return seen, log, step


@pytest.mark.parametrize(("forward", "backward"), FORWARDS, ids=lambda f: f.__name__)
def test_forwards_are_called_as_in_eager_mode(forward, backward, rng):
    sizes = [3, *rng.permutation([1, 2, 3, 5, 7])]  # 3 first: rows and columns look alike
    batches = [rng.standard_normal((int(n), 3)).astype(np.float32) for n in sizes]
    want, got = (learned(forward, backward, compiles, batches) for compiles in (False, True))
    assert _close(got[0], want[0]) and _near(got[1], want[1]), (got[:2], want[:2])
    calls = any(isinstance(entry, CallingEntry) for entry in got[2].entries)
    assert calls is (forward is not gives_it_back)


def _near(a, b):
    return len(a) == len(b) and all(np.allclose(np.asarray(x, float), np.asarray(y, float), atol=0.02)
                                    for x, y in zip(a, b, strict=True))
