"""weft.batch_norm, weft.instance_norm and others of PyTorch's functions of layers that stand in the package itself."""

from __future__ import annotations

import pytest

import weft
import weft.nn.functional as F

_MODES = {
    "eager": lambda f: f,
    "compile": weft.compile,
    "split": lambda f: weft.compile(f, split=True),
    "functionalize": weft.func.functionalize,
    "script": weft.jit.script,
}


def _normalized(x, w, b, mean, var):
    return weft.batch_norm(x, w, b, mean, var, True, 0.1, 1e-5, False)


def _normalized_alone(x, w, b):
    return weft.instance_norm(x, w, b, None, None, True, 0.1, 1e-5, False)


@pytest.mark.parametrize("mode", _MODES)
def test_batch_norm_takes_its_factors_first(mode):
    run = _MODES[mode](_normalized)
    for n in (3, 2, 5, 3):
        x, w, b = weft.rand(n, 4, 3), weft.rand(4), weft.rand(4)
        means, variances = [weft.zeros(4), weft.zeros(4)], [weft.ones(4), weft.ones(4)]
        found = run(x, w, b, means[0], variances[0])
        expected = F.batch_norm(x, means[1], variances[1], w, b, True, 0.1, 1e-5)
        weft.testing.assert_close(found, expected)
        weft.testing.assert_close((means[0], variances[0]), (means[1], variances[1]))


@pytest.mark.parametrize("mode", _MODES)
def test_instance_norm_takes_its_factors_first(mode):
    run = _MODES[mode](_normalized_alone)
    for n in (3, 2, 5, 3):
        x, w, b = weft.rand(n, 4, 6), weft.rand(4), weft.rand(4)
        weft.testing.assert_close(run(x, w, b), F.instance_norm(x, None, None, w, b, True, 0.1, 1e-5))


def test_on_a_lazy_device():
    x, w, b = weft.rand(3, 4, 6), weft.rand(4), weft.rand(4)
    found = _normalized_alone(*(t.to("lazy") for t in (x, w, b)))
    weft.testing.assert_close(found.cpu(), _normalized_alone(x, w, b))


def test_functions_that_are_the_same_in_both_places():
    x = weft.rand(2, 3, 8)
    assert weft.equal(weft.adaptive_avg_pool1d(x, 4), F.adaptive_avg_pool1d(x, 4))
    assert weft.equal(weft.pairwise_distance(x[0], x[1]), F.pairwise_distance(x[0], x[1]))
    assert weft.equal(weft.pdist(x[0]), F.pdist(x[0]))
    weight = weft.rand(5, 8, 8)
    assert weft.equal(weft.bilinear(x[0], x[1], weight), F.bilinear(x[0], x[1], weight))


@pytest.mark.parametrize("shapes", [(1.0,), ((2, 1.5),), ((2,), "ab"), ((3,), None)])
def test_broadcast_shapes_refuses_what_is_no_size(shapes):
    with pytest.raises(weft.WeftError, match="sizes are ints"):
        weft.broadcast_shapes(*shapes)


def test_broadcast_shapes_takes_sizes_of_a_program():
    def run(x, y):
        return weft.zeros(weft.broadcast_shapes(x.shape, y.shape, [1])) + x.shape[0]

    compiled = weft.compile(run)
    for n in (2, 3, 5, 2):
        x, y = weft.rand(n, 1), weft.rand(1, n + 1)
        assert weft.equal(compiled(x, y), run(x, y))
