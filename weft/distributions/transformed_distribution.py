"""TransformedDistribution: samples of another distribution, transformed."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.distribution import Distribution
from weft.distributions.independent import Independent
from weft.distributions.transforms import ComposeTransform, Transform
from weft.distributions.utils import Shape, _sum_rightmost
from weft.support.errors import ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of f(x), where x has another one, and f is one transform or several, one after the other:
    log p(f(x)) = log p(x) - log |det df/dx|.

    Args:
        base_distribution: that of x. Raises ValueProblem if it has fewer dims than the transforms take.
        transforms: a Transform or a list of them.
    """

    arg_constraints: Any = {}
    _parameter_dims = {}
    base_dist: Any
    transforms: list[Transform]

    def __init__(
        self, base_distribution: Distribution, transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(*self._compose(base_distribution, transforms), validate_args)

    def _compose(self, base: Distribution, transforms: Transform | Sequence[Transform]) -> tuple[Size, Size]:
        """Sets `base_dist`, with the dims that the transforms take as an event, and `transforms`; the shapes."""
        parts = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(parts, list) or not all(isinstance(t, Transform) for t in parts):
            raise ValueProblem(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
        whole = ComposeTransform(parts)
        before, dims = base.batch_shape + base.event_shape, len(base.event_shape)
        domain, codomain = int(whole.domain.event_dim), int(whole.codomain.event_dim)
        if len(before) < domain:
            raise ValueProblem(
                f"base_distribution needs to have shape with size at least {domain}, but got {before}."
            )
        after = whole.forward_shape(before)
        wanted = whole.inverse_shape(after)
        if before != wanted:
            base = base.expand(wanted[: len(wanted) - dims])
        self.base_dist = Independent(base, domain - dims, validate_args=False) if domain > dims else base
        self.transforms = parts
        cut = len(after) - max(codomain, dims + codomain - domain)
        return after[:cut], after[cut:]

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """The same with another batch shape."""
        new = self._instance(_instance)
        shape = Size(batch_shape) + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return self._shaped(new, batch_shape)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        more = len(self.event_shape) - int(codomain.event_dim)
        return constraints.independent(codomain, more) if more > 0 else codomain

    @property
    def has_rsample(self) -> bool:
        return bool(self.base_dist.has_rsample)

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        dims, y, stretched = len(self.event_shape), value, None
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += int(transform.domain.event_dim) - int(transform.codomain.event_dim)
            term = _sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - int(transform.domain.event_dim))
            y, stretched = x, term if stretched is None else stretched + term
        log_prob = _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))
        return log_prob if stretched is None else log_prob - stretched

    def _rising(self, probability: Tensor) -> Tensor:
        """A probability p, or 1 - p where the transforms fall."""
        sign = functools.reduce(operator.mul, (t.sign for t in self.transforms), 1)
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """The base's, of where the value comes from. Raises Unsupported where a transform has no sign."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._rising(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._rising(value)))


class OfBase:
    """A parameter of a Derived that its base has by the same name: what is set there holds here."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        base = self._base(instance)
        return instance.__dict__[self._name] if base is None else getattr(base, self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        base = self._base(instance)
        if base is None:
            instance.__dict__[self._name] = value
        else:
            setattr(base, self._name, value)

    def _base(self, instance: Any) -> Distribution | None:
        """The base, of vectors that of their elements; None before it is made of the parameters."""
        base = instance.__dict__.get("base_dist")
        return base.base_dist if isinstance(base, Independent) else base


class Derived(TransformedDistribution):
    """A transformed distribution with parameters of its own, of which its base and its transforms follow."""

    _parameter_dims = {}
    expand = Distribution.expand

    def __init__(
        self, base_distribution: Distribution, transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        """For classes of packages, which give the parts themselves: the parameters are the base's, by their names."""
        for name in self._parameter_dims:
            if hasattr(base_distribution, name):
                setattr(self, name, getattr(base_distribution, name))
        super().__init__(base_distribution, transforms, validate_args)

    def _parts(self) -> tuple[Distribution, list[Transform]]:
        """The base, and the transforms."""
        raise NotImplementedError

    def _derive(self) -> None:
        self._compose(*self._parts())
