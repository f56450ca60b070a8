"""The divergences of pairs of distributions.

Of numbers, KL(p || q) = -H(p) - E log q(x), where log q is a sum of few functions of x with coefficients
(`_LOG_DENSITY`), and p says what the mean of each is (`_MEANS`); where p has values that q has not, it is infinite
(`_SUPPORTS`). So one table serves all pairs whose functions and means meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft.nn.functional as F
from weft.distributions.categoricals import Categorical, OneHotCategorical
from weft.distributions.counts import Bernoulli, Binomial, Geometric, Poisson
from weft.distributions.gammas import Beta, Dirichlet, Gamma, InverseGamma
from weft.distributions.independent import Independent
from weft.distributions.intervals import ContinuousBernoulli, Exponential, Pareto, Uniform
from weft.distributions.kl import kl_divergence, register_kl
from weft.distributions.multivariate_normal import Gaussian, LowRankMultivariateNormal, MultivariateNormal
from weft.distributions.normals import HalfNormal, Normal
from weft.distributions.real_line import Cauchy, Gumbel, Laplace
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.utils import _sum_rightmost, euler_constant
from weft.layers.predicates import broadcast_shapes
from weft.ops.packet import aten
from weft.support.errors import Unsupported
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

Of = Callable[..., Tensor]


# ---- numbers: the means of functions of x
def _of_logs(p: Uniform, low: Tensor, high: Tensor) -> Tensor:
    """The mean of log over [low, high]."""
    return (aten.xlogy(high, high) - aten.xlogy(low, low)) / (p.high - p.low) - 1


def _distance_of_laplace(p: Laplace, m: Tensor) -> Tensor:
    away = (p.loc - m).abs()
    return away + p.scale * (-away / p.scale).exp()


def _distance_of_normal(p: Normal, m: Tensor) -> Tensor:
    z = (p.loc - m) / p.scale
    return p.scale * math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp() + (p.loc - m) * aten.erf(z * math.sqrt(0.5))


def _decay_of_uniform(p: Uniform, s: Tensor) -> Tensor:
    return s * ((-p.low / s).exp() - (-p.high / s).exp()) / (p.high - p.low)


_MEANS: dict[str, dict[type, Of]] = {
    "x": {kind: lambda p: p.mean for kind in (
        Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal, Pareto, Uniform
    )},
    # (x - m)**2
    "square": {kind: lambda p, m: p.variance + (p.mean - m).square() for kind in (
        Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal, Uniform
    )} | {
        # (the mean may be infinite where the variance is)
        Pareto: lambda p, m: aten.where(
            p.alpha > 2, p.variance + (aten.where(p.alpha > 2, p.mean, 0.0) - m).square(), math.inf
        ),
    },
    "log x": {
        Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
        Exponential: lambda p: -euler_constant - p.rate.log(),
        Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
        Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
        Uniform: lambda p: _of_logs(p, p.low, p.high),
    },
    "log(1 - x)": {
        Beta: lambda p: p.concentration0.digamma() - (p.concentration1 + p.concentration0).digamma(),
        Uniform: lambda p: _of_logs(p, 1 - p.high, 1 - p.low),
    },
    # exp(-x / s)
    "decay": {
        Exponential: lambda p, s: p.rate * s / (p.rate * s + 1),
        Gamma: lambda p, s: (1 + 1 / (p.rate * s)).pow(-p.concentration),
        Gumbel: lambda p, s: (-p.loc / s + (1 + p.scale / s).lgamma()).exp(),
        Normal: lambda p, s: (-p.loc / s + 0.5 * (p.scale / s).square()).exp(),
        Uniform: _decay_of_uniform,
    },
    # |x - m|
    "distance": {Laplace: _distance_of_laplace, Normal: _distance_of_normal},
}

# log q(x) without a constant: (function of x, its arguments, coefficient) of q; and the constant
Terms = tuple[list[tuple[str, tuple[Any, ...], Any]], Any]
_LOG_DENSITY: dict[type, Callable[[Any], Terms]] = {
    Beta: lambda q: (
        [("log x", (), q.concentration1 - 1), ("log(1 - x)", (), q.concentration0 - 1)],
        -q._log_normalizer(q.concentration1, q.concentration0),
    ),
    ContinuousBernoulli: lambda q: ([("x", (), q.logits)], -q._log_normalizer(q.logits)),
    Exponential: lambda q: ([("x", (), -q.rate)], q.rate.log()),
    Gamma: lambda q: (
        [("log x", (), q.concentration - 1), ("x", (), -q.rate)],
        q.concentration * q.rate.log() - q.concentration.lgamma(),
    ),
    Gumbel: lambda q: (
        [("x", (), -1 / q.scale), ("decay", (q.scale,), -(q.loc / q.scale).exp())], q.loc / q.scale - q.scale.log()
    ),
    Laplace: lambda q: ([("distance", (q.loc,), -1 / q.scale)], -(2 * q.scale).log()),
    Normal: lambda q: (
        [("square", (q.loc,), -0.5 / q.scale.square())], -q.scale.log() - 0.5 * math.log(2 * math.pi)
    ),
    Pareto: lambda q: ([("log x", (), -q.alpha - 1)], q.alpha.log() + q.alpha * q.scale.log()),
    Uniform: lambda q: ([], -(q.high - q.low).log()),
}
_FUNCTIONS: dict[type, tuple[str, ...]] = {
    Beta: ("log x", "log(1 - x)"), ContinuousBernoulli: ("x",), Exponential: ("x",), Gamma: ("log x", "x"),
    Gumbel: ("x", "decay"), Laplace: ("distance",), Normal: ("square",), Pareto: ("log x",), Uniform: (),
}
# the least and the largest value: numbers, or attributes, which are finite
_SUPPORTS: dict[type, tuple[float | str, float | str]] = {
    Beta: (0.0, 1.0), ContinuousBernoulli: (0.0, 1.0), Exponential: (0.0, math.inf), Gamma: (0.0, math.inf),
    Gumbel: (-math.inf, math.inf), Laplace: (-math.inf, math.inf), Normal: (-math.inf, math.inf),
    Pareto: ("scale", math.inf), Uniform: ("low", "high"),
}
_ABOVE = {"scale": 0.0, "low": -math.inf, "high": -math.inf}  # what these attributes are always above


def _is_outside(type_p: type, type_q: type) -> bool:
    """Whether p has values that q has not, whatever their parameters are."""
    (low, high), (q_low, q_high) = _SUPPORTS[type_p], _SUPPORTS[type_q]
    below = isinstance(low, float) and (low <= _ABOVE[q_low] if isinstance(q_low, str) else low < q_low)
    above = isinstance(high, float) and (high == math.inf if isinstance(q_high, str) else high > q_high)
    return below or above


def _kl_of_numbers(p: Any, q: Any) -> Tensor:
    type_p, type_q = (next(kind for kind in type(v).__mro__ if kind in _SUPPORTS) for v in (p, q))
    terms, constant = _LOG_DENSITY[type_q](q)
    divergence = -p.entropy() - constant
    for name, arguments, coefficient in terms:
        divergence = divergence - coefficient * _MEANS[name][type_p](p, *arguments)
    (low, high), (q_low, q_high) = _SUPPORTS[type_p], _SUPPORTS[type_q]
    for mine, theirs, sign in ((low, q_low, 1), (high, q_high, -1)):
        is_certain = theirs == -sign * math.inf or (isinstance(mine, str) and theirs == _ABOVE[mine] * sign == 0)
        if is_certain or not (isinstance(mine, str) or isinstance(theirs, str)):
            continue
        gap = sign * ((getattr(p, mine) if isinstance(mine, str) else mine) - (
            getattr(q, theirs) if isinstance(theirs, str) else theirs
        ))
        divergence = aten.where(gap >= 0, divergence, math.inf)
    return divergence


def _infinite(p: Any, q: Any) -> Tensor:
    """inf, of the shape that the two have together."""
    mean = p.mean
    return mean.new_full(broadcast_shapes(p.batch_shape, q.batch_shape), math.inf)


for _p in _SUPPORTS:
    for _q in _SUPPORTS:
        if _is_outside(_p, _q):
            register_kl(_p, _q)(_infinite)
        elif all(_p in _MEANS[name] for name in _FUNCTIONS[_q]):
            register_kl(_p, _q)(_kl_of_numbers)


# ---- counts and choices
def _softplus(x: Tensor) -> Tensor:
    return -F.logsigmoid(-x)


def _weighted(weight: Tensor, log_p: Tensor, log_q: Tensor, never: Tensor) -> Tensor:
    """weight (log_p - log_q): 0 for a weight of 0, else infinite where q never has the value."""
    return aten.where(weight == 0, 0.0, aten.where(never, math.inf, weight * (log_p - log_q)))


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Any, q: Any) -> Tensor:
    ones = _weighted(p.probs, -_softplus(-p.logits), -_softplus(-q.logits), q.probs == 0)
    return ones + _weighted(1 - p.probs, -_softplus(p.logits), -_softplus(q.logits), q.probs == 1)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    """Infinite for more trials of p; there is no formula for fewer: Unsupported, or NaN in a compiled function."""
    if modes.capture is None and modes.special is None and bool((p.total_count < q.total_count).any()):
        raise Unsupported("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * _kl_bernoulli_bernoulli(p, q)
    return aten.where(p.total_count > q.total_count, math.inf, aten.where(p.total_count < q.total_count, math.nan, kl))


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    return _weighted(p.probs, p.logits, q.logits, q.probs == 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return aten.xlogy(p.rate, p.rate) - aten.xlogy(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - aten.xlogy(p.probs, q.rate) - p.entropy()


register_kl(Poisson, Bernoulli)(_infinite)
register_kl(Poisson, Binomial)(_infinite)


# ---- vectors
@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    means = a.digamma() - a.sum(-1, True).digamma()
    return q._log_normalizer(b) - p._log_normalizer(a) - ((b - a) * means).sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_of_normal_vectors(p: Gaussian, q: Gaussian) -> Tensor:
    return p._divergence(q)


# ---- the rest
@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Source: Chyzak, Nielsen (arXiv:1905.10965)."""
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()


@register_kl(HalfNormal, HalfNormal)
@register_kl(InverseGamma, InverseGamma)
def _kl_of_bases(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """Of distributions whose transform hangs on no parameter."""
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise Unsupported("no divergence of distributions with different transforms")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Independent[Any], q: Independent[Any]) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise Unsupported("no divergence of distributions with different reinterpreted_batch_ndims")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
