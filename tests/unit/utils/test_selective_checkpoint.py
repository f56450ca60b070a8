"""Selective checkpointing: what is kept does not run again, gradients are those of the plain function,
and writes to what was kept are noticed."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn
from weft.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)
from weft.utils.dispatch import WeftDispatchMode

aten = weft.ops.aten
SAVE, AGAIN = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE


class Log(WeftDispatchMode):
    def __init__(self) -> None:
        self.names: list[str] = []

    def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def leaf(rng, *shape):
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def region(x: Any, w: Any) -> Any:
    return weft.sigmoid((x @ w) @ w).std(0) * w


def selected(policy: Any, **options: Any) -> Any:
    return functools.partial(create_selective_checkpoint_contexts, policy, **options)


@pytest.mark.parametrize("early_stop", [False, True])
@pytest.mark.parametrize(("policy", "again"), [
    ([], 2), ([aten.mm.default], 0), (lambda ctx, op, *args, **kwargs: op == aten.mm.default, 0),
    (lambda ctx, op, *args, **kwargs: SAVE, 0),
    (lambda ctx, op, *args, **kwargs: AGAIN, 2),
])
def test_kept_operators_do_not_run_again(policy, again, early_stop, rng):
    x, w = leaf(rng, 3, 3), leaf(rng, 3, 3)
    expected = weft.autograd.grad(region(x, w).sum(), (x, w))
    with set_checkpoint_early_stop(early_stop):
        out = checkpoint(region, x, w, use_reentrant=False, context_fn=selected(policy))
        total = out.sum()
        with Log() as log:
            found = weft.autograd.grad(total, (x, w), retain_graph=True)
        second = weft.autograd.grad(total, (x, w))
    assert log.names.count("aten.mm.default") == 4 + again  # four are the products' own gradients
    for e, f, s in zip(expected, found, second, strict=True):
        np.testing.assert_allclose(f.numpy(), e.numpy())
        np.testing.assert_allclose(s.numpy(), e.numpy())


def test_a_policy_sees_each_operator_once(rng):
    seen: list[Any] = []

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((str(op), ctx.is_recompute, ctx.op_output.shape))
        return AGAIN

    checkpoint(lambda x: x.sin().exp(), leaf(rng, 2), use_reentrant=False, context_fn=selected(policy)).sum().backward()
    assert seen == [("aten.sin.default", False, (2,)), ("aten.exp.default", False, (2,))]


def test_of_modules_that_draw(rng):
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Dropout(0.5), nn.Linear(4, 2)).double()
    x = leaf(rng, 5, 3)
    weft.manual_seed(3)
    expected = weft.autograd.grad(model(x).sum(), (x, *model.parameters()))
    weft.manual_seed(3)
    out = checkpoint(model, x, use_reentrant=False, context_fn=selected([aten.linear.default, aten.gelu.default]))
    found = weft.autograd.grad(out.sum(), (x, *model.parameters()))
    assert all(bool((a == b).all()) for a, b in zip(found, expected, strict=True))


def test_views_and_writes_run_again(rng):
    def f(x: Any) -> Any:
        y = x.sin()
        y[0].mul_(2)
        return F.relu(y.t().exp()).sum()

    x = leaf(rng, 2, 3)
    out = checkpoint(
        f, x, use_reentrant=False, context_fn=selected(lambda ctx, op, *args, **kwargs: op != aten.sin.default)
    )
    np.testing.assert_allclose(weft.autograd.grad(out, x)[0].numpy(), weft.autograd.grad(f(x), x)[0].numpy())
    for options in ({}, {"allow_cache_entry_mutation": True}):
        out = checkpoint(f, x, use_reentrant=False, context_fn=selected([aten.sin.default], **options))
        if options:
            out.backward()
        else:
            with pytest.raises(RuntimeError, match="has been mutated"):
                out.backward()


def test_compiled(rng):
    def step(x: Any, w: Any) -> Any:
        out = checkpoint(region, x, w, use_reentrant=False, context_fn=selected([aten.mm.default]))
        return weft.autograd.grad(out.sum(), (x, w))

    x, w = leaf(rng, 3, 3), leaf(rng, 3, 3)
    for found, expected in zip(weft.compile(step)(x, w), step(x, w), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10)


def test_what_is_no_policy():
    for given, kind in (([2], ValueError), ([aten.sin], ValueError), (2, TypeError)):
        with pytest.raises(kind, match=r"either a function or a list|OpOverload"):
            create_selective_checkpoint_contexts(given)


@pytest.mark.parametrize("early_stop", [False, True])
def test_a_backward_inside_of_a_region(early_stop, rng):
    """The second run then begins before the first has ended, and saves more than that has so far."""

    def f(x: Any) -> Any:
        y = x.sin().exp()
        (g,) = weft.autograd.grad(y.sum(), x, create_graph=True)
        return (g * x.cos()).exp()

    def nested(x: Any) -> Any:
        return checkpoint(f, checkpoint(f, x, use_reentrant=False), use_reentrant=False)

    x = leaf(rng, 3)
    with set_checkpoint_early_stop(early_stop):
        for plain, region in ((f, lambda x: checkpoint(f, x, use_reentrant=False)), (lambda x: f(f(x)), nested)):
            (expected,) = weft.autograd.grad(plain(x).sum(), x, create_graph=True)
            (found,) = weft.autograd.grad(region(x).sum(), x, create_graph=True)
            np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy())
            (expected,), (found,) = weft.autograd.grad(expected.sum(), x), weft.autograd.grad(found.sum(), x)
            np.testing.assert_allclose(found.numpy(), expected.numpy())
