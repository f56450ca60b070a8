"""Transform: an invertible function with the volume by which it stretches space, and those that are made of others."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Sequence
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.constraints import Constraint
from weft.distributions.utils import Shape, _sum_rightmost, memory_of
from weft.support.errors import Unsupported, ValueProblem
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor

TOO_FEW = "Too few dimensions on input"


class _Kept:
    """What a transform gives again: its inverse, as long as somebody uses it, and an x with its y. No attribute of the
    transform's changes with them."""

    __slots__ = ("inverse", "x", "y")

    def __init__(self) -> None:
        self.inverse: weakref.ref[Transform] | None = None
        self.x: Any = None
        self.y: Any = None


class Transform:
    """A function y = t(x), with its inverse `t.inv` and the logarithm of the determinant of its Jacobian.

    Args:
        cache_size: 1 to remember the last x and y, so that the inverse of what was just computed is exact; else 0.

    Attributes:
        domain: the constraint that x satisfies.
        codomain: the constraint that y satisfies.
        bijective: whether t.inv(t(x)) is x and t(t.inv(y)) is y.
        sign: of a monotone function of one number 1 or -1, as it rises or falls; a number or a tensor.
    """

    bijective: Any = False
    domain: Any
    codomain: Any
    sign: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueProblem("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._kept = _Kept()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": _Kept()}

    def __getattr__(self, name: str) -> Any:
        if name == "sign":
            raise Unsupported(f"{type(self).__name__} has no sign")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def event_dim(self) -> int:
        """How many dims are one event, where x and y agree. Raises ValueProblem."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueProblem("Please use either .domain.event_dim or .codomain.event_dim")
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse; t.inv.inv is t."""
        inverse = None if self._kept.inverse is None else self._kept.inverse()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._kept.inverse = weakref.ref(inverse)
        return inverse

    def _arguments(self) -> tuple[Any, ...]:
        """What `__init__` takes besides the cache size."""
        if type(self).__init__ is not Transform.__init__:
            raise Unsupported(f"{type(self)}.with_cache is not implemented")
        return ()

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same transform with this cache size."""
        if self._cache_size == cache_size:
            return self
        kind: Any = type(self)
        cached: Transform = kind(*self._arguments(), cache_size=cache_size)
        return cached

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        """y of x."""
        if self._cache_size == 0:
            return self._call(x)
        pair = self._pair()
        if x is not pair.x:
            pair.x, pair.y = x, self._call(x)
        return pair.y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        pair = self._pair()
        if y is not pair.y:
            pair.x, pair.y = self._inverse(y), y
        return pair.x

    def _pair(self) -> _Kept:
        return memory_of(self).setdefault("_kept", _Kept())

    def _call(self, x: Tensor) -> Tensor:
        raise Unsupported(f"{type(self).__name__} computes nothing forwards")

    def _inverse(self, y: Tensor) -> Tensor:
        raise Unsupported(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy/dx| of x and its y, one number for each event."""
        raise Unsupported(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Size) -> Size:
        """The shape of y for that of x."""
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        """The shape of x for that of y."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class SameClass(Transform):
    """A transform without parameters: equal to all others of its class."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    __hash__ = None


class _InverseTransform(Transform):
    """The inverse of a transform, which `Transform.inv` gives."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._forward = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._forward.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._forward.domain

    @property
    def bijective(self) -> Any:
        return self._forward.bijective

    @property
    def sign(self) -> Any:
        return self._forward.sign

    @property
    def inv(self) -> Transform:
        return self._forward

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._forward.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._forward == other._forward

    __hash__ = None

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Size) -> Size:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self._forward.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._forward!r})"


def _widened(constraint: Constraint, event_dim: int) -> Constraint:
    more = event_dim - int(constraint.event_dim)
    return constraints.independent(constraint, more) if more else constraint


class ComposeTransform(Transform):
    """One transform after the other.

    Args:
        parts: the transforms, the first one first. They do the caching.
        cache_size: 1 to give each of them a cache.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _widened(self.parts[0].domain, dims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _widened(self.parts[-1].codomain, dims)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Transform:
        inverse = None if self._kept.inverse is None else self._kept.inverse()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._kept.inverse, inverse._kept.inverse = weakref.ref(inverse), weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        between = [x]
        for part in self.parts[:-1]:
            between.append(part(between[-1]))
        between.append(y)
        terms, dims = [], int(self.domain.event_dim)
        for i, part in enumerate(self.parts):
            term = part.log_abs_det_jacobian(between[i], between[i + 1])
            terms.append(_sum_rightmost(term, dims - int(part.domain.event_dim)))
            dims += int(part.codomain.event_dim) - int(part.domain.event_dim)
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Size) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform, with more of the last dims in an event: its log_abs_det_jacobian sums over them.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: how many more dims.
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _arguments(self) -> tuple[Any, ...]:
        return self.base_transform, self.reinterpreted_batch_ndims

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueProblem(TOO_FEW)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueProblem(TOO_FEW)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Size) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Events of one shape as events of another one with as many elements.

    Args:
        in_shape: the event shape of x.
        out_shape: the event shape of y. Raises ValueProblem for another number of elements.
    """

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueProblem("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    def _arguments(self) -> tuple[Any, ...]:
        return self.in_shape, self.out_shape

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Size) -> Size:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Size) -> Size:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Size, event: Size, other: Size) -> Size:
    cut = len(shape) - len(event)
    if cut < 0:
        raise ValueProblem(TOO_FEW)
    if shape[cut:] != event:
        raise ValueProblem(f"Shape mismatch: expected {event} but got {shape[cut:]}")
    kept: Size = shape[:cut]
    return kept + other
