"""weft.distributions: distributions of numbers, vectors and matrices, with samples, densities, entropies and
divergences. distribution.py has the base and how parameters are taken; constraints.py what parameters and values
satisfy; transforms/ invertible functions, and constraint_registry.py which of them leads into a constraint; kl.py and
divergences.py the divergences. The families stand in the other files."""

from weft.distributions import constraint_registry, constraints, divergences, kl, transforms, utils  # noqa: F401
from weft.distributions.categoricals import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from weft.distributions.constraint_registry import biject_to, transform_to
from weft.distributions.counts import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from weft.distributions.distribution import Distribution
from weft.distributions.exp_family import ExponentialFamily
from weft.distributions.gammas import Beta, Chi2, Dirichlet, FisherSnedecor, Gamma, InverseGamma
from weft.distributions.independent import Independent
from weft.distributions.intervals import (
    ContinuousBernoulli,
    Exponential,
    GeneralizedPareto,
    Kumaraswamy,
    Pareto,
    Uniform,
    Weibull,
)
from weft.distributions.kl import kl_divergence, register_kl
from weft.distributions.matrices import LKJCholesky, Wishart
from weft.distributions.mixture_same_family import MixtureSameFamily
from weft.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from weft.distributions.normals import HalfNormal, LogisticNormal, LogNormal, Normal
from weft.distributions.real_line import Cauchy, Gumbel, HalfCauchy, Laplace, StudentT, VonMises
from weft.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import *  # noqa: F403

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
    "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace",
    "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "kl_divergence", "register_kl", "transform_to",
    *transforms.__all__,
]
