"""Exponential families: entropy and divergence by one formula."""

from __future__ import annotations

from typing import Any

from weft.autograd import grad
from weft.distributions.distribution import Distribution
from weft.distributions.utils import _sum_rightmost
from weft.tensor.modes import enable_grad
from weft.tensor.tensor import Tensor

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """The base of distributions with the density exp(<t(x), n> - F(n) + k(x)): natural parameters n, sufficient
    statistics t, log normalizer F and carrier k."""

    @property
    def _mean_carrier_measure(self) -> Any:
        raise self._lacks("the mean of its carrier measure")

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise self._lacks("natural parameters")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise self._lacks("a log normalizer")

    def _mean_statistics(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor]:
        """Natural parameters, the means of the statistics, which are the slopes of the log normalizer, and that."""
        with enable_grad():
            params = tuple(p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params)
            normalizer = self._log_normalizer(*params)
            return params, grad(normalizer.sum(), params, create_graph=True), normalizer

    def entropy(self) -> Tensor:
        """The entropy, by the Bregman divergence of the log normalizer."""
        params, means, normalizer = self._mean_statistics()
        result = normalizer - self._mean_carrier_measure
        for param, mean in zip(params, means, strict=True):
            result = result - _sum_rightmost(param * mean, param.dim() - len(self._batch_shape))
        return result

    def _divergence(self, other: ExponentialFamily) -> Tensor:
        """KL(self || other), of one family."""
        params, means, normalizer = self._mean_statistics()
        result = other._log_normalizer(*other._natural_params) - normalizer
        for mine, theirs, mean in zip(params, other._natural_params, means, strict=True):
            result = result - _sum_rightmost((theirs - mine) * mean, mine.dim() - len(self._batch_shape))
        return result
