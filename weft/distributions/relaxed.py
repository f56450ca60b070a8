"""Relaxed discrete distributions, whose samples have gradients: RelaxedBernoulli, RelaxedOneHotCategorical, and their
logits and logarithms. Source: Maddison, Mnih, Teh (arXiv:1611.00712)."""

from __future__ import annotations

from typing import Any, ClassVar

import weft.distributions.constraints as constraints
from weft.distributions.categoricals import Categorical, OfCategorical
from weft.distributions.distribution import Distribution
from weft.distributions.probabilities import Binary
from weft.distributions.transformed_distribution import TransformedDistribution
from weft.distributions.transforms import ExpTransform, SigmoidTransform
from weft.distributions.utils import Parameter, Shape, as_tensors, clamp_probs, rand
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor


def _in_open_interval(shape: Shape, like: Tensor) -> Tensor:
    return clamp_probs(rand(tuple(shape), dtype=like.dtype, device=like.device))


def _as_tensor(temperature: Any) -> Tensor:
    (tensor,) = as_tensors([temperature])
    return tensor


class LogitRelaxedBernoulli(Binary):
    """Logits of RelaxedBernoulli's numbers.

    Args:
        temperature: the lower, the closer to 0 and 1 they are.
        probs, logits: one of the two.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _parameter_dims = {"probs": 0, "logits": 0}
    _kept: ClassVar[tuple[str, ...]] = ("_by", "temperature")

    def __init__(
        self, temperature: Parameter, probs: Parameter | None = None, logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = _as_tensor(temperature)
        self._take_either(validate_args, probs, logits)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        probs = clamp_probs(self.probs)
        uniform = _in_open_interval(self._extended_shape(sample_shape), probs)
        return (uniform.log() - (-uniform).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def _log_prob(self, value: Tensor) -> Tensor:
        away = self.logits - value * self.temperature
        return self.temperature.log() + away - 2 * away.exp().log1p()


class Relaxed(TransformedDistribution):
    """What a relaxed distribution shows of the one that it is made of."""

    _parameter_dims = {}

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log odds of two values, log probabilities of more."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs


class RelaxedBernoulli(Relaxed):
    """Numbers in (0, 1) close to those of Bernoulli.

    Args:
        temperature: the lower, the closer.
        probs, logits: one of the two.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _parameter_dims = {}

    def __init__(
        self, temperature: Parameter, probs: Parameter | None = None, logits: Parameter | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=False)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(OfCategorical):
    """Logarithms of RelaxedOneHotCategorical's vectors.

    Args:
        temperature: the lower, the closer to one-hot vectors they are.
        probs, logits: as Categorical's.
    """

    support = constraints.real_vector  # the values are a surface in it
    has_rsample = True
    _parameter_dims = {}
    _kept = ("temperature",)

    def __init__(
        self, temperature: Parameter, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = _as_tensor(temperature)
        self._take_categorical(validate_args, Categorical(probs, logits, validate_args))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        uniform = _in_open_interval(self._extended_shape(sample_shape), self.logits)
        scores = (self.logits - (-uniform.log()).log()) / self.temperature
        return aten.log_softmax(scores, -1)

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self._event_shape[-1]
        temperature = self.temperature
        scale = aten.full_like(temperature, n).lgamma() + (n - 1) * temperature.log()
        return aten.log_softmax(self.logits - value * temperature, -1).sum(-1) + scale


class RelaxedOneHotCategorical(Relaxed):
    """Vectors that sum up to 1, close to those of OneHotCategorical.

    Args:
        temperature: the lower, the closer.
        probs, logits: as Categorical's.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    _parameter_dims = {}

    def __init__(
        self, temperature: Parameter, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base: Distribution = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
