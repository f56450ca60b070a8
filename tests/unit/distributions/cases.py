"""Distributions with parameters drawn from a seed, by name, for any library that has PyTorch's names: what stored
values were computed of, and what the tests compute again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Parameters = dict[str, Any]


def normal(rng: Any, *dims: int) -> Array:
    return rng.standard_normal(dims)


def positive(rng: Any, *dims: int) -> Array:
    return np.exp(rng.uniform(-1.5, 2.0, dims))


def unit(rng: Any, *dims: int) -> Array:
    return rng.uniform(0.03, 0.97, dims)


def simplex(rng: Any, *dims: int) -> Array:
    parts = rng.uniform(0.1, 1.0, dims)
    return parts / parts.sum(-1, keepdims=True)


def definite(rng: Any, *dims: int) -> Array:
    root = rng.standard_normal(dims)
    return root @ np.swapaxes(root, -1, -2) + 2 * np.eye(dims[-1])


def factor(rng: Any, *dims: int) -> Array:
    return np.linalg.cholesky(definite(rng, *dims))


def ordered(rng: Any) -> Parameters:
    low = normal(rng, 3)
    return {"low": low, "high": low + positive(rng, 3)}


def loc_scale(r: Any) -> Parameters:
    return {"loc": normal(r, 2, 3), "scale": positive(r, 3)}


def two(a: str, b: str) -> Callable[[Any], Parameters]:
    return lambda r: {a: positive(r, 2, 3), b: positive(r, 3)}


def either(r: Any) -> Parameters:
    return {"probs": unit(r, 3)} if r.random() < 0.5 else {"logits": 2 * normal(r, 2, 3)}


def choice(r: Any) -> Parameters:
    return {"probs": simplex(r, 2, 4)} if r.random() < 0.5 else {"logits": normal(r, 4)}


MATRIX: list[Callable[[Any], Parameters]] = [
    lambda r: {"covariance_matrix": definite(r, 3, 3)}, lambda r: {"precision_matrix": definite(r, 2, 3, 3)},
    lambda r: {"scale_tril": factor(r, 3, 3)},
]
CASES: dict[str, Callable[[Any], Parameters]] = {
    "Bernoulli": either,
    "Beta": two("concentration1", "concentration0"),
    "Binomial": lambda r: {"total_count": 7, **either(r)},
    "Categorical": choice,
    "Cauchy": loc_scale,
    "Chi2": lambda r: {"df": positive(r, 3)},
    "ContinuousBernoulli": either,
    "Dirichlet": lambda r: {"concentration": positive(r, 2, 4)},
    "Exponential": lambda r: {"rate": positive(r, 3)},
    "FisherSnedecor": two("df1", "df2"),
    "Gamma": two("concentration", "rate"),
    "GeneralizedPareto": lambda r: {**loc_scale(r), "concentration": r.choice([-0.4, 0.0, 0.3], 3)},
    "Geometric": either,
    "Gumbel": loc_scale,
    "HalfCauchy": lambda r: {"scale": positive(r, 3)},
    "HalfNormal": lambda r: {"scale": positive(r, 3)},
    "InverseGamma": two("concentration", "rate"),
    "Kumaraswamy": two("concentration1", "concentration0"),
    "LKJCholesky": lambda r: {"dim": 3, "concentration": positive(r, 2)},
    "Laplace": loc_scale,
    "LogNormal": loc_scale,
    "LogisticNormal": loc_scale,
    "LowRankMultivariateNormal": lambda r: {
        "loc": normal(r, 2, 3), "cov_factor": normal(r, 3, 2), "cov_diag": positive(r, 3),
    },
    "Multinomial": lambda r: {"total_count": 5, **choice(r)},
    "MultivariateNormal": lambda r: {"loc": normal(r, 3), **MATRIX[r.integers(3)](r)},
    "NegativeBinomial": lambda r: {"total_count": positive(r, 3), **either(r)},
    "Normal": loc_scale,
    "OneHotCategorical": choice,
    "Pareto": two("scale", "alpha"),
    "Poisson": lambda r: {"rate": positive(r, 2, 3)},
    "RelaxedBernoulli": lambda r: {"temperature": positive(r, 1), **either(r)},
    "RelaxedOneHotCategorical": lambda r: {"temperature": positive(r, 1), **choice(r)},
    "StudentT": lambda r: {"df": positive(r, 3), **loc_scale(r)},
    "Uniform": ordered,
    "VonMises": lambda r: {"loc": normal(r, 2, 3), "concentration": positive(r, 3)},
    "Weibull": two("scale", "concentration"),
    "Wishart": lambda r: {"df": 4 + positive(r, 2), **MATRIX[r.integers(3)](r)},
}
DRAWS = 3  # sets of parameters of each
MOMENTS = "mean", "mode", "variance", "stddev"
KL = [
    *((name, name) for name in (
        "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "ContinuousBernoulli", "Dirichlet", "Exponential",
        "Gamma", "Geometric", "Gumbel", "HalfNormal", "Laplace", "LogNormal", "LowRankMultivariateNormal",
        "MultivariateNormal", "Normal", "OneHotCategorical", "Pareto", "Poisson", "Uniform",
    )),
    ("Bernoulli", "Poisson"), ("Beta", "ContinuousBernoulli"), ("Beta", "Exponential"), ("Beta", "Gamma"),
    ("Beta", "Normal"), ("Beta", "Pareto"), ("Beta", "Uniform"), ("ContinuousBernoulli", "Exponential"),
    ("ContinuousBernoulli", "Normal"), ("ContinuousBernoulli", "Pareto"), ("Exponential", "Beta"),
    ("Exponential", "ContinuousBernoulli"), ("Exponential", "Gamma"), ("Exponential", "Gumbel"),
    ("Exponential", "Normal"), ("Exponential", "Pareto"), ("Exponential", "Uniform"), ("Gamma", "Beta"),
    ("Gamma", "ContinuousBernoulli"), ("Gamma", "Exponential"), ("Gamma", "Gumbel"), ("Gamma", "Normal"),
    ("Gamma", "Pareto"), ("Gamma", "Uniform"), ("Gumbel", "Beta"), ("Gumbel", "ContinuousBernoulli"),
    ("Gumbel", "Exponential"), ("Gumbel", "Gamma"), ("Gumbel", "Normal"), ("Gumbel", "Pareto"), ("Gumbel", "Uniform"),
    ("Laplace", "Beta"), ("Laplace", "ContinuousBernoulli"), ("Laplace", "Exponential"), ("Laplace", "Gamma"),
    ("Laplace", "Normal"), ("Laplace", "Pareto"), ("Laplace", "Uniform"),
    ("LowRankMultivariateNormal", "MultivariateNormal"), ("MultivariateNormal", "LowRankMultivariateNormal"),
    ("Normal", "Beta"), ("Normal", "ContinuousBernoulli"), ("Normal", "Exponential"), ("Normal", "Gamma"),
    ("Normal", "Gumbel"), ("Normal", "Laplace"), ("Normal", "Pareto"), ("Normal", "Uniform"), ("Pareto", "Beta"),
    ("Pareto", "ContinuousBernoulli"), ("Pareto", "Exponential"), ("Pareto", "Gamma"), ("Pareto", "Normal"),
    ("Pareto", "Uniform"), ("Poisson", "Bernoulli"), ("Poisson", "Binomial"), ("Uniform", "Beta"),
    ("Uniform", "Exponential"), ("Uniform", "Gamma"), ("Uniform", "Gumbel"), ("Uniform", "Normal"),
    ("Uniform", "Pareto"),
]


def parameters(name: str, number: int) -> Parameters:
    """Set `number` of a distribution's parameters: numbers and float64 arrays."""
    return CASES[name](np.random.default_rng([number, *name.encode()]))


def build(library: Any, name: str, number: int, dtype: Any, requires_grad: bool = False) -> tuple[Any, Parameters]:
    """The distribution, and its parameters as tensors."""
    args = {
        key: library.tensor(value.tolist(), dtype=dtype).requires_grad_(requires_grad)
        if isinstance(value, np.ndarray) else value
        for key, value in parameters(name, number).items()
    }
    return getattr(library.distributions, name)(**args), args


def build_pair(library: Any, p: str, q: str, number: int, dtype: Any) -> tuple[Any, Any]:
    """Two distributions of one batch shape."""
    pair = [build(library, name, n, dtype)[0] for name, n in ((p, number), (q, number + 1))]
    shape = library.broadcast_shapes(*(tuple(d.batch_shape) for d in pair))
    return pair[0].expand(shape), pair[1].expand(shape)


def everything() -> Iterator[tuple[str, int]]:
    for name in CASES:
        for number in range(DRAWS):
            yield name, number
