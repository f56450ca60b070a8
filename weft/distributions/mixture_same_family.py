"""MixtureSameFamily: one of several distributions of one family, chosen at random."""

from __future__ import annotations

from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.categoricals import Categorical
from weft.distributions.distribution import Distribution
from weft.distributions.utils import Shape
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last batch dim.

    Args:
        mixture_distribution: a Categorical of k components.
        component_distribution: a distribution with the batch shape [..., k]. Raises ValueProblem for what does not fit.
    """

    arg_constraints: Any = {}
    has_rsample = False
    _parameter_dims = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueProblem(" The Mixture distribution needs to be an instance of weft.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueProblem("The Component distribution needs to be an instance of weft.distributions.Distribution")
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for i, j in zip(reversed(mixed), reversed(batch), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueProblem(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        km, kc = mixture_distribution.param_shape[-1], component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueProblem(
                f"`mixture_distribution component` ({km}) does not equal `component_distribution.batch_shape[-1]` "
                f"({kc})"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        super().__init__(batch, component_distribution.event_shape, validate_args)

    @property
    def _event_ndims(self) -> int:
        return len(self._event_shape)

    @property
    def _num_component(self) -> int:
        count: int = self._component_distribution.batch_shape[-1]
        return count

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """The same with another batch shape."""
        new = self._instance(_instance)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return self._shaped(new, batch_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The choice of a component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _pad(self, x: Tensor) -> Tensor:
        """With a dim for the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _mean_of(self, values: Tensor) -> Tensor:
        """The mean over the components of values [*batch, k, *event]."""
        probs = self.mixture_distribution.probs
        return (probs.reshape(probs.shape + (1,) * self._event_ndims) * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._mean_of(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances and the variance of the means."""
        component = self.component_distribution
        return self._mean_of(component.variance) + self._mean_of((component.mean - self._pad(self.mean)).square())

    def cdf(self, x: Tensor) -> Tensor:
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def _log_prob(self, value: Tensor) -> Tensor:
        of_components = self.component_distribution.log_prob(self._pad(value))
        return (of_components + aten.log_softmax(self.mixture_distribution.logits, -1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            shape = Size(sample_shape)
            chosen, values = self.mixture_distribution.sample(shape), self.component_distribution.sample(shape)
            missing = len(self._batch_shape) + len(shape) - chosen.dim()
            kept, last = chosen.shape[: len(shape)], chosen.shape[len(shape) :]
            index = chosen.reshape(kept + (1,) * missing + last + (1,) * (1 + self._event_ndims))
            index = index.expand(shape + self._batch_shape + (1,) + self._event_shape)
            axis = len(shape) + len(self._batch_shape)
            return values.gather(axis, index).squeeze(axis)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n  {self.mixture_distribution},\n  {self.component_distribution})"
