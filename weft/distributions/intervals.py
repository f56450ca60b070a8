"""Distributions of numbers between bounds: Uniform, ContinuousBernoulli, Kumaraswamy; and above one: Exponential,
Weibull, Pareto, GeneralizedPareto."""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.distribution import Distribution
from weft.distributions.exp_family import ExponentialFamily
from weft.distributions.probabilities import Binary
from weft.distributions.transformed_distribution import Derived
from weft.distributions.transforms import AffineTransform, ExpTransform, PowerTransform, Transform
from weft.distributions.utils import Parameter, Shape, empty, euler_constant, rand
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor


class Uniform(Distribution):
    """The uniform distribution in [low, high).

    Args:
        low, high: the bounds.
    """

    has_rsample = True
    _parameter_dims = {"low": 0, "high": 0}
    low: Tensor
    high: Tensor

    def __init__(self, low: Parameter, high: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> Any:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return aten.full_like(self.high, math.nan)

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.low.dtype, device=self.low.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        inside = (value >= self.low) & (value < self.high)
        return aten.where(inside, -(self.high - self.low).log(), -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class ContinuousBernoulli(Binary, ExponentialFamily):
    """Numbers in [0, 1] with a density in proportion to probs**x (1 - probs)**(1 - x), which is exp(logits x).

    Args:
        probs, logits: one of the two.
        lims: of no account: PyTorch approximates where probs lies between these.

    Source: Loaiza-Ganem, Cunningham, The continuous Bernoulli (2019).
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _parameter_dims = {"probs": 0, "logits": 0}
    _mean_carrier_measure: Any = 0.0
    _NEAR = 0.25  # below these logits the series are exact, and the formulas of large ones are not

    def __init__(
        self, probs: Parameter | None = None, logits: Parameter | None = None,
        lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        self._take_either(validate_args, probs, logits)

    def _parted(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Which logits are small; the large ones with 1 for the others; the squares of the small ones, else 0."""
        near = x.abs() < self._NEAR
        return near, aten.where(near, 1.0, x), aten.where(near, x, 0.0).square()

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params  # log of the integral of exp(x t) over t in [0, 1]
        near, far, s = self._parted(x)
        size = far.abs()
        log_mean = (-(-size).expm1()).log() - size.log()  # that of exp(-size t)
        series = s * (1 / 24 - s * (1 / 2880 - s * (1 / 181440 - s / 9676800)))
        return aten.where(near, 0.5 * x + series, log_mean + x.clamp(min=0))

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    @property
    def mean(self) -> Tensor:
        near, far, s = self._parted(self.logits)
        series = self.logits * (1 / 12 - s * (1 / 720 - s * (1 / 30240 - s / 1209600)))
        return aten.where(near, 0.5 + series, -1 / (-far).expm1() - 1 / far)

    @property
    def variance(self) -> Tensor:
        near, far, s = self._parted(self.logits)
        series = 1 / 12 - s * (1 / 240 - s * (1 / 6048 - s / 172800))
        small = (-far.abs()).exp()
        return aten.where(near, series, 1 / far.square() - small / (1 - small).square())

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.logits.dtype, device=self.logits.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        """From the higher end, where the density is largest: there is no difference of two large terms."""
        x = self.logits
        from_top = x * aten.where(x > 0, value - 1, value)
        return from_top - self._log_normalizer(-x.abs())

    def _sized(self) -> tuple[Tensor, Tensor, Tensor]:
        """Which logits are almost 0; minus the size of the others; which are positive."""
        flat = self.logits.abs() < 1e-4
        return flat, aten.where(flat, -1.0, -self.logits.abs()), self.logits > 0

    def _cdf(self, value: Tensor) -> Tensor:
        """Of falling densities, (exp(-s x) - 1) / (exp(-s) - 1); of rising ones it is mirrored."""
        flat, falling, rises = self._sized()
        x = aten.where(rises, 1 - value, value).clamp(0, 1)
        below = aten.where(flat, x - 0.5 * self.logits.abs() * x * (x - 1), (falling * x).expm1() / falling.expm1())
        return aten.where(rises, 1 - below, below)

    def icdf(self, value: Tensor) -> Tensor:
        flat, falling, rises = self._sized()
        p = aten.where(rises, 1 - value, value)
        x = aten.where(flat, p + 0.5 * self.logits.abs() * p * (p - 1), (p * falling.expm1()).log1p() / falling)
        return aten.where(rises, 1 - x, x)

    def entropy(self) -> Tensor:
        return self._log_normalizer(self.logits) - self.logits * self.mean


class Kumaraswamy(Derived):
    """Kumaraswamy's distribution of numbers in [0, 1], with the distribution function 1 - (1 - x**a)**b.

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

    def _parts(self) -> tuple[Distribution, list[Transform]]:
        zeros = aten.zeros_like(self.concentration0)
        return Uniform(zeros, zeros + 1, validate_args=False), [
            PowerTransform(self.concentration0.reciprocal()), AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]

    def _moment(self, n: int) -> Tensor:
        """E x**n = b B(1 + n / a, b)."""
        first, b = 1 + n / self.concentration1, self.concentration0
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & (a * b > 1)
        highest = (aten.where(inside, a - 1, 1.0) / aten.where(inside, a * b - 1, 1.0)) ** a.reciprocal()
        return aten.where(inside, highest, math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * ((b + 1).digamma() + euler_constant) - a.log() - b.log()


class Exponential(ExponentialFamily):
    """The exponential distribution, rate exp(-rate x).

    Args:
        rate: 1 over the mean.
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameter_dims = {"rate": 0}
    _mean_carrier_measure: Any = 0.0
    rate: Tensor

    def __init__(self, rate: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return aten.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        blank = empty(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device)
        return aten.exponential(blank) / self.rate

    def _log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Tensor) -> Tensor:
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()


class Weibull(Derived):
    """The Weibull distribution, with the distribution function 1 - exp(-(x / scale)**concentration).

    Args:
        scale: the width.
        concentration: the shape.
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _parameter_dims = {"scale": 0, "concentration": 0}
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Parameter, concentration: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, scale=scale, concentration=concentration)

    def _parts(self) -> tuple[Distribution, list[Transform]]:
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(aten.ones_like(self.scale), validate_args=False)
        return base, [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        return self.scale * (1 - self.concentration_reciprocal).pow(self.concentration_reciprocal)

    @property
    def variance(self) -> Tensor:
        first, second = ((1 + n * self.concentration_reciprocal).lgamma() for n in (1, 2))
        return self.scale.square() * (second.exp() - (2 * first).exp())

    def entropy(self) -> Tensor:
        reciprocal = self.concentration_reciprocal
        return euler_constant * (1 - reciprocal) + (self.scale * reciprocal).log() + 1


class Pareto(Derived):
    """Pareto's distribution of numbers above `scale`, with a density in proportion to x**(-alpha - 1).

    Args:
        scale: the lower bound.
        alpha: the shape.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _parameter_dims = {"scale": 0, "alpha": 0}
    scale: Tensor
    alpha: Tensor

    def __init__(self, scale: Parameter, alpha: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, scale=scale, alpha=alpha)

    def _parts(self) -> tuple[Distribution, list[Transform]]:
        return Exponential(self.alpha, validate_args=False), [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """Infinite for alpha up to 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        """Infinite for alpha up to 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution, with the survival function (1 + c z)**(-1 / c), z = (x - loc) / scale.

    Args:
        loc: the lower bound.
        scale: the width.
        concentration: c; 0 is the exponential distribution, and below 0 there is an upper bound.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _parameter_dims = {"loc": 0, "scale": 0, "concentration": 0}
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(
        self, loc: Parameter, scale: Parameter, concentration: Parameter, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        c = self.concentration
        upper = aten.where(c < 0, self.loc - self.scale / aten.where(c < 0, c, -1.0), math.inf)
        return constraints.interval(self.loc, upper)

    def _parted(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0 (within 1e-8), and the others, with 1 for those."""
        is_zero = self.concentration.abs() <= 1e-8
        return is_zero, aten.where(is_zero, 1.0, self.concentration)

    def _log_survival(self, z: Tensor) -> Tensor:
        is_zero, c = self._parted()
        return aten.where(is_zero, -z, -(c * z).log1p() / c)

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        z = self._z(value)
        is_zero, c = self._parted()
        power = 1 / c + 1
        falls = aten.where(power == 0, 0.0, power * (c * z).log1p())
        return -self.scale.log() - aten.where(is_zero, z, falls)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log of the probability of values above these."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_survival(self._z(value))

    def log_cdf(self, value: Tensor) -> Tensor:
        """log of `cdf`."""
        return (-self.log_survival_function(value).expm1()).log()

    def _cdf(self, value: Tensor) -> Tensor:
        return -self._log_survival(self._z(value)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        is_zero, c = self._parted()
        logarithm = (-value).log1p()
        return self.loc + self.scale * aten.where(is_zero, -logarithm, (-c * logarithm).expm1() / c)

    @property
    def mean(self) -> Tensor:
        exists = self.concentration < 1
        c = aten.where(exists, self.concentration, 0.5)
        return aten.where(exists, self.loc + self.scale / (1 - c), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        exists = self.concentration < 0.5
        c = aten.where(exists, self.concentration, 0.25)
        return aten.where(exists, self.scale.square() / ((1 - c).square() * (1 - 2 * c)), math.nan)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
