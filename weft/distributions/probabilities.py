"""What has probabilities or logits, one of which is given and the other one follows."""

from __future__ import annotations

from typing import Any, ClassVar

from weft.distributions.distribution import Distribution
from weft.distributions.utils import Shape, lazy_property, logits_to_probs, probs_to_logits
from weft.support.errors import ValueProblem
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor


class EitherOr(Distribution):
    """A distribution of `probs` or `logits`."""

    _is_binary = True
    _by: str

    def _take_either(
        self, validate_args: bool | None, probs: Any, logits: Any, event_shape: Shape = (), **more: Any
    ) -> None:
        """`probs` or `logits`, whichever is not None, with other parameters. Raises ValueProblem for both or none."""
        if (probs is None) == (logits is None):
            raise ValueProblem("Either `probs` or `logits` must be specified, but not both.")
        self._by = "logits" if probs is None else "probs"
        self._take(validate_args, event_shape, **{self._by: logits if probs is None else probs}, **more)

    _kept: ClassVar[tuple[str, ...]] = ("_by",)

    @lazy_property
    def logits(self) -> Tensor:
        """Log odds, or log probabilities along the last dim."""
        return probs_to_logits(self.probs, self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities, along the last dim where there are more than two values."""
        return logits_to_probs(self.logits, self._is_binary)

    @property
    def _param(self) -> Tensor:
        value: Tensor = getattr(self, self._by)
        return value

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @property
    def param_shape(self) -> Size:
        """The shape of `probs` and `logits`."""
        return self._param.size()


class Binary(EitherOr):
    """Two values: logits are log odds."""

    def _take_counts(self, validate_args: bool | None, total_count: Any, probs: Any, logits: Any) -> None:
        """With a count of trials, in the dtype of the probabilities."""
        either = logits if probs is None else probs
        if isinstance(total_count, Tensor) and isinstance(either, Tensor):
            total_count = total_count.type_as(either)
        self._take_either(validate_args, probs, logits, total_count=total_count)
