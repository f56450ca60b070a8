"""Independent: batch dims as part of the event."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import weft.distributions.constraints as constraints
from weft.distributions.distribution import Distribution
from weft.distributions.utils import Shape, _sum_rightmost
from weft.support.errors import Unsupported, ValueProblem
from weft.tensor.tensor import Tensor

__all__ = ["Independent"]
B = TypeVar("B", bound=Distribution)


class Independent(Distribution, Generic[B]):
    """A distribution whose last batch dims count as dims of the event: `log_prob` and `entropy` sum over them.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many dims. Raises ValueProblem for more than it has.
    """

    arg_constraints: Any = {}
    _parameter_dims = {}
    base_dist: B

    def __init__(
        self, base_distribution: B, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch, event = base_distribution.batch_shape, base_distribution.event_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueProblem(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        cut = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + event, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """The same with another batch shape."""
        new = self._instance(_instance)
        count = self.reinterpreted_batch_ndims
        new.base_dist = self.base_dist.expand((*batch_shape, *self.event_shape[:count]))
        new.reinterpreted_batch_ndims = count
        return self._shaped(new, batch_shape)

    @property
    def has_rsample(self) -> bool:
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        base, count = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, count) if count else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise Unsupported("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
