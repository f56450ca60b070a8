"""A checkpoint whose second run draws other numbers than the first (its generator is not the default one, or
preserve_rng_state is False): gradients go by the second run, which ends with the last tensor that it has to save. A
compiled step that has a branch or a loop in such a checkpoint runs as it is written."""

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.utils.checkpoint import checkpoint

G = weft.Generator()


def _drawn(x):
    return x * F.dropout(x, 0.4) * x.detach().clone().log_normal_(0, 0.5, generator=G)


def _branch(x):
    return weft.cond(x.sum() > 0, lambda a: _drawn(a) + a * 0, lambda a: a.abs() * _drawn(a), (x,))


def _read_by_a_branch(x):
    noise = weft.rand_like(x)
    return weft.cond(x.sum() > 0, lambda a: a * a * noise, lambda a: a.exp() * noise * noise, (x,))


def _written_by_a_branch(x):
    y = x * 1

    def write():
        y.mul_(weft.rand_like(y))
        return y.sin()

    return weft.cond(x.sum() > 0, write, lambda: y * _drawn(y)) * y


def _branch_in_a_branch(x):
    def inner(a):
        return weft.cond(a[0] > 1, lambda b: _drawn(b) * b, lambda b: b * _drawn(b).sin(), (a,)) * a

    return weft.cond(x.sum() > 0, inner, lambda a: a * _drawn(a), (x,))


def _loop(x):
    start = weft.zeros((), dtype=weft.int64), x
    return weft.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, _drawn(a).sin() + a), start)[1]


def _scan(x):
    return weft.scan(lambda c, r: (c * 0.5 + r * F.dropout(r, 0.5), c * r * weft.rand_like(r)), x.sum(), x)[1]


def _ends_with_a_draw(x):
    return x.sin() + weft.rand_like(x) * weft.rand(x.shape, generator=G)


REGIONS = [
    _branch, _read_by_a_branch, _written_by_a_branch, _branch_in_a_branch, _loop, _scan, _ends_with_a_draw,
    lambda x: checkpoint(_branch, x, use_reentrant=False, preserve_rng_state=False) * x,
]


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("seeds", [True, False])
def test_gradients_go_by_the_second_run(region, keeps, seeds):
    def step(x, w):
        v = checkpoint(region, w * x, use_reentrant=False, preserve_rng_state=keeps)
        if seeds:
            G.manual_seed(77)
        loss = (v * weft.rand_like(v)).sum()
        return loss, weft.autograd.grad(loss, w)[0]

    def run(function):
        weft.manual_seed(3)
        G.manual_seed(5)
        log, places = [], []
        for n, sign in ((4, 1), (4, -1), (6, 1), (5, -1)):
            w = weft.full((n,), 0.7, requires_grad=True)
            loss, gradient = function(weft.arange(1.0, n + 1) * sign, w)
            log += [loss.item(), *gradient.tolist()]
            places.append((G.place()[::2], weft.default_generator.place()[::2]))
        return log, places

    expected, places = run(step)
    found, found_places = run(weft.compile(step, backend="interpret"))
    assert found_places == places
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def _two_branches(x):
    y = weft.cond(x.sum() > 0, lambda a: a * a * a * F.dropout(a, 0.3), lambda a: a.exp(), (x,))
    return weft.cond(y.sum() > 0, lambda a: a * a, lambda a: a.sin() * weft.rand_like(a), (y,)) * y


@pytest.mark.parametrize("keeps", [True, False])
def test_second_derivatives(keeps):
    def step(x, w):
        v = checkpoint(_two_branches, w * x, use_reentrant=False, preserve_rng_state=keeps)
        (first,) = weft.autograd.grad(v.sum(), w, create_graph=True)
        return first, weft.autograd.grad((first * first).sum(), w)[0]

    def run(function):
        weft.manual_seed(3)
        log = []
        for n, sign in ((4, 1), (4, -1), (6, 1), (5, -1)):
            log += function(weft.arange(1.0, n + 1) * sign, weft.full((n,), 0.3, requires_grad=True))
        return [value for result in log for value in result.tolist()]

    compiled = weft.compile(step, backend="interpret")
    np.testing.assert_allclose(run(compiled), run(step), 1e-4)
    assert bool(compiled.entries) is keeps  # what draws anew runs as it is written


def test_hooks_around_a_checkpoint_get_nothing_of_its_branches():
    def step(x, w):
        with weft.autograd.graph.saved_tensors_hooks(lambda t: t * weft.rand_like(t), lambda t: t + 1):
            v = w * x
            v = checkpoint(lambda a: weft.cond(a.sum() > 0, lambda b: b * b.sin(), lambda b: b * 2, (a,)), v.detach()
                           + v * 0, use_reentrant=False)
        return weft.autograd.grad(v.sum(), w)[0]

    def run(function):
        weft.manual_seed(3)
        w = [weft.full((n,), 0.3, requires_grad=True) for n in (3, 3, 4, 5)]
        return [function(weft.ones(len(v)), v).tolist() for v in w], weft.get_rng_state()

    found, expected = run(weft.compile(step, backend="interpret")), run(step)
    assert str(found[1]) == str(expected[1])
    for a, b in zip(found[0], expected[0], strict=True):
        assert a == pytest.approx(b, rel=1e-5)
