"""Distributions of one of several values: Categorical, OneHotCategorical, its straight-through gradients; and of how
often each comes in several draws: Multinomial."""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.counts import Binomial
from weft.distributions.distribution import Distribution
from weft.distributions.probabilities import EitherOr
from weft.distributions.utils import Shape, arange, eye
from weft.ops.packet import aten
from weft.support.errors import Unsupported, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.limits import finfo

_CONSTRAINTS = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(EitherOr):
    """Indices 0 to n - 1.

    Args:
        probs: [..., n], non-negative numbers, which are divided by their sum.
        logits: [..., n], unnormalized log probabilities; one of the two.
    """

    arg_constraints = _CONSTRAINTS
    has_enumerate_support = True
    _is_binary = False
    _parameter_dims = {"probs": 1, "logits": 1}

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        for name, value in (("probs", probs), ("logits", logits)):
            if value is not None and value.dim() < 1:
                raise ValueProblem(f"`{name}` parameter must be at least one-dimensional.")
        if (probs is None) != (logits is None):
            probs = None if probs is None else probs / probs.sum(-1, keepdim=True)
            logits = None if logits is None else logits - logits.logsumexp(-1, keepdim=True)
        self._take_either(validate_args, probs, logits)

    @property
    def _num_events(self) -> int:
        count: int = self._param.shape[-1]
        return count

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: indices are no numbers to be added."""
        return self._param.new_full(self._extended_shape(), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN, as the mean is."""
        return self.mean

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape, count = Size(sample_shape), self._num_events
        with no_grad():
            drawn = aten.multinomial(self.probs.reshape(-1, count), shape.numel(), True)
            return drawn.t().reshape(self._extended_shape(shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        index, logits = aten.broadcast_tensors([value.to(dt.int64).unsqueeze(-1), self.logits])
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)  # 0 times -inf would be NaN
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(arange(self._num_events, device=self._param.device), expand)


class OfCategorical(Distribution):
    """A distribution that has the probabilities of a Categorical."""

    arg_constraints = _CONSTRAINTS
    _parameter_dims = {}
    _categorical: Categorical

    def _take_categorical(self, validate_args: bool | None, categorical: Categorical) -> None:
        self._categorical = categorical
        Distribution.__init__(self, categorical.batch_shape, categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """The same with another batch shape."""
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """Probabilities, [*batch, n]."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Log probabilities, [*batch, n]."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of `probs` and `logits`."""
        return self._categorical.param_shape


class OneHotCategorical(OfCategorical):
    """Vectors of zeros with one 1.

    Args:
        probs, logits: as Categorical's.
    """

    support = constraints.one_hot
    has_enumerate_support = True
    _parameter_dims = {}

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._take_categorical(validate_args, Categorical(probs, logits, validate_args))

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _one_hot(self, index: Tensor) -> Tensor:
        places = arange(self._event_shape[0], device=index.device)
        return (index.unsqueeze(-1) == places).to(self._param.dtype)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._categorical._log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        return self._enumerated(eye(n, dtype=self._param.dtype, device=self._param.device), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples have the gradients of its probabilities. Source: Bengio, Leonard, Courville
    (arXiv:1308.3432)."""

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OfCategorical):
    """How often each of n values comes in `total_count` draws.

    Args:
        total_count: one number for all.
        probs, logits: as Categorical's.
    """

    _parameter_dims = {}
    _kept = ("total_count",)
    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise Unsupported("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._take_categorical(validate_args, Categorical(probs, logits, validate_args))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = self.probs.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add(-1, drawn, aten.ones_like(drawn, dtype=counts.dtype))

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = aten.broadcast_tensors([self.logits, value])
        logits = aten.where((value == 0) & (logits == -math.inf), 0.0, logits)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        each = Binomial(n, probs=self.probs, validate_args=False)
        counts = each.enumerate_support(expand=False)[1:]
        repeated = (each.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + repeated
