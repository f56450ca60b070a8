"""Differences and trapezoids, numbers taken apart, tuples of elements, and writes to places of the flattened tensor,
against NumPy and Python."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import weft

Rng = np.random.Generator


def _tensor(rng: Rng, *dims: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(dims))


def test_differences(rng: Rng) -> None:
    x = _tensor(rng, 3, int(rng.integers(4, 8)))
    n, dim = int(rng.integers(0, 3)), int(rng.integers(-2, 2))
    np.testing.assert_allclose(x.diff(n, dim).numpy(), np.diff(x.numpy(), n, dim))
    np.testing.assert_allclose(
        weft.diff(x, prepend=x[:, :1], append=x[:, :2]).numpy(),
        np.diff(x.numpy(), 1, -1, x.numpy()[:, :1], x.numpy()[:, :2]),
    )
    assert weft.diff(weft.tensor([True, False, False])).tolist() == [True, False]
    assert weft.diff(weft.tensor([1.0, 2.0]), 5).shape == (0,)
    assert weft.autograd.gradcheck(lambda v: v.diff(2), x.clone().requires_grad_())


def test_trapezoids(rng: Rng) -> None:
    y, x = _tensor(rng, 3, 5), _tensor(rng, 5).sort()[0]
    values, places = y.numpy(), x.numpy()
    areas = (values[:, 1:] + values[:, :-1]) / 2
    np.testing.assert_allclose(weft.trapezoid(y, dx=0.3).numpy(), 0.3 * areas.sum(1))
    np.testing.assert_allclose(weft.trapezoid(y, x).numpy(), (areas * np.diff(places)).sum(1))
    np.testing.assert_allclose(weft.cumulative_trapezoid(y, x).numpy(), (areas * np.diff(places)).cumsum(1))
    np.testing.assert_allclose(weft.trapz(y.t(), x, dim=0).numpy(), (areas * np.diff(places)).sum(1))
    assert weft.autograd.gradcheck(
        lambda a, b: weft.trapezoid(a, b), (y.clone().requires_grad_(), x.clone().requires_grad_())
    )


def test_powers_of_a_vector(rng: Rng) -> None:
    x = _tensor(rng, 4)
    np.testing.assert_allclose(weft.vander(x, 3).numpy(), np.vander(x.numpy(), 3))
    np.testing.assert_allclose(weft.linalg.vander(x).numpy(), np.vander(x.numpy(), increasing=True))
    zero = weft.zeros(1, dtype=weft.float64, requires_grad=True)
    weft.vander(zero, 3).sum().backward()
    assert zero.grad is not None and zero.grad.item() == 1


def test_common_divisors(rng: Rng) -> None:
    a, b = (weft.from_numpy(rng.integers(-40, 40, (3, 4)).astype(np.int32)) for _ in range(2))
    assert (
        weft.gcd(a, b).tolist()
        == [[math.gcd(x, y) for x, y in zip(r, s, strict=True)] for r, s in zip(a.tolist(), b.tolist(), strict=True)]
    )
    assert (
        weft.lcm(a, b).tolist()
        == [[math.lcm(x, y) for x, y in zip(r, s, strict=True)] for r, s in zip(a.tolist(), b.tolist(), strict=True)]
    )
    assert weft.gcd(a, b.long()).dtype is weft.int64
    with pytest.raises(RuntimeError, match="integers"):
        weft.gcd(a, b.double())


def test_mantissas_and_neighbours(rng: Rng) -> None:
    x = _tensor(rng, 6)
    mantissa, exponent = weft.frexp(x)
    assert exponent.dtype is weft.int32
    assert (
        [(m, e) for m, e in zip(mantissa.tolist(), exponent.tolist(), strict=True)]
        == [math.frexp(v) for v in x.tolist()]
    )
    assert weft.equal(weft.ldexp(mantissa, exponent), x)
    assert weft.autograd.gradcheck(lambda v: weft.frexp(v)[0], x.clone().requires_grad_())
    assert weft.nextafter(x, x + 1).tolist() == [math.nextafter(v, math.inf) for v in x.tolist()]


def test_tuples_of_elements(rng: Rng) -> None:
    a, b = _tensor(rng, 3), _tensor(rng, 2)
    assert (
        weft.cartesian_prod(a, b, a).tolist()
        == [list(t) for t in itertools.product(a.tolist(), b.tolist(), a.tolist())]
    )
    assert weft.equal(weft.cartesian_prod(a), a)
    for r, repeats in itertools.product((1, 2, 3), (False, True)):
        choose = itertools.combinations_with_replacement if repeats else itertools.combinations
        assert weft.combinations(a, r, repeats).tolist() == [list(t) for t in choose(a.tolist(), r)]


def test_pieces_by_numpys_names(rng: Rng) -> None:
    x = _tensor(rng, 4, 6, 2)
    for name in ("hsplit", "vsplit", "dsplit"):
        for where in (2, [1]):
            for piece, expected in zip(getattr(weft, name)(x, where), getattr(np, name)(x.numpy(), where), strict=True):
                np.testing.assert_array_equal(piece.numpy(), expected)
                assert piece._base is x
    with pytest.raises(RuntimeError, match="not divisible"):
        x.hsplit(4)


def test_writes_to_the_flattened_tensor(rng: Rng) -> None:
    x, source = _tensor(rng, 3, 4), _tensor(rng, 3)
    places = weft.tensor([11, 0, -2])
    expected = x.numpy().copy()
    np.put(expected, places.numpy(), source.numpy())
    assert weft.equal(weft.put(x, places, source), weft.from_numpy(expected))
    seen = x.t()
    seen.put_(weft.tensor([1, 1]), weft.ones(2, dtype=weft.float64), accumulate=True)
    assert x[1, 0].item() == pytest.approx(expected[1, 0] + 2)
    with pytest.raises(IndexError, match="number of elements"):
        x.put_(places, source[:1])


def test_a_filled_diagonal(rng: Rng) -> None:
    for dims, wrap in (((3, 5), False), ((7, 2), True), ((7, 2), False), ((3, 3, 3), False)):
        x = _tensor(rng, *dims)
        expected = x.numpy().copy()
        np.fill_diagonal(expected, 1.5, wrap)
        assert x.fill_diagonal_(1.5, wrap) is x
        np.testing.assert_array_equal(x.numpy(), expected)
    leaf = weft.ones(2, 2, requires_grad=True)
    (leaf * 3).fill_diagonal_(0.0).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [[0, 3], [3, 0]]


def test_reductions_into_slices(rng: Rng) -> None:
    x, source = _tensor(rng, 3, 2), _tensor(rng, 4, 2)
    index = weft.tensor([0, 2, 0, 0])
    got = x.index_reduce(0, index, source, "amax")
    rows = source.numpy()
    np.testing.assert_allclose(
        got.numpy(),
        [np.vstack([x.numpy()[:1], rows[[0, 2, 3]]]).max(0), x.numpy()[1], np.maximum(x.numpy()[2], rows[1])],
    )
    alone = x.index_reduce(0, index, source, "mean", include_self=False)
    np.testing.assert_allclose(alone[0].numpy(), rows[[0, 2, 3]].mean(0))


def test_compiled(rng: Rng) -> None:
    def whole(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return (
            x.diff(), weft.trapezoid(x), weft.vander(x[0]), weft.cartesian_prod(x[0], x[1]),
            x.clone().fill_diagonal_(2.0), weft.ldexp(x, x.long()), x.hsplit([1])[1]
        )

    x = _tensor(rng, 3, 4)
    for got, expected in zip(weft.compile(whole)(x), whole(x), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy())


@pytest.mark.parametrize("name", ["selu_", "celu_", "addmm_", "addr_", "renorm_", "index_fill_"])
def test_a_captured_write_of_a_composite(name: str, rng: Rng) -> None:
    """An entry without a type rule of its own says only by its opening what is written."""
    a, b = _tensor(rng, 3, 3), _tensor(rng, 3, 3)
    arguments = {
        "addmm_": (a, b), "addr_": (a[0], b[0]), "renorm_": (2, 0, 0.5),
        "index_fill_": (0, weft.tensor([1]), weft.tensor(5.0)),
    }.get(name, ())
    x = _tensor(rng, 3, 3)

    def write(x: weft.Tensor) -> weft.Tensor:
        return getattr(x.clone(), name)(*arguments)  # type: ignore[no-any-return]

    np.testing.assert_allclose(weft.compile(write)(x).numpy(), write(x).numpy())


def test_slopes_of_samples(rng: Rng) -> None:
    x, places = _tensor(rng, 5, 4), _tensor(rng, 5).sort()[0]
    for order in (1, 2):
        for got, expected in zip(
            weft.gradient(x, spacing=0.3, edge_order=order), np.gradient(x.numpy(), 0.3, edge_order=order), strict=True
        ):
            np.testing.assert_allclose(got.numpy(), expected)
        np.testing.assert_allclose(
            weft.gradient(x, spacing=(places,), dim=0, edge_order=order)[0].numpy(),
            np.gradient(x.numpy(), places.numpy(), axis=0, edge_order=order),
        )
    assert weft.autograd.gradcheck(lambda v: weft.gradient(v, edge_order=2), x.clone().requires_grad_())
    with pytest.raises(RuntimeError, match="at least edge_order"):
        weft.gradient(x[:1])


def test_places_of_a_flattened_tensor(rng: Rng) -> None:
    dims = tuple(int(d) for d in rng.integers(1, 5, 3))
    flat = weft.from_numpy(rng.integers(0, int(np.prod(dims)), (2, 3)))
    for got, expected in zip(weft.unravel_index(flat, dims), np.unravel_index(flat.numpy(), dims), strict=True):
        np.testing.assert_array_equal(got.numpy(), expected)
