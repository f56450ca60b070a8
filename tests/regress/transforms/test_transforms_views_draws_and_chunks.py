"""What transforms of functions once got wrong: histories of views that nothing used, draws on tensors that examples
share, chunks, empty outputs."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.func import grad, jacfwd, jacrev, jvp, linearize, vjp, vmap


def point(rng, *shape):
    return weft.from_numpy(rng.uniform(0.5, 1.5, shape))


def test_a_view_that_is_returned_after_its_base_was_written(rng):
    x = point(rng, 4)

    def f(x):
        y = x.clone()
        view = y[1]
        y.sin_()
        return view

    expected = np.zeros(4)
    expected[1] = np.cos(x.numpy()[1])
    np.testing.assert_allclose(grad(f)(x).numpy(), expected)
    np.testing.assert_allclose(vjp(f, x)[1](weft.tensor(2.0, dtype=weft.float64))[0].numpy(), 2 * expected)
    np.testing.assert_allclose(jacrev(grad(f))(x).numpy()[1], -np.sin(x.numpy()) * (expected != 0))
    np.testing.assert_allclose(vmap(grad(f))(x.repeat(3, 1)).numpy(), np.tile(expected, (3, 1)))


@pytest.mark.parametrize("draw", [
    lambda t: F.dropout(t, 0.5), lambda t: F.dropout2d(t, 0.5), lambda t: F.dropout(weft.ones_like(t), 0.5, True),
    weft.nn.Dropout(0.5),
])
def test_draws_on_what_all_examples_share(draw, rng):
    shared, each = weft.ones(2, 8, 3, 3), weft.arange(3.0)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda t, e: draw(t), (None, 0))(shared, each)
    same = vmap(lambda t, e: draw(t), (None, 0), randomness="same")(shared, each)
    assert bool((same == same[:1]).all())
    other = vmap(lambda t, e: draw(t), (None, 0), randomness="different")(shared, each)
    assert not bool((other[0] == other[1]).all()) and not bool((other[1] == other[2]).all())


def test_draws_into_what_all_examples_share(rng):
    each = weft.arange(3.0)
    for mode, text in (("error", "randomness error mode"), ("different", "a tensor that all examples share")):
        with pytest.raises(RuntimeError, match=text):
            vmap(lambda e: weft.zeros(4).uniform_() + e, randomness=mode)(each)
    out = vmap(lambda e: weft.zeros(4).uniform_() + 0 * e, randomness="same")(each)
    assert bool((out == out[:1]).all())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_the_same_numbers_in_every_chunk(size, rng):
    x = point(rng, 5, 3)
    out = vmap(lambda r: r * 0 + weft.rand_like(r), randomness="same", chunk_size=size)(x)
    assert bool((out == out[:1]).all())
    out = vmap(lambda r: r * 0 + weft.rand_like(r), randomness="different", chunk_size=size)(x)
    assert len({tuple(r) for r in out.tolist()}) == 5


def test_a_jacobian_one_row_at_a_time_needs_no_vmap(rng):
    class Picky(weft.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            assert g.nonzero().shape[0] == 1
            return g * 3

    np.testing.assert_allclose(jacrev(Picky.apply, chunk_size=1)(point(rng, 4)).numpy(), 3 * np.eye(4))


def test_what_has_no_derivative_is_refused(rng):
    x, z = point(rng, 3), weft.complex(point(rng, 2), point(rng, 2))
    for call, text in [
        (lambda: jacrev(lambda x: ())(x), "non-empty output"),
        (lambda: vjp(lambda x: [], x), "non-empty output"),
        (lambda: jacfwd(lambda x: ())(x), "non-empty output"),
        (lambda: jvp(weft.sin, (), ()), "at least one Tensor"),
        (lambda: jacrev(weft.conj)(z), "jacrev: Expected all inputs to be real"),
        (lambda: jacfwd(weft.conj)(z), "jacfwd: Expected all inputs to be real"),
        (lambda: jacrev(lambda x: x * 1j)(x), "jacrev: Expected all outputs to be real"),
        (lambda: jacfwd(lambda x: x * 1j)(x), "jacfwd: Expected all outputs to be real"),
        (lambda: linearize(weft.sin, x)[1](x.float()), "dtype"),
        (lambda: linearize(weft.sin, x)[1](x[:2]), "shape"),
        (lambda: linearize(weft.sin, x)[1]((x, x)), "argspec"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(ValueError, match="out_dims"):
        vmap(lambda a: a, out_dims=("last",))(x)


def test_as_strided_of_examples_that_lie_behind_others(rng):
    x = point(rng, 2, 5, 2, 3)[1]
    expected = x.numpy()[:, :, 1:]
    for f in (lambda a: a.as_strided(
        (2, 2), (3, 1), a.storage_offset() + 1
    ), lambda a: a.as_strided((2, 2), (3, 1), 31), lambda a: a.transpose(0, 1).as_strided((2, 2), (3, 1), 31)):
        np.testing.assert_array_equal(vmap(f)(x).numpy(), expected)
        np.testing.assert_array_equal(
            vmap(lambda a, f=f: grad(lambda b: f(b).sum())(a))(x).numpy(), np.tile([0.0, 1.0, 1.0], (5, 2, 1))
        )
        np.testing.assert_array_equal(jvp(vmap(f), (x,), (x,))[1].numpy(), expected)


def test_anomalies_inside_transforms(rng):
    x = weft.tensor([0.0, 1.0], dtype=weft.float64)
    with weft.autograd.set_detect_anomaly(True), pytest.raises(
        RuntimeError, match=r"SqrtBackward0' returned nan|MulBackward0' returned nan"
    ):
        vmap(grad(lambda a: (a.sqrt() * 0).sum()))(x)


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_functions_that_write_their_other_arguments(jacobian, rng):
    x, y, z = point(rng, 2), point(rng, 2), point(rng, 3)
    np.testing.assert_array_equal(jacobian(lambda x, y: y.copy_(x), argnums=0)(x, y).numpy(), np.eye(2))

    def f(z, y, scale=None):
        z[:2] = y
        scale.mul_(2)
        return (z * z).sum() * scale

    scale = weft.ones((), dtype=weft.float64)
    np.testing.assert_allclose(jacobian(f, argnums=1)(z, y, scale=scale).numpy(), 4 * y.numpy())
    assert float(scale) == 2


def test_what_vmap_gets_by_name_is_the_same_for_all_examples(rng):
    x, y = point(rng, 4, 3), point(rng, 4, 3)
    for size in (None, 3):
        out = vmap(lambda a, b: a + b["c"], chunk_size=size)(x, b={"c": y})
        np.testing.assert_allclose(out.numpy(), x.numpy()[:, None] + y.numpy())
    np.testing.assert_allclose(vmap(lambda a, b: a * b)(x, b=weft.tensor(2.0, dtype=x.dtype)).numpy(), 2 * x.numpy())
