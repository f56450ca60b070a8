"""Normal, and its exponential (LogNormal), absolute value (HalfNormal) and simplex (LogisticNormal)."""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.distribution import Distribution
from weft.distributions.exp_family import ExponentialFamily
from weft.distributions.transformed_distribution import Derived, OfBase
from weft.distributions.transforms import AbsTransform, ExpTransform, StickBreakingTransform, Transform
from weft.distributions.utils import Parameter, Shape, _standard_normal, as_tensors
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor

_LOG_ROOT_TAU = 0.5 * math.log(2 * math.pi)


class Normal(ExponentialFamily):
    """The normal distribution.

    Args:
        loc: the mean.
        scale: the standard deviation.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameter_dims = {"loc": 0, "scale": 0}
    _mean_carrier_measure: Any = 0.0
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + noise * self.scale

    def _log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * ((value - self.loc) / self.scale).square() - self.scale.log() - _LOG_ROOT_TAU

    def _cdf(self, value: Tensor) -> Tensor:
        return aten.special_ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * aten.special_ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + _LOG_ROOT_TAU + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        precision = self.scale.pow(-2)
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()


class LogNormal(Derived):
    """The distribution of exp(x), x normal.

    Args:
        loc: the mean of x.
        scale: the standard deviation of x.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameter_dims = {"loc": 0, "scale": 0}
    loc = OfBase()
    scale = OfBase()

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    def _parts(self) -> tuple[Distribution, list[Transform]]:
        return Normal(self.loc, self.scale, validate_args=False), [ExpTransform()]

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class Half(Derived):
    """The distribution of |x|, where x is distributed evenly around 0 (`_whole`) with a scale."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameter_dims = {"scale": 0}
    scale = OfBase()

    def __init__(self, scale: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, scale=scale)

    def _whole(self) -> Distribution:
        raise NotImplementedError

    def _parts(self) -> tuple[Distribution, list[Transform]]:
        return self._whole(), [AbsTransform()]

    @property
    def mode(self) -> Tensor:
        return aten.zeros_like(self.scale)

    def _log_prob(self, value: Tensor) -> Tensor:
        return aten.where(value >= 0, self.base_dist._log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist._cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Half):
    """The distribution of |x|, x normal with mean 0.

    Args:
        scale: the standard deviation of x.
    """

    _parameter_dims = {"scale": 0}

    def _whole(self) -> Distribution:
        return Normal(0, self.scale, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class LogisticNormal(Derived):
    """Vectors of n + 1 numbers that sum up to 1: n normal numbers through StickBreakingTransform.

    Args:
        loc, scale: those of the normal numbers, [..., n].
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _parameter_dims = {"loc": 1, "scale": 1}
    loc = OfBase()
    scale = OfBase()

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        at_least_vectors = [v if v.dim() else v.unsqueeze(0) for v in as_tensors([loc, scale])]
        first, second = aten.broadcast_tensors(at_least_vectors)
        self._take(validate_args, (first.shape[-1] + 1,), loc=first, scale=second)

    def _parts(self) -> tuple[Distribution, list[Transform]]:
        return Normal(self.loc, self.scale, validate_args=False), [StickBreakingTransform()]
