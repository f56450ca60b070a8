"""Constraints: the sets that parameters and values lie in. Each says of a tensor which of its events are inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from weft.distributions.utils import full
from weft.ops.packet import aten
from weft.support.errors import Unsupported, ValueProblem
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.limits import finfo

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]


class Constraint:
    """A set of values.

    Attributes:
        is_discrete: whether its values are apart from each other.
        event_dim: how many of a tensor's last dims are one event.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """bool, of the shape of `value` without its last `event_dim` dims: which events lie inside."""
        raise Unsupported(f"{type(self).__name__} has no check")

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


# ---- what is not known before there is a distribution
class _Dependent(Constraint):
    """A set that depends on other values, of which nothing can be checked."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:
        return bool(self._known("is_discrete"))

    @property
    def event_dim(self) -> int:
        return int(self._known("event_dim"))

    def _known(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise Unsupported(f".{name} cannot be determined statically")
        return value

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueProblem("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint is a dependent one, which nothing can be checked against."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of distributions that is a dependent constraint when their class is asked."""

    def __init__(
        self, fn: Callable[[Any], Any] | None = None, *, is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


# ---- made of other constraints
def _is_constraint(value: Any, name: str) -> None:
    assert isinstance(value, Constraint), f"{name} must be a Constraint, got {type(value).__name__}"


class _Wrapped(Constraint):
    base_constraint: Constraint

    def __init__(self, base_constraint: Constraint) -> None:
        _is_constraint(base_constraint, "base_constraint")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim)


class _IndependentConstraint(_Wrapped):
    """Another constraint, with more of the last dims in an event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__(base_constraint)
        assert isinstance(reinterpreted_batch_ndims, int) and reinterpreted_batch_ndims >= 0, (
            f"reinterpreted_batch_ndims must be an int >= 0, got {reinterpreted_batch_ndims!r}"
        )
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value)
        if inside.dim() < self.reinterpreted_batch_ndims:
            raise ValueProblem(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_of_last(inside, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_Wrapped):
    """The values of a mixture: those that every component has."""

    def check(self, value: Tensor) -> Tensor:
        """Which events all components have."""
        if value.dim() < self.event_dim:
            raise ValueProblem(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return _all_of_last(inside, inside.dim() - (value.dim() - self.event_dim))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


def _all_of_last(inside: Tensor, dims: int) -> Tensor:
    return inside.flatten(-dims).all(-1) if dims > 0 else inside


class _Parts(Constraint):
    """Slices along a dim, each with a constraint of its own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        for part in cseq:
            _is_constraint(part, "each of cseq")
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        return max(int(c.event_dim) for c in self.cseq)

    def _check_dim(self, value: Tensor) -> None:
        assert -value.dim() <= self.dim < value.dim(), (
            f"dim {self.dim} out of range for value with {value.dim()} dimensions"
        )


class _Cat(_Parts):
    """Slices of these lengths along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.cseq), (
            f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})"
        )

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        parts = aten.split_with_sizes(value, self.lengths, self.dim)
        return aten.cat([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Parts):
    """Slices of one index each along `dim`."""

    @property
    def event_dim(self) -> int:
        most = super().event_dim
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        parts = aten.unbind(value, self.dim)
        return aten.stack([c.check(v) for c, v in zip(self.cseq, parts, strict=False)], self.dim)


# ---- numbers
class _Real(Constraint):
    """All numbers, infinite ones too, and no NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


def _shown(bound: Any) -> Any:
    """A bound in a text: of a tensor its shape, where the values are not known yet."""
    is_open = isinstance(bound, Tensor) and (modes.capture is not None or modes.special is not None)
    return f"a tensor of shape {tuple(bound.shape)}" if is_open else bound


class _Bounded(Constraint):
    """Numbers between bounds, which are numbers or tensors."""

    bounds: ClassVar[tuple[str, ...]] = ()
    lower_bound: Any
    upper_bound: Any

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({', '.join(f'{n}={_shown(getattr(self, n))}' for n in self.bounds)})"


class _Above(_Bounded):
    bounds = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Below(_Bounded):
    bounds = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    bounds = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_Above):
    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_Above):
    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(_Below):
    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _IntegerLessThan(_Below):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


# ---- vectors
class _Simplex(Constraint):
    """Vectors of non-negative numbers that sum up to 1, within 1e-6."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    """Vectors of zeros with one 1."""

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return boolean.check(value).all(-1) & (value.sum(-1) == 1)


class _Multinomial(_Below):
    """Vectors of counts that sum up to the bound at most."""

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# ---- matrices
class _Matrix(Constraint):
    event_dim = 2


class _LowerTriangular(_Matrix):
    """Zeros above the diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Cholesky factors of correlation matrices: rows of length 1, within 10 n eps."""

    def check(self, value: Tensor) -> Tensor:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        length = value.detach().square().sum(-1).sqrt()
        return super().check(value) & ((length - 1.0).abs() <= tolerance).all(-1)


class _Square(_Matrix):
    """Matrices with as many rows as columns."""

    def check(self, value: Tensor) -> Tensor:
        is_square = bool(value.shape[-2] == value.shape[-1])
        return full(value.shape[:-2], is_square, dtype=dt.bool_, device=value.device)


class _Symmetric(_Square):
    """Equal to their transposes, within 1e-6."""

    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return aten.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric with no negative eigenvalue."""

    def check(self, value: Tensor) -> Tensor:
        inside = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return inside
        return inside & (aten.linalg_eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric with a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        inside = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return inside
        return inside & (aten.linalg_cholesky_ex(value)[1] == 0)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
