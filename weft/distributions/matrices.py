"""Distributions of matrices: Wishart, LKJCholesky."""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.distribution import Distribution
from weft.distributions.exp_family import ExponentialFamily
from weft.distributions.gammas import Beta, Chi2
from weft.distributions.multivariate_normal import OfScaleTril, log_diagonal, one_matrix, scale_tril_of
from weft.distributions.utils import (
    Parameter,
    Shape,
    _standard_normal,
    arange,
    as_tensors,
    vec_to_tril_matrix,
)
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.support.warn import warn
from weft.tensor.modes import modes, no_grad
from weft.tensor.tensor import Tensor
from weft.types.limits import finfo


class Wishart(OfScaleTril, ExponentialFamily):
    """The distribution of x x', the columns of x being `df` normal vectors.

    Args:
        df: degrees of freedom, above n - 1. Raises ValueProblem.
        covariance_matrix, precision_matrix, scale_tril: one of the three, [..., n, n]: the covariance of a column, its
            inverse, or its lower triangular factor. Raises ValueProblem.

    Samples are drawn by Bartlett's decomposition. Source: Sawyer, Wishart Distributions and Inverse-Wishart Sampling
    (2007).
    """

    support = constraints.positive_definite
    has_rsample = True
    _parameter_dims = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
    _kept = ("_unbroadcasted_scale_tril",)
    _mean_carrier_measure: Any = 0.0
    df: Tensor

    def __init__(
        self, df: Parameter, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_matrix(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        n = matrix.shape[-1]
        if modes.capture is None and modes.special is None:
            least = float(as_tensors([df])[0].min())
            if least <= n - 1:
                raise ValueProblem(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
            if least < n:
                warn(
                    "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim."
                )
        self._take(validate_args, matrix.shape[-2:], **{name: matrix, "df": df})
        self._unbroadcasted_scale_tril = scale_tril_of(name, matrix)

    @property
    def arg_constraints(self) -> Any:
        return {
            "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def _of_each(self, factor: Tensor) -> Tensor:
        return factor.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._of_each(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """NaN for df up to n + 1."""
        factor = self.df - self._event_shape[-1] - 1
        return self._of_each(aten.where(factor > 0, factor, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self._of_each(self.df) * (covariance.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _steps(self) -> Tensor:
        """0 to n - 1."""
        return arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)

    def rsample(self, sample_shape: Shape = (), max_try_correction: int | None = None) -> Tensor:
        """Samples with gradients for the parameters, [*sample_shape, *batch, n, n]. max_try_correction: PyTorch's, of
        no account."""
        n, like = self._event_shape[-1], self._unbroadcasted_scale_tril
        chi2 = Chi2(self.df.unsqueeze(-1) - self._steps(), validate_args=False)
        diagonal = chi2.rsample(sample_shape).sqrt().clamp(min=finfo(like.dtype).eps).diag_embed()
        below = (*sample_shape, *self._batch_shape, n * (n - 1) // 2)
        noise = vec_to_tril_matrix(_standard_normal(below, like.dtype, like.device), -1) if n > 1 else 0.0
        factor = like @ (diagonal + noise)
        return _as_definite(factor @ factor.mT)

    def _log_prob(self, value: Tensor) -> Tensor:
        nu, n = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        trace = aten.cholesky_solve(value, factor.expand(value.shape)).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            (nu - n - 1) / 2 * aten.linalg_slogdet(value)[1] - trace / 2
            - nu * (n * math.log(2) / 2 + log_diagonal(factor)) - aten.mvlgamma(nu / 2, n)
        )

    def entropy(self) -> Tensor:
        nu, n = self.df, self._event_shape[-1]
        digammas = (nu.unsqueeze(-1) / 2 - self._steps() / 2).digamma().sum(-1)
        return (
            (n + 1) * (n * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril)) + aten.mvlgamma(nu / 2, n)
            - (nu - n - 1) / 2 * digammas + nu * n / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * (n * math.log(2) - aten.linalg_slogdet(-2 * x)[1]) + aten.mvlgamma(half, n)


def _as_definite(matrix: Tensor) -> Tensor:
    """A sample that has a Cholesky factor in spite of its rounding: as much is added to its diagonal as that can be."""
    n = matrix.shape[-1]
    rounding = matrix.detach().diagonal(dim1=-2, dim2=-1).sum(-1, True) * ((n + 1) * finfo(matrix.dtype).eps)
    return matrix + rounding.expand((*rounding.shape[:-1], n)).diag_embed()


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, whose densities are in proportion to det**(concentration - 1).

    Args:
        dim: the size of the matrices, at least 2. Raises ValueProblem.
        concentration: 1 for all correlation matrices alike; above 1 for those near the identity.

    Samples are drawn row by row: a direction, and how much of the row's length it takes. Source: Lewandowski,
    Kurowicka, Joe, Generating random correlation matrices based on vines and extended onion method (2009).
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameter_dims = {"concentration": 0}
    _kept = ("dim",)
    concentration: Tensor

    def __init__(self, dim: int, concentration: Parameter = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueProblem(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self._take(validate_args, (dim, dim), concentration=concentration)

    def _derive(self) -> None:
        like = self.concentration
        row = (arange(self.dim, dtype=like.dtype, device=like.device) - 1).clamp(min=0)
        rest = (like + 0.5 * (self.dim - 2)).unsqueeze(-1) - 0.5 * row
        self._beta = Beta(row + 0.5, rest, validate_args=False)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            taken = self._beta.sample(sample_shape).unsqueeze(-1)
            noise = _standard_normal(self._extended_shape(sample_shape), taken.dtype, taken.device).tril(-1)
            length = noise.square().sum(-1, True).sqrt()
            rows = taken.sqrt() * noise / aten.where(length > 0, length, 1.0)
            left = (1 - rows.square().sum(-1)).clamp(min=finfo(rows.dtype).tiny)
            return rows + left.sqrt().diag_embed()

    def _log_prob(self, value: Tensor) -> Tensor:
        n, concentration = self.dim, self.concentration
        row = arange(2, n + 1, dtype=concentration.dtype, device=concentration.device)
        order = 2 * (concentration - 1).unsqueeze(-1) + n - row
        unnormalized = (order * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        alpha = concentration + 0.5 * (n - 1)
        constant = 0.5 * (n - 1) * math.log(math.pi)
        return unnormalized - constant - aten.mvlgamma(alpha - 0.5, n - 1) + alpha.lgamma() * (n - 1)
