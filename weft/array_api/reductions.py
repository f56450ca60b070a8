"""Elements along dims, taken together: sums, extremes, places, order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array_api.promotion import promoted, summed
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType

Axis = int | Sequence[int] | None


def _dims(x: Tensor, axis: Axis) -> list[int]:
    """The dims that are meant; all of them for None."""
    return list(range(x.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)


def _reduced(reduce: Any, x: Tensor, axis: Axis, keepdims: bool, **more: Any) -> Tensor:
    """One reduction over some dims; over none, that of each element alone."""
    dims = _dims(x, axis)
    if not dims:
        return reduce(x.unsqueeze(0), [0], False, **more)
    return reduce(x, dims, keepdims, **more)


def _one_by_one(reduce: Any, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    """The same for a reduction that takes one dim."""
    dims = sorted((d % x.ndim for d in _dims(x, axis)), reverse=True)
    for d in dims:
        x = reduce(x, d, keepdims)
    return x


def sum(x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The sum; small integers and booleans are summed as int64."""
    return _reduced(aten.sum, x, axis, keepdims, dtype=dtype or summed(x.dtype))


def prod(x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The product; small integers and booleans are multiplied as int64."""
    return _one_by_one(aten.prod, x.to(dtype or summed(x.dtype)), axis, keepdims)


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean."""
    return _reduced(aten.mean, x, axis, keepdims)


def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation; the sum of squares is divided by the count less `correction`."""
    return aten.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance; the sum of squares is divided by the count less `correction`."""
    dims = _dims(x, axis)
    if not dims:
        x, dims, keepdims = x.unsqueeze(0), [0], False
    return aten.var(x, dims, correction=correction, keepdim=keepdims)


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element."""
    return _reduced(aten.amax, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element."""
    return _reduced(aten.amin, x, axis, keepdims)


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true (not 0), as booleans."""
    return _one_by_one(aten.all, x.to(dt.bool_), axis, keepdims)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element is true (not 0), as booleans."""
    return _one_by_one(aten.any, x.to(dt.bool_), axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0, as int64."""
    return _reduced(aten.sum, x != 0, axis, keepdims, dtype=dt.int64)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along a dim, n times."""
    return aten.diff(x, n, axis, prepend, append)


# ---- places
def _place(find: Any, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None:
        return find(x, axis, keepdims)
    out: Tensor = find(aten.flatten(x), 0, False)
    return aten.reshape(out, (1,) * x.ndim) if keepdims else out


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the (first) largest element along a dim; axis=None: of the flat tensor."""
    return _place(aten.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the (first) smallest element along a dim; axis=None: of the flat tensor."""
    return _place(aten.argmin, x, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of what is not 0, a tensor for each dim. Raises ValueProblem for a tensor of no dims."""
    if x.ndim == 0:
        raise ValueProblem("nonzero(): expected a tensor of one dim or more")
    return tuple(aten.nonzero(x).unbind(1))


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where elements would go into a sorted tensor; of equal ones before ("left") or behind ("right")."""
    first, values = promoted(x1, x2)
    return aten.searchsorted(first, values, side=side, sorter=sorter)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """x1 where the condition holds, x2 elsewhere; one of the two may be a Python number."""
    return aten.where(condition, *promoted(x1, x2))


# ---- order
def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The places of the elements along a dim, in the order of their values; equal ones in the order of places."""
    return aten.sort(x, stable=True, dim=axis, descending=descending)[1]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements along a dim in order."""
    return aten.sort(x, stable=True, dim=axis, descending=descending)[0]
