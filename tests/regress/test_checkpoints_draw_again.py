"""A checkpoint whose second run draws other numbers than the first (its generator is not the default one, or
preserve_rng_state is False): gradients go by the second run, also through branches and loops of a compiled step, and
the second run ends with the last tensor that it has to save."""

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.support.errors import CaptureError
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
            places.append((G.get_state(), weft.default_generator.get_state()))
        return log, places

    expected, places = run(step)
    found, found_places = run(weft.compile(step, backend="interpret"))
    assert found_places == places
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def _second(region, keeps):
    def step(x, w):
        v = checkpoint(region, w * x, use_reentrant=False, preserve_rng_state=keeps)
        (first,) = weft.autograd.grad(v.sum(), w, create_graph=True)
        return first, weft.autograd.grad((first * first).sum(), w)[0]

    return step


def test_second_derivatives_where_the_second_run_draws_the_same() -> None:
    def region(x):
        y = weft.cond(x.sum() > 0, lambda a: a * a * a * F.dropout(a, 0.3), lambda a: a.exp(), (x,))
        return weft.cond(y.sum() > 0, lambda a: a * a, lambda a: a.sin() * weft.rand_like(a), (y,)) * y

    def run(function):
        weft.manual_seed(3)
        log = []
        for n, sign in ((4, 1), (4, -1), (6, 1), (5, -1)):
            log += function(weft.arange(1.0, n + 1) * sign, weft.full((n,), 0.3, requires_grad=True))
        return [value for result in log for value in result.tolist()]

    step = _second(region, True)
    np.testing.assert_allclose(run(weft.compile(step, backend="interpret")), run(step), 1e-4)


def test_second_derivatives_where_it_draws_others_are_refused() -> None:
    w = weft.ones(4, requires_grad=True)
    with pytest.raises(CaptureError, match="second derivative through a branch or a loop within a checkpoint"):
        weft.compile(_second(_branch, False))(weft.ones(4), w)
    weft.compile(_second(_branch, False), split=True)(weft.ones(4), w)
