"""Distributions of counts: Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson."""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
import weft.nn.functional as F
from weft.distributions.exp_family import ExponentialFamily
from weft.distributions.gammas import Gamma
from weft.distributions.probabilities import Binary
from weft.distributions.utils import Parameter, Shape, arange, lazy_property, rand
from weft.ops.packet import aten
from weft.support.errors import Unsupported
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor


def _softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), exact for large x too."""
    return -F.logsigmoid(-x)


class Bernoulli(Binary, ExponentialFamily):
    """1 with a probability, else 0.

    Args:
        probs, logits: one of the two.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _parameter_dims = {"probs": 0, "logits": 0}
    _mean_carrier_measure: Any = 0.0

    def __init__(
        self, probs: Parameter | None = None, logits: Parameter | None = None, validate_args: bool | None = None
    ) -> None:
        self._take_either(validate_args, probs, logits)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """NaN for a probability of a half."""
        return aten.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return aten.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        return self.logits * value - _softplus(self.logits)

    def entropy(self) -> Tensor:
        return _softplus(self.logits) - self.logits * self.probs

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(arange(2, dtype=self._param.dtype, device=self._param.device), expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (aten.logit(self.probs),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return _softplus(natural_params[0])


class Binomial(Binary):
    """How many of `total_count` trials succeed.

    Args:
        total_count: the number of trials.
        probs, logits: one of the two, for one trial.
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }
    has_enumerate_support = True
    _parameter_dims = {"total_count": 0, "probs": 0, "logits": 0}
    _kept = ("_by", "_number")
    total_count: Tensor

    def __init__(
        self, total_count: Parameter = 1, probs: Parameter | None = None, logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._number = total_count if isinstance(total_count, int) else None  # (no tensor has to be asked for it)
        self._take_counts(validate_args, total_count, probs, logits)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return aten.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return value * self.logits - n * _softplus(self.logits) + ways

    def _largest(self, name: str) -> int:
        if self._number is not None:
            return self._number
        count = int(self.total_count.max())
        if count != self.total_count.min():
            raise Unsupported(f"Inhomogeneous total count not supported by `{name}`.")
        return count

    def entropy(self) -> Tensor:
        """A sum over all counts. Raises Unsupported for a batch of different `total_count`."""
        self._largest("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._largest("enumerate_support")
        return self._enumerated(arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand)


class Geometric(Binary):
    """How many trials fail before the first one that succeeds.

    Args:
        probs, logits: one of the two; probs above 0.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _parameter_dims = {"probs": 0, "logits": 0}

    def __init__(
        self, probs: Parameter | None = None, logits: Parameter | None = None, validate_args: bool | None = None
    ) -> None:
        self._take_either(validate_args, probs, logits)
        if self._validate_args and probs is not None:
            self._require_parameter("probs", self.probs > 0, lambda: "be positive")

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return aten.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            uniform = rand(shape, dtype=self.probs.dtype, device=self.probs.device)
            return ((-uniform).log1p() / (-self.probs).log1p()).floor()

    def _log_prob(self, value: Tensor) -> Tensor:
        return aten.special_xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self) -> Tensor:
        return (_softplus(self.logits) - self.logits * self.probs) / self.probs


class NegativeBinomial(Binary):
    """How many trials succeed before `total_count` ones have failed.

    Args:
        total_count: a number, which need not be whole.
        probs, logits: one of the two, for the success of one trial.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameter_dims = {"total_count": 0, "probs": 0, "logits": 0}
    total_count: Tensor

    def __init__(
        self, total_count: Parameter, probs: Parameter | None = None, logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take_counts(validate_args, total_count, probs, logits)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / aten.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return aten.poisson(self._gamma.sample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        ways = (n + value).lgamma() - (1 + value).lgamma() - n.lgamma()
        return aten.where(n + value == 0, 0.0, ways) - n * _softplus(self.logits) - value * _softplus(-self.logits)


class Poisson(ExponentialFamily):
    """Counts of independent events, of which there are `rate` in the mean.

    Args:
        rate: the mean.
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameter_dims = {"rate": 0}
    rate: Tensor

    def __init__(self, rate: Parameter, validate_args: bool | None = None) -> None:
        self._take(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return aten.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        return aten.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()
