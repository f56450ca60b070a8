"""Transforms: inverses, shapes and determinants beside Jacobians, registries, and their use in distributions."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.distributions as D
from weft.distributions import biject_to, constraints, transform_to
from weft.distributions.transforms import Transform

f64 = weft.float64
VECTORS: list[tuple[Transform, int]] = [
    (D.ExpTransform(), 3), (D.SigmoidTransform(), 3), (D.TanhTransform(), 3), (D.SoftplusTransform(), 3),
    (D.AffineTransform(1.0, -2.0), 3), (D.StickBreakingTransform(), 3), (D.CorrCholeskyTransform(), 6),
    (D.ComposeTransform([D.AffineTransform(0.5, 2.0), D.TanhTransform()]), 3),
    (D.IndependentTransform(D.ExpTransform(), 1), 3), (D.ReshapeTransform((4,), (2, 2)), 4),
    (D.CatTransform([D.ExpTransform(), D.TanhTransform()], -1, [1, 2]), 3),
    (D.StackTransform([D.ExpTransform(), D.TanhTransform(), D.identity_transform], -1), 3),
    (D.CumulativeDistributionTransform(D.Normal(0.0, 1.0)), 3),
]


@pytest.mark.parametrize("transform, size", VECTORS, ids=lambda v: type(v).__name__ if isinstance(v, Transform) else "")
def test_inverse_shape_and_determinant(transform: Transform, size: int) -> None:
    weft.manual_seed(1)
    x = weft.randn(size, dtype=f64) * 0.7
    y = transform(x)
    assert y.shape == transform.forward_shape(x.shape) and transform.inverse_shape(y.shape) == x.shape
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-7, atol=1e-9)
    assert transform.inv.inv is transform and bool(transform.codomain.check(y).all())
    log = transform.log_abs_det_jacobian(x, y)
    full = weft.autograd.functional.jacobian(transform, x)
    matrix = full.reshape(-1, size).numpy()
    if isinstance(transform, D.StickBreakingTransform):
        matrix = matrix[:-1]
    elif isinstance(transform, D.CorrCholeskyTransform):
        rows, columns = np.tril_indices(y.shape[-1], -1)
        matrix = full.numpy()[rows, columns]
    expected = np.linalg.slogdet(matrix)[1]
    np.testing.assert_allclose(float(log.sum()), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose((-transform.inv.log_abs_det_jacobian(y, x)).numpy(), log.numpy())


@pytest.mark.parametrize("registry", [biject_to, transform_to])
def test_registries_lead_into_constraints(registry: D.constraint_registry.ConstraintRegistry) -> None:
    weft.manual_seed(2)
    for constraint, shape in (
        (constraints.real, (3,)), (constraints.positive, (3,)), (constraints.greater_than(2.0), (3,)),
        (constraints.less_than(-1.0), (3,)), (constraints.interval(-1.0, 3.0), (3,)), (constraints.unit_interval, (3,)),
        (constraints.simplex, (4,)), (constraints.corr_cholesky, (6,)), (constraints.lower_cholesky, (3, 3)),
        (constraints.positive_definite, (3, 3)), (constraints.independent(constraints.positive, 1), (2, 3)),
        (constraints.stack([constraints.real, constraints.positive], -1), (3, 2)),
    ):
        try:
            transform = registry(constraint)
        except NotImplementedError:
            assert registry is biject_to
            continue
        y = transform(weft.randn(shape, dtype=f64))
        assert bool(constraint.check(y).all()), constraint
        np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-7)


def test_a_cache_keeps_what_cannot_be_inverted() -> None:
    x = weft.tensor([30.0])
    cached, plain = D.TanhTransform(cache_size=1), D.TanhTransform()
    assert cached.inv(cached(x)) is x and not bool(weft.isfinite(plain.inv(plain(x))).all())
    assert plain.with_cache()._cache_size == 1 and plain.with_cache(0) is plain and plain == cached


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="cache_size"):
        D.ExpTransform(cache_size=2)
    with pytest.raises(ValueError, match="numbers of elements"):
        D.ReshapeTransform((2,), (3,))
    with pytest.raises(ValueError, match="must be a Transform"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), [1])
    with pytest.raises(ValueError, match="within the support"):
        D.Exponential(1.0).log_prob(weft.tensor(-1.0))
    with pytest.raises(ValueError, match="satisfy the constraint"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="not broadcastable"):
        D.Normal(weft.zeros(3), weft.ones(3)).log_prob(weft.zeros(2))
    with pytest.raises(ValueError, match="specified"):
        D.Bernoulli()
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.Cauchy(0.0, 1.0), D.Laplace(0.0, 1.0))

    class Own(D.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match="must also define a custom"):
        Own().expand((2,))


def test_what_is_checked_in_a_program_is_checked_when_it_runs() -> None:
    @weft.compile
    def density(scale: weft.Tensor, value: weft.Tensor) -> weft.Tensor:
        return D.Gamma(scale, scale).log_prob(value)

    one = weft.ones(3)
    density(one, one.clone())
    before = weft.counters.captures
    for scale, value, words in ((-one, one, "constraint"), (one, -one, "support")):
        with pytest.raises(ValueError, match=words):
            density(scale, value)
    assert weft.counters.captures == before
    mapped = weft.func.vmap(lambda s: D.Normal(weft.zeros(()), s).log_prob(weft.zeros(())))
    with pytest.raises(ValueError, match="constraint"):
        mapped(-one)


def test_the_general_formula_of_exponential_families_agrees() -> None:
    """Entropy and divergence by derivatives of the log normalizer beside the closed forms, with gradients."""
    a = weft.tensor([0.7, 3.0], dtype=f64, requires_grad=True)
    for p, q in (
        (D.Gamma(a, 2 * a), D.Gamma(a + 1, a)), (D.Normal(a, a), D.Normal(2 * a, a + 1)),
        (D.Exponential(a), D.Exponential(a + 1)), (D.Bernoulli(a / 4), D.Bernoulli(a / 5)),
        (D.ContinuousBernoulli(logits=a), D.ContinuousBernoulli(logits=2 * a)),
    ):
        general, closed = D.ExponentialFamily.entropy(p), p.entropy()
        np.testing.assert_allclose(general.detach().numpy(), closed.detach().numpy(), rtol=1e-9)
        of_general, of_closed = (weft.autograd.grad(v.sum(), a, retain_graph=True)[0] for v in (general, closed))
        np.testing.assert_allclose(of_general.numpy(), of_closed.numpy(), rtol=1e-7)
        by_table = D.kl_divergence(p, q).detach().numpy()
        np.testing.assert_allclose(D.kl._kl_expfamily_expfamily(p, q).detach().numpy(), by_table, rtol=1e-8)
