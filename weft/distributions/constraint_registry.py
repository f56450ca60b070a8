"""biject_to and transform_to: the transform that leads from all numbers into a constraint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.distributions.constraints as constraints
import weft.distributions.transforms as transforms
from weft.distributions.constraints import Constraint
from weft.distributions.transforms import Transform
from weft.distributions.utils import is_number
from weft.support.errors import ArgumentError, Unsupported

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Factories of transforms, by classes of constraints.

    `registry(constraint)` gives the transform; `registry.register(MyConstraint)` decorates a function of such a
    constraint that makes it.
    """

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Enter a factory for a class of constraints, or for the class of one. Raises ArgumentError."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise ArgumentError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform for a constraint. Raises Unsupported where there is none."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise Unsupported(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()
_BOTH = biject_to, transform_to


def _scaled(first: Transform, loc: Any, scale: Any) -> Transform:
    return transforms.ComposeTransform([first, transforms.AffineTransform(loc, scale)])


def _is(bound: Any, number: float) -> bool:
    return is_number(bound) and bound == number


def _to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    sigmoid = transforms.SigmoidTransform()
    return sigmoid if _is(low, 0) and _is(high, 1) else _scaled(sigmoid, low, high - low)


def _to_above(constraint: Any) -> Transform:
    exp = transforms.ExpTransform()
    return exp if _is(constraint.lower_bound, 0) else _scaled(exp, constraint.lower_bound, 1)


# constraints, the factory of their transform, and the registries that have it
_ENTRIES: tuple[tuple[tuple[Any, ...], Factory, tuple[ConstraintRegistry, ...]], ...] = (
    ((constraints.real,), lambda c: transforms.identity_transform, _BOTH),
    ((constraints.positive, constraints.nonnegative), _to_above, _BOTH),
    ((constraints.less_than,), lambda c: _scaled(transforms.ExpTransform(), c.upper_bound, -1), _BOTH),
    ((constraints.interval, constraints.half_open_interval), _to_interval, _BOTH),
    ((constraints.simplex,), lambda c: transforms.StickBreakingTransform(), (biject_to,)),
    ((constraints.simplex,), lambda c: transforms.SoftmaxTransform(), (transform_to,)),
    ((constraints.lower_cholesky,), lambda c: transforms.LowerCholeskyTransform(), (transform_to,)),
    (
        (constraints.positive_definite, constraints.positive_semidefinite),
        lambda c: transforms.PositiveDefiniteTransform(), (transform_to,),
    ),
    ((constraints.corr_cholesky,), lambda c: transforms.CorrCholeskyTransform(), _BOTH),
)
for _constraints, _factory, _registries in _ENTRIES:
    for _registry in _registries:
        for _constraint in _constraints:
            _registry.register(_constraint, _factory)


def _register_those_of_others(registry: ConstraintRegistry) -> None:
    registry.register(constraints.independent, lambda c: transforms.IndependentTransform(
        registry(c.base_constraint), c.reinterpreted_batch_ndims
    ))
    registry.register(constraints.cat, lambda c: transforms.CatTransform(
        [registry(part) for part in c.cseq], c.dim, c.lengths
    ))
    registry.register(constraints.stack, lambda c: transforms.StackTransform([registry(p) for p in c.cseq], c.dim))


for _registry in _BOTH:
    _register_those_of_others(_registry)
