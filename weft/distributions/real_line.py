"""Distributions of all numbers: Laplace, Cauchy, HalfCauchy, Gumbel, StudentT; and of angles: VonMises."""

from __future__ import annotations

import math

import weft.distributions.constraints as constraints
from weft.distributions.distribution import Distribution
from weft.distributions.gammas import Chi2
from weft.distributions.intervals import Uniform
from weft.distributions.normals import Half
from weft.distributions.transformed_distribution import Derived
from weft.distributions.transforms import AffineTransform, ExpTransform, Transform
from weft.distributions.utils import Parameter, Shape, _standard_normal, empty, euler_constant, rand
from weft.ops.packet import aten
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.limits import finfo


class _LocationScale(Distribution):
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameter_dims = {"loc": 0, "scale": 0}
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    @property
    def mode(self) -> Tensor:
        return self.loc


class Laplace(_LocationScale):
    """The Laplace distribution, exp(-|x - loc| / scale) / (2 scale).

    Args:
        loc: the mean.
        scale: the mean distance from it.
    """

    _parameter_dims = {"loc": 0, "scale": 0}

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape, eps = self._extended_shape(sample_shape), finfo(self.loc.dtype).eps
        uniform = rand(shape, dtype=self.loc.dtype, device=self.loc.device) * (2 - eps) + (eps - 1)
        return self.loc - self.scale * uniform.sign() * (-uniform.abs()).log1p()

    def _log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def _cdf(self, value: Tensor) -> Tensor:
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * (-away.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        away = value - 0.5
        return self.loc - self.scale * away.sign() * (-2 * away.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The Cauchy distribution, which has no mean.

    Args:
        loc: the median.
        scale: half of the width at half of the height.
    """

    _parameter_dims = {"loc": 0, "scale": 0}

    @property
    def mean(self) -> Tensor:
        return aten.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return aten.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        blank = empty(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + aten.cauchy(blank) * self.scale

    def _log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).square().log1p()

    def _cdf(self, value: Tensor) -> Tensor:
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(Half):
    """The distribution of |x|, x of a Cauchy distribution with median 0.

    Args:
        scale: that of x.
    """

    _parameter_dims = {"scale": 0}

    def _whole(self) -> Distribution:
        return Cauchy(0, self.scale, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return aten.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance


class Gumbel(Derived):
    """The Gumbel distribution, with the distribution function exp(-exp(-(x - loc) / scale)).

    Args:
        loc: the mode.
        scale: the width.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _parameter_dims = {"loc": 0, "scale": 0}
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    def _parts(self) -> tuple[Distribution, list[Transform]]:
        limits, ones = finfo(self.loc.dtype), aten.ones_like(self.loc)
        base = Uniform(ones * limits.tiny, ones * (1 - limits.eps), validate_args=False)
        log = ExpTransform().inv
        return base, [log, AffineTransform(0, -ones), log, AffineTransform(self.loc, -self.scale)]

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class StudentT(Distribution):
    """Student's t distribution.

    Args:
        df: degrees of freedom.
        loc: the middle.
        scale: the width.
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameter_dims = {"df": 0, "loc": 0, "scale": 0}
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(
        self, df: Parameter, loc: Parameter = 0.0, scale: Parameter = 1.0, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, df=df, loc=loc, scale=scale)

    def _derive(self) -> None:
        self._chi2 = Chi2(self.df, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return aten.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        wide = aten.where(self.df > 1, math.inf, aten.full_like(self.df, math.nan))
        df = aten.where(self.df > 2, self.df, 3.0)
        return aten.where(self.df > 2, self.scale.square() * df / (df - 2), wide)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        return self.loc + self.scale * noise * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def _log_normalizer(self) -> Tensor:
        """log of sqrt(df) B(1/2, df/2)."""
        half = 0.5 * self.df
        return 0.5 * self.df.log() + 0.5 * math.log(math.pi) + half.lgamma() - (half + 0.5).lgamma()

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * (y.square() / self.df).log1p() - self.scale.log() - self._log_normalizer()

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        slope = (half + 0.5).digamma() - half.digamma()
        return self.scale.log() + (half + 0.5) * slope + self._log_normalizer()


class VonMises(Distribution):
    """The von Mises distribution of angles in [-pi, pi), exp(concentration cos(x - loc)) over its integral.

    Args:
        loc: the mean angle.
        concentration: how narrow it is.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _parameter_dims = {"loc": 0, "concentration": 0}
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Parameter, concentration: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, concentration=concentration)

    def _log_prob(self, value: Tensor) -> Tensor:
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - aten.special_i0e(k).log()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            concentration = self.concentration.to(dt.float64).expand(shape)
            angle = aten._standard_von_mises(concentration) + self.loc.to(dt.float64)
            return ((angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """The mean angle."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - E cos(x - loc)."""
        return 1 - aten.special_i1e(self.concentration) / aten.special_i0e(self.concentration)
