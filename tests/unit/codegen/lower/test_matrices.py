"""Linear algebra on matrices in compiled programs: native, equal to eager up to rounding, with eager's errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import weft

Rng = np.random.Generator
Tensor = weft.Tensor
SIZES = (0, 1, 3, 7, 16, 32, 33)
KINDS = [  # dtype, tolerance, batch dims, every how many sizes
    (weft.float64, 1e-11, (), 3), (weft.float32, 1e-4, (3,), 1), (weft.float64, 1e-11, (2, 2), 2)
]
linalg = weft.linalg


def _regular(rng: Rng, dtype: weft.dtype, *dims: int) -> Tensor:
    n = dims[-1]
    return weft.tensor(rng.standard_normal(dims) + 2 * n**0.5 * np.eye(n), dtype=dtype)


def _any(rng: Rng, dtype: weft.dtype, *dims: int) -> Tensor:
    return weft.tensor(rng.standard_normal(dims), dtype=dtype)


def _flat(results: object) -> Iterator[Tensor]:
    if isinstance(results, Tensor):
        yield results
    else:
        for result in results:  # type: ignore[attr-defined]
            yield from _flat(result)


def _agrees(function: Callable[[], object], tolerance: float) -> None:
    """Compiled, it leaves native code nowhere, and gives what eager gives."""
    weft.counters.reset()
    results = list(_flat(weft.compile(function)()))
    assert weft.counters.foreign_segments == 0
    for result, expected in zip(results, _flat(function()), strict=True):
        assert result.dtype is expected.dtype and result.shape == expected.shape
        np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), tolerance, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance", "batch", "every"), KINDS, ids=str)
def test_values(dtype: weft.dtype, tolerance: float, batch: tuple[int, ...], every: int, rng: Rng) -> None:
    matrices = [_regular(rng, dtype, *batch, n, n) for n in SIZES[::every]]
    definite = [a @ a.mT for a in matrices]
    strided = [a.repeat_interleave(2, -1)[..., ::2] for a in matrices]

    def factors() -> object:
        return [
            (linalg.cholesky_ex(s), linalg.cholesky(s), linalg.cholesky(s, upper=True), linalg.cholesky(s.mT),
             linalg.lu_factor(a), linalg.qr(a), linalg.inv(a), linalg.inv(a.mT), linalg.inv(b), linalg.slogdet(a),
             linalg.det(a / a.shape[-1]), linalg.matrix_exp(a / (1 + a.shape[-1])),
             linalg.matrix_exp(3 * a / a.shape[-1]))
            for a, b, s in zip(matrices, strided, definite, strict=True)
        ]

    _agrees(factors, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance", "batch", "every"), KINDS, ids=str)
def test_systems(dtype: weft.dtype, tolerance: float, batch: tuple[int, ...], every: int, rng: Rng) -> None:
    systems = [
        (_regular(rng, dtype, *batch, n, n), _any(rng, dtype, *batch, n, k))
        for n, k in [*zip(SIZES, (2, 0, 9, 17, 1, 5, 33), strict=True)][::every]
    ]

    def solutions() -> Iterator[Tensor]:
        for a, b in systems:
            yield linalg.solve(a, b)
            yield linalg.solve(a.mT, b.mT, left=False)
            yield linalg.lu_solve(*linalg.lu_factor(a), b)
            yield weft.cholesky_solve(b, a)
            for upper in (False, True):
                unit = a / (10 * a.shape[-1])
                yield linalg.solve_triangular(a, b, upper=upper)
                yield linalg.solve_triangular(a.mT, b, upper=upper)
                yield linalg.solve_triangular(unit, b, upper=upper, unitriangular=True)
                yield linalg.solve_triangular(a, b.mT, upper=upper, left=False)
                yield linalg.solve_triangular(a.mT, b.mT[..., ::2, :], upper=upper, left=False)

    _agrees(lambda: list(solutions()), tolerance)


def test_broadcast_batches(rng: Rng) -> None:
    def pair(of_matrix: tuple[int, ...], of_right: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        return _regular(rng, weft.float64, *of_matrix, 3, 3), _any(rng, weft.float64, *of_right, 3, 2)

    pairs = [
        pair(*dims) for dims in (((), (4,)), ((4,), ()), ((2, 1), (1, 5)), ((2, 1), (5,)), ((1,), (2, 3)), ((0,), (1,)))
    ]
    tall, wide = _any(rng, weft.float64, 2, 9, 4), _any(rng, weft.float64, 3, 5).triu()
    square = _regular(rng, weft.float64, 4, 3, 2, 2).transpose(0, 1)[:, 1:]  # batch dims without a common stride
    _agrees(
        lambda: [
            *(linalg.solve(a, b) for a, b in pairs), *(linalg.solve_triangular(a, b, upper=True) for a, b in pairs),
            *(linalg.qr(a, mode=mode) for a in (tall, tall.mT, wide) for mode in ("reduced", "complete", "r")),
            linalg.inv(square), linalg.slogdet(square), linalg.inv(weft.eye(3)), weft.ones(2, 1, 1).det(),
        ],
        1e-11,
    )


def test_sizes_that_are_not_known(rng: Rng) -> None:
    """Large ones are done in blocks."""

    def function(a: Tensor, b: Tensor) -> object:
        s = a @ a.mT
        return (
            linalg.cholesky(s), linalg.cholesky(s, upper=True), linalg.inv(a), linalg.slogdet(a), linalg.det(a / 9),
            linalg.lu_factor_ex(a), linalg.lu(b)[1:], linalg.matrix_exp(a / 20),
            linalg.solve(a, b), linalg.solve(a, b[:, 0]),
            linalg.solve_triangular(a, b, upper=False), linalg.solve_triangular(a.mT, b[:, :1], upper=True),
            weft.func.grad(lambda a: linalg.det(a).sum())(a / 9),
        )

    compiled = weft.compile(function)
    weft.counters.reset()
    for n, k in ((70, 3), (3, 2), (130, 65), (257, 2)):
        a, b = _regular(rng, weft.float64, n, n), _any(rng, weft.float64, n, k)
        for result, expected in zip(_flat(compiled(a, b)), _flat(function(a, b)), strict=True):
            if bool(expected.isfinite().all()):  # determinants of large matrices are not
                np.testing.assert_allclose(result.numpy(), expected.numpy(), 1e-8, 1e-8 * float(expected.abs().max()))
    assert (weft.counters.captures, weft.counters.foreign_segments) == (1, 0)


def test_a_kalman_filter_stays_in_native_code(rng: Rng) -> None:
    double = weft.float64
    F, H = _regular(rng, double, 4, 4) * 0.1, _any(rng, double, 2, 4)
    seen = _any(rng, double, 20, 2)
    noise = [weft.zeros(n, dtype=double, requires_grad=True) for n in (4, 2)]

    def negative_log_likelihood() -> Tensor:
        Q, R = (weft.diag(n.exp()) for n in noise)
        mean, P = weft.zeros(4, dtype=double), weft.eye(4, dtype=double)
        loss = weft.zeros((), dtype=double)
        for y in seen:
            mean, P = F @ mean, F @ P @ F.mT + Q
            S = H @ P @ H.mT + R
            rest = y - H @ mean
            z = linalg.solve_triangular(linalg.cholesky(S), rest[:, None], upper=False)
            loss = loss + (z * z).sum() + linalg.slogdet(S)[1]
            gain = linalg.solve(S, H @ P).mT
            mean, P = mean + gain @ rest, P - gain @ H @ P
        return loss

    def step() -> tuple[Tensor, ...]:
        loss = negative_log_likelihood()
        return (loss.detach(), *weft.autograd.grad(loss, noise))

    weft.counters.reset()
    results = weft.compile(step)()
    assert (weft.counters.native_calls, weft.counters.foreign_segments) == (1, 0)
    for result, expected in zip(results, step(), strict=True):
        np.testing.assert_allclose(result.numpy(), expected.numpy(), 1e-9)


def test_what_nan_and_singular_matrices_give(rng: Rng) -> None:
    nan, zero = float("nan"), weft.zeros(2, 2)
    holes = weft.tensor([[[4.0, nan], [1.0, 5.0]], [[nan, nan], [nan, nan]]])
    unread = weft.tensor([[4.0, nan], [2.0, 5.0]])  # beside the triangle that is read
    singular = weft.tensor([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 3.0], [0.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]])
    _agrees(
        lambda: [
            linalg.inv(holes), linalg.det(holes), linalg.solve(holes, holes[0, 1:].mT.clone()),
            linalg.cholesky(unread), linalg.cholesky(unread.mT, upper=True),
            linalg.solve_triangular(unread, zero + 1, upper=False), linalg.solve_triangular(zero, zero + 1, upper=True),
            linalg.slogdet(singular), linalg.det(singular), linalg.cholesky_ex(singular + weft.eye(2)),
            linalg.lu_factor_ex(singular), linalg.lu(singular),
            weft.func.grad(lambda a: linalg.det(a).sum())(singular),
            linalg.matrix_exp(holes), linalg.matrix_exp(singular),
        ],
        1e-6,
    )


def test_determinants_whose_pivots_leave_the_range_of_numbers(rng: Rng) -> None:
    """On the way only: the product of all is a number again."""
    for dtype, size in ((weft.float64, 200), (weft.float32, 30)):
        for n in (4, 8):
            pivots = weft.tensor([-(10.0**size)] * (n // 2) + [2 * 10.0**-size] * (n // 2), dtype=dtype)
            of = (pivots, pivots.flip(0), weft.ones(n, dtype=dtype), weft.zeros(n, dtype=dtype))
            matrices = weft.stack([weft.diag(p) for p in of])
            _agrees(lambda a=matrices: [linalg.det(a), linalg.det(a[0])], 1e-4)
            assert linalg.det(matrices).isfinite().all()


FAILURES: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "cholesky": (lambda a: linalg.cholesky(a), "leading minor of order 2 is not positive-definite"),
    "upper": (lambda a: linalg.cholesky(a, upper=True), "leading minor of order 2 is not positive-definite"),
    "cholesky_ex": (lambda a: linalg.cholesky_ex(a, check_errors=True), "minor of order 2 is not positive-definite"),
    "inv": (lambda a: linalg.inv(a), "The diagonal element 2 is zero"),
    "solve": (lambda a: linalg.solve(a, a[..., :1]), "the input matrix is singular"),
    "lu_factor": (lambda a: linalg.lu_factor(a), r"U\[2,2\] is zero"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_those_of_eager_and_come_before_any_write(name: str) -> None:
    function, text = FAILURES[name]
    good, bad = weft.eye(3), weft.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    written = weft.zeros(3)

    def step(shift: Tensor) -> object:
        written.add_(1)
        result = function(matrices + shift)
        written.add_(1)
        return result

    for matrices in (bad, weft.stack([good, bad, bad]), weft.stack([good, good, good, bad]).reshape(2, 2, 3, 3)):
        element = {2: "", 3: r"\(Batch element 1\): ", 4: r"\(Batch element 3\): "}[matrices.ndim]
        with pytest.raises(linalg.LinAlgError, match=rf"^linalg\.\w+: {element}.*{text}") as eager:
            function(matrices)
        compiled = weft.compile(step)
        weft.counters.reset()
        compiled(weft.ones(1).new_full((3, 1), 3.0) * good)
        assert weft.counters.foreign_segments == 0 and written.tolist() == [2, 2, 2]
        with pytest.raises(linalg.LinAlgError, match=r"test_matrices\.py:\d+.*" + re.escape(str(eager.value)) + "$"):
            compiled(weft.zeros(3, 3))
        assert written.tolist() == [2, 2, 2]
        written.zero_()


@pytest.mark.parametrize("n", [3, 9])
def test_the_first_of_many_that_fail_is_named(n: int) -> None:
    """Several matrices are done at once, and the last group is not full."""
    many = weft.eye(n).repeat(21, 1, 1)
    many[18:20] = 0
    for function in (linalg.inv, linalg.cholesky, lambda a: linalg.solve(a, a), linalg.lu_factor):
        with pytest.raises(linalg.LinAlgError) as eager:
            function(many)
        compiled = weft.compile(lambda a, function=function: function(many + a))
        results = zip(_flat(compiled(weft.eye(n))), _flat(function(many + weft.eye(n))), strict=True)
        assert all(weft.equal(x, y) for x, y in results)
        with pytest.raises(linalg.LinAlgError, match=re.escape(str(eager.value))) as error:
            compiled(weft.zeros(n, n))
        assert "(Batch element 18)" in str(error.value)


def _likelihood(a: Tensor, b: Tensor) -> Tensor:
    """Every operator once, all of them differentiable any number of times."""
    s = a @ a.mT + weft.eye(a.shape[-1], dtype=a.dtype)
    L = linalg.cholesky(s)
    z = linalg.solve_triangular(L, b, upper=False)
    y = linalg.solve_triangular(linalg.cholesky(s, upper=True), b.mT, upper=True, left=False)
    x = linalg.solve(a + 4 * s, b) + weft.cholesky_solve(b, L) + linalg.lu_solve(*linalg.lu_factor(s), b)
    return (
        (z * z).sum() + (y * y).sum() + (x * x).sum() + linalg.slogdet(s)[1].sum() + linalg.det(s / 9).sum()
        + linalg.inv(s).sum() + (linalg.qr(s)[0] * a).sum() + linalg.qr(s)[1].sum()
        + linalg.matrix_exp(a / 9).square().sum()
    )


@pytest.mark.parametrize("dims", [(2, 3, 3), (7, 7)], ids=str)
def test_gradients(dims: tuple[int, ...], rng: Rng) -> None:
    a = _any(rng, weft.float64, *dims).requires_grad_()
    b = _any(rng, weft.float64, *dims[:-1], 2).requires_grad_()
    along = _any(rng, weft.float64, *dims)

    def gradients() -> tuple[Tensor, ...]:
        first = weft.autograd.grad(_likelihood(a, b), (a, b), create_graph=True)
        second = weft.autograd.grad((first[0] * along).sum() + (first[1] ** 2).sum(), (a, b))
        return (*(g.detach() for g in first), *second)

    weft.counters.reset()
    compiled = weft.compile(gradients)
    ga, gb, gga, ggb = compiled()
    assert weft.counters.foreign_segments == 0
    for result, expected in zip((ga, gb, gga, ggb), gradients(), strict=True):
        np.testing.assert_allclose(result.numpy(), expected.numpy(), 1e-8, 1e-8)
    step, value, start = 1e-5, weft.compile(lambda: _likelihood(a, b).detach()), a.detach().clone()

    def at(shift: float) -> tuple[float, float]:
        with weft.no_grad():
            a.copy_(start + shift * along)
        ga, gb, _, _ = compiled()
        return float(value()), float((ga * along).sum() + (gb**2).sum())

    (up, up2), (down, down2) = at(step), at(-step)
    assert abs((up - down) / (2 * step) - float((ga * along).sum())) < 1e-5 * (1 + abs(float((ga * along).sum())))
    assert abs((up2 - down2) / (2 * step) - float((gga * along).sum())) < 1e-4 * (1 + abs(float((gga * along).sum())))
