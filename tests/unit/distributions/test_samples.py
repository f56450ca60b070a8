"""Samples: their distribution, their gradients, and that every mode draws the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.distributions as D
import weft.nn.functional as F
from weft.ops.packet import aten

f64 = weft.float64


def t(*values: float) -> weft.Tensor:
    return weft.tensor(list(values), dtype=f64)


WITH_CDF: dict[str, Callable[[], Any]] = {
    "Normal": lambda: D.Normal(t(1.0), t(2.0)), "LogNormal": lambda: D.LogNormal(t(0.3), t(0.8)),
    "HalfNormal": lambda: D.HalfNormal(t(2.0)), "Laplace": lambda: D.Laplace(t(1.0), t(0.5)),
    "Cauchy": lambda: D.Cauchy(t(1.0), t(0.5)), "HalfCauchy": lambda: D.HalfCauchy(t(0.5)),
    "Gumbel": lambda: D.Gumbel(t(-1.0), t(2.0)), "Uniform": lambda: D.Uniform(t(-1.0), t(3.0)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(logits=t(1.7)),
    "Kumaraswamy": lambda: D.Kumaraswamy(t(2.0), t(3.0)),
    "Exponential": lambda: D.Exponential(t(2.0)), "Weibull": lambda: D.Weibull(t(2.0), t(1.5)),
    "Pareto": lambda: D.Pareto(t(1.5), t(3.0)), "Gamma": lambda: D.Gamma(t(0.4), t(2.0)),
    "GeneralizedPareto": lambda: D.GeneralizedPareto(t(1.0), t(2.0), t(0.3)), "Chi2": lambda: D.Chi2(t(7.0)),
    "InverseGamma": lambda: D.InverseGamma(t(3.0), t(2.0)),
}


@pytest.mark.parametrize("name", WITH_CDF)
def test_distance_from_the_distribution_function(name: str) -> None:
    """Kolmogorov's distance; and the quantiles are the inverse of the function."""
    d, count = WITH_CDF[name](), 1500
    weft.manual_seed(3)
    drawn = np.sort(d.sample((count,)).numpy().reshape(-1))
    below = d.cdf(weft.tensor(drawn[:, None].tolist(), dtype=f64)).numpy().reshape(-1)
    ranks = np.arange(count + 1) / count
    assert max(np.abs(below - ranks[:-1]).max(), np.abs(below - ranks[1:]).max()) < 2 / math.sqrt(count)
    levels = t(0.05, 0.4, 0.9).unsqueeze(-1)
    try:
        quantiles = d.icdf(levels)
    except NotImplementedError:
        return
    np.testing.assert_allclose(d.cdf(quantiles).numpy(), levels.numpy(), rtol=1e-9)


MOMENTS: dict[str, Callable[[], Any]] = {
    "Beta": lambda: D.Beta(t(0.5, 3.0), t(2.0, 1.0)), "Dirichlet": lambda: D.Dirichlet(t(0.3, 2.0, 4.0)),
    "StudentT": lambda: D.StudentT(t(9.0), t(1.0), t(2.0)), "FisherSnedecor": lambda: D.FisherSnedecor(t(5.0), t(14.0)),
    "Bernoulli": lambda: D.Bernoulli(t(0.2, 0.7)), "Binomial": lambda: D.Binomial(30, t(0.2, 0.7)),
    "Geometric": lambda: D.Geometric(t(0.3)), "NegativeBinomial": lambda: D.NegativeBinomial(4, t(0.4)),
    "Poisson": lambda: D.Poisson(t(0.4, 30.0)), "OneHotCategorical": lambda: D.OneHotCategorical(t(0.2, 0.5, 0.3)),
    "Multinomial": lambda: D.Multinomial(9, t(0.2, 0.5, 0.3)),
    "MultivariateNormal": lambda: D.MultivariateNormal(t(1.0, 2.0), weft.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=f64)),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(
        t(1.0, 2.0), t(1.0, -2.0).unsqueeze(-1), t(0.5, 1.0)
    ),
    "Wishart": lambda: D.Wishart(t(5.0)[0], weft.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=f64)),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(D.Categorical(t(0.3, 0.7)), D.Normal(t(-2.0, 1.0), t(0.5, 1.0))),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name: str) -> None:
    """Means within 5 of their standard errors, variances within 15 %."""
    d, count = MOMENTS[name](), 8000
    weft.manual_seed(5)
    drawn = d.sample((count,)).numpy()
    mean, variance = d.mean.numpy(), d.variance.numpy()
    assert np.all(np.abs(drawn.mean(0) - mean) < 5 * np.sqrt(variance / count))
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.15)


def test_angles_and_correlations() -> None:
    weft.manual_seed(7)
    angles = D.VonMises(t(0.7), t(3.0)).sample((8000,))
    ratio = float(aten.special_i1e(t(3.0)) / aten.special_i0e(t(3.0)))
    assert abs(float((angles - 0.7).cos().mean()) - ratio) < 0.01 and abs(float((angles - 0.7).sin().mean())) < 0.03
    factors = D.LKJCholesky(3, 1.5).sample((4000,))
    correlations = factors @ factors.mT
    assert float((correlations.diagonal(dim1=-2, dim2=-1) - 1).abs().max()) < 1e-5
    # each correlation is 2 x - 1 with x of Beta(b, b), b = concentration + (n - 2) / 2
    assert abs(float(correlations[:, 0, 1].var()) - 1 / (2 * 2.0 + 1)) < 0.02


def test_gamma_numbers_move_as_the_distribution_function_demands() -> None:
    """The gradient of a number x by the shape a is that which keeps P(a, x): central differences of P."""
    weft.manual_seed(11)
    shape = weft.tensor([[0.05], [0.3], [1.0], [4.0], [60.0]], dtype=f64).expand(5, 40).clone().requires_grad_()
    x = aten._standard_gamma(shape)
    (moved,) = weft.autograd.grad(x.sum(), shape)
    a, h = shape.detach(), shape.detach() * 1e-6
    below = (weft.special.gammainc(a + h, x.detach()) - weft.special.gammainc(a - h, x.detach())) / (2 * h)
    density = (D.Gamma(a, 1.0).log_prob(x.detach())).exp()
    expected, usable = (-below / density).numpy(), (x.detach() > 1e-30).numpy()
    np.testing.assert_allclose(moved.numpy()[usable], expected[usable], rtol=2e-4, atol=1e-12)


def test_beta_numbers_move_as_the_distribution_function_demands() -> None:
    """Of whole b: I_x(a, b) is a finite sum, so that its slope by a is exact by complex steps."""
    weft.manual_seed(13)
    a, b = t(0.2, 0.9, 3.0, 20.0).requires_grad_(), 3
    x = D.Beta(a, float(b)).rsample((30,))
    rows = [weft.autograd.grad(x[i].sum(), a, retain_graph=True)[0].numpy() for i in range(30)]

    def below(a: Any, x: Any) -> Any:
        total, term = 0.0, 1.0
        for j in range(b):  # I_x(a, b) = x**a sum of (a)_j (1 - x)**j / j!
            total = total + term
            term = term * (a + j) * (1 - x) / (j + 1)
        return np.exp(a * np.log(x)) * total

    values, step = x.detach().numpy(), 1e-30
    slope = below(a.detach().numpy() + 1j * step, values).imag / step
    density = D.Beta(a.detach(), float(b)).log_prob(x.detach()).exp().numpy()
    np.testing.assert_allclose(np.array(rows), -slope / density, rtol=1e-8)


SMOOTH = {name: WITH_CDF[name] for name in (
    "Normal", "LogNormal", "Laplace", "Gumbel", "Uniform", "ContinuousBernoulli", "Kumaraswamy", "Exponential",
    "Weibull", "Pareto", "GeneralizedPareto",
)}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_samples_and_densities(name: str) -> None:
    """Beside central differences in float64, with the same draw."""
    d = SMOOTH[name]()
    names = [n for n in d._parameter_dims if n in d.__dict__]
    values = [d.__dict__[n].detach().clone().requires_grad_() for n in names]

    def of(parameters: tuple[weft.Tensor, ...]) -> Any:
        weft.manual_seed(17)
        return type(d)(**dict(zip(names, parameters, strict=True)), validate_args=False)

    assert weft.autograd.gradcheck(lambda *p: of(p).rsample((5,)), values)
    assert weft.autograd.gradcheck(lambda *p: of(p).log_prob(d.icdf(t(0.37))), values)


def draws(x: weft.Tensor) -> weft.Tensor:
    """One of each kind of draw."""
    weft.manual_seed(23)
    h = F.softplus(x) + 0.1
    parts = [
        D.Normal(x, h).rsample(), D.Gamma(h, h).rsample(), D.Dirichlet(h).rsample(), D.Poisson(h * 5).sample(),
        D.Binomial(20, logits=x).sample(), D.VonMises(x, h).sample(),
        D.Categorical(logits=x).sample().unsqueeze(-1).expand(x.shape).to(x.dtype),
    ]
    return weft.stack(parts)


@pytest.mark.parametrize("mode", ["compile", "split", "lazy"])
def test_every_mode_draws_the_same(mode: str) -> None:
    x = weft.linspace(-1, 2, 12, dtype=f64).reshape(3, 4)
    expected = draws(x)
    state = weft.get_rng_state()
    drawn = draws(x.to("lazy")) if mode == "lazy" else weft.compile(draws, split=mode == "split")(x)
    actual = drawn.to("cpu")
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)
    assert weft.equal(weft.get_rng_state(), state)


def test_a_scan_and_a_map_draw() -> None:
    def body(total: weft.Tensor, a: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        drawn = aten._standard_gamma(a)
        return total + drawn, drawn

    shapes = weft.tensor([0.5, 2.0, 9.0], dtype=f64)
    weft.manual_seed(29)
    total, each = weft.scan(body, weft.zeros((), dtype=f64), shapes)
    weft.manual_seed(29)
    one_by_one = weft.stack([aten._standard_gamma(a) for a in shapes])
    np.testing.assert_allclose(each.numpy(), one_by_one.numpy())
    np.testing.assert_allclose(float(total), float(one_by_one.sum()))
    weft.manual_seed(29)
    mapped = weft.func.vmap(lambda a: D.Gamma(a, 1.0).sample(), randomness="different")(shapes)
    np.testing.assert_allclose(mapped.numpy(), one_by_one.numpy())
