"""Gamma numbers and what is made of them: Gamma, Chi2, InverseGamma, Beta, Dirichlet, FisherSnedecor."""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.distribution import Distribution
from weft.distributions.exp_family import ExponentialFamily
from weft.distributions.transformed_distribution import Derived, OfBase
from weft.distributions.transforms import PowerTransform, Transform
from weft.distributions.utils import Parameter, Shape, arange
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.tensor.creation import as_tensor
from weft.tensor.tensor import Tensor
from weft.types.limits import finfo


def _above_tiny(value: Tensor) -> Tensor:
    """The value, at least the least normal number, with its own gradient."""
    return value + (value.clamp(finfo(value.dtype).tiny) - value).detach()


class Gamma(ExponentialFamily):
    """The gamma distribution, with a density in proportion to x**(concentration - 1) exp(-rate x).

    Args:
        concentration: the shape.
        rate: 1 over the width.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameter_dims = {"concentration": 0, "rate": 0}
    _mean_carrier_measure: Any = 0.0
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return _above_tiny(aten._standard_gamma(self.concentration.expand(shape)) / self.rate)

    def log_prob(self, value: Tensor) -> Tensor:
        return super().log_prob(as_tensor(value, dtype=self.rate.dtype, device=self.rate.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        a, rate = self.concentration, self.rate
        return aten.xlogy(a, rate) + aten.xlogy(a - 1, value) - rate * value - a.lgamma()

    def _cdf(self, value: Tensor) -> Tensor:
        return aten.special_gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return (x + 1).lgamma() - (x + 1) * (-y).log()


class Chi2(Gamma):
    """The distribution of the sum of `df` squares of standard normal numbers.

    Args:
        df: degrees of freedom.
    """

    arg_constraints = {"df": constraints.positive}
    _parameter_dims = {"concentration": 0, "rate": 0}

    def __init__(self, df: Parameter, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class InverseGamma(Derived):
    """The distribution of 1 / x, x of a gamma distribution.

    Args:
        concentration, rate: those of x.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameter_dims = {"concentration": 0, "rate": 0}
    concentration = OfBase()
    rate = OfBase()

    def __init__(self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, concentration=concentration, rate=rate)

    def _parts(self) -> tuple[Distribution, list[Transform]]:
        return Gamma(self.concentration, self.rate, validate_args=False), [PowerTransform(-self.rate.new_ones(()))]

    @property
    def mean(self) -> Tensor:
        exists = self.concentration > 1
        return aten.where(exists, self.rate / aten.where(exists, self.concentration - 1, 1.0), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        exists = self.concentration > 2
        a = aten.where(exists, self.concentration, 3.0)
        return aten.where(exists, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution of vectors that sum up to 1.

    Args:
        concentration: [..., n], n the length of the vectors. Raises ValueProblem for a 0-dim tensor.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameter_dims = {"concentration": 1}
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueProblem("`concentration` parameter must be at least one-dimensional.")
        self._take(validate_args, concentration.shape[-1:], concentration=concentration)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return aten._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        return aten.xlogy(self.concentration - 1, value).sum(-1) - self._log_normalizer(self.concentration)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """Where no concentration is above 1, there is one in each corner: this is the first one."""
        c = self.concentration
        above, is_outside = (c - 1).clamp(min=0), (c < 1).all(-1, keepdim=True)
        corner = (arange(c.shape[-1], device=c.device) == 0).to(c.dtype)
        return aten.where(is_outside, corner, above / aten.where(is_outside, 1.0, above.sum(-1, True)))

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        total = c.sum(-1, True)
        return c * (total - c) / (total.square() * (total + 1))

    def entropy(self) -> Tensor:
        c = self.concentration
        total = c.sum(-1)
        return (
            self._log_normalizer(c) + (total - c.shape[-1]) * total.digamma() - ((c - 1) * c.digamma()).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (c,) = natural_params
        return c.lgamma().sum(-1) - c.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """The beta distribution of numbers in [0, 1], in proportion to x**(a - 1) (1 - x)**(b - 1).

    Args:
        concentration1: a.
        concentration0: b.
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parameter_dims = {"concentration1": 0, "concentration0": 0}
    concentration1: Tensor
    concentration0: Tensor

    def __init__(
        self, concentration1: Parameter, concentration0: Parameter, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, concentration1=concentration1, concentration0=concentration0)

    def _derive(self) -> None:
        self._dirichlet = Dirichlet(
            aten.stack([self.concentration1, self.concentration0], -1), validate_args=False
        )

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return aten.xlogy(a - 1, value) + aten.special_xlog1py(b - 1, -value) - self._log_normalizer(a, b)

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        a, b = natural_params
        return a.lgamma() + b.lgamma() - (a + b).lgamma()


class FisherSnedecor(Distribution):
    """The F distribution: that of (x / df1) / (y / df2) with chi-squared x and y.

    Args:
        df1, df2: degrees of freedom.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameter_dims = {"df1": 0, "df2": 0}
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Parameter, df2: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, df1=df1, df2=df2)

    def _derive(self) -> None:
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1, validate_args=False)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2, validate_args=False)

    @property
    def mean(self) -> Tensor:
        exists = self.df2 > 2
        df2 = aten.where(exists, self.df2, 3.0)
        return aten.where(exists, df2 / (df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        exists = self.df1 > 2
        return aten.where(exists, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan)

    @property
    def variance(self) -> Tensor:
        exists = self.df2 > 4
        df2 = aten.where(exists, self.df2, 5.0)
        spread = 2 * df2.square() * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).square() * (df2 - 4))
        return aten.where(exists, spread, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return _above_tiny(self._gamma1.rsample(sample_shape) / self._gamma2.rsample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        normalizer = a.lgamma() + b.lgamma() - (a + b).lgamma()
        return a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p() - normalizer
