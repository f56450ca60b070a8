"""Transforms of slices, each by a transform of its own."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.transforms.transform import Transform
from weft.distributions.utils import _sum_rightmost
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor


class _Joined(Transform):
    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        assert all(isinstance(t, Transform) for t in tseq), "All elements of tseq must be Transform instances"
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def length(self) -> int:
        """The size along `dim`."""
        return len(self.transforms)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    def _slices(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        assert -x.dim() <= self.dim < x.dim(), f"dim {self.dim} out of range for tensor with {x.dim()} dimensions"
        assert x.size(self.dim) == self.length, f"size({self.dim}) = {x.size(self.dim)} must equal {self.length}"
        return self._slices(x)

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)])

    def _logs(self, x: Tensor, y: Tensor) -> list[Tensor]:
        pairs = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return [t.log_abs_det_jacobian(before, after) for t, before, after in pairs]


class CatTransform(_Joined):
    """Transforms of slices along `dim`, as `cat` joins them.

    Args:
        tseq: the transforms.
        dim: along which the slices stand.
        lengths: their sizes; None: 1 for each.
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.transforms), (
            f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
        )

    def _arguments(self) -> tuple[Any, ...]:
        return self.transforms, self.dim, self.lengths

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _slices(self, x: Tensor) -> Sequence[Tensor]:
        parts: Sequence[Tensor] = aten.split_with_sizes(x, self.lengths, self.dim)
        return parts

    def _join(self, parts: list[Tensor]) -> Tensor:
        return aten.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logs = [
            _sum_rightmost(log, self.event_dim - t.event_dim)
            for t, log in zip(self.transforms, self._logs(x, y), strict=True)
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return aten.cat(logs, dim) if dim < 0 else functools.reduce(operator.add, logs)


class StackTransform(_Joined):
    """Transforms of single indices along `dim`, as `stack` joins them."""

    def _arguments(self) -> tuple[Any, ...]:
        return self.transforms, self.dim

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _slices(self, x: Tensor) -> Sequence[Tensor]:
        parts: Sequence[Tensor] = aten.unbind(x, self.dim)
        return parts

    def _join(self, parts: list[Tensor]) -> Tensor:
        return aten.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return aten.stack(self._logs(x, y), self.dim)
