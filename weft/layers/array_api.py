"""Names of the Array API standard (2024.12) that PyTorch lacks: `astype`, `isdtype`, `permute_dims`, `unique_all`, ...
Each is written with the operators that PyTorch has for it. Source: data-apis.org/array-api.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, ShapeError, ValueProblem
from weft.tensor.device import Device
from weft.tensor.tensor import Tensor, check_tensor
from weft.types import dtype as dt
from weft.types.dtype import COMPLEX, FLOAT, INT, DType
from weft.types.promotion import promote

__all__ = [
    "astype", "bitwise_invert", "broadcast_arrays", "cumulative_prod", "cumulative_sum", "expand_dims", "isdtype",
    "matrix_transpose", "permute_dims", "repeat", "take_along_axis", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "vecdot",
]


# ---- dtypes
@overridable
def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The tensor with another dtype; a copy where it has that dtype already, unless copy=False."""
    return check_tensor(x, "astype(): x").to(dtype=dtype, device=device, copy=copy)


_KINDS: dict[str, Callable[[DType], bool]] = {
    "bool": lambda d: d is dt.bool_,
    "signed integer": lambda d: d.category == INT and d.is_signed,
    "unsigned integer": lambda d: d.category == INT and not d.is_signed,
    "integral": lambda d: d.category == INT,
    "real floating": lambda d: d.category == FLOAT,
    "complex floating": lambda d: d.category == COMPLEX,
    "numeric": lambda d: d.category >= INT,
}


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a dtype is another one, or of a kind: "bool", "signed integer", "unsigned integer", "integral",
    "real floating", "complex floating" or "numeric"; of one of several, for a tuple. Raises ArgumentError."""
    if not isinstance(dtype, DType):
        raise ArgumentError(f"isdtype(): expected a dtype, got {type(dtype).__name__}")
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ArgumentError(f"isdtype(): {kind!r} is no kind of dtypes; there are {', '.join(_KINDS)}")
    return _KINDS[kind](dtype)


class NamespaceInfo:
    """What `weft.__array_namespace_info__()` gives: devices, dtypes and abilities, in the standard's words."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing, shapes that hang on values, and any number of dims (64 in NumPy's arrays)."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The CPU."""
        return Device("cpu")

    def devices(self) -> list[Device]:
        """Where tensors with values can be."""
        return [Device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of tensors that are made without one."""
        real = dt.get_default()
        return {
            "real floating": real, "complex floating": real.to_complex(), "integral": dt.int64, "indexing": dt.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes that tensors can have, by name; those of a kind of `isdtype`."""
        listed = {d.name: d for d in dt.ALL if d not in (dt.float16, dt.bfloat16)}
        return listed if kind is None else {name: d for name, d in listed.items() if isdtype(d, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    return NamespaceInfo()


__array_namespace_info__.__doc__ = "What weft has of the Array API standard: devices, dtypes, abilities."


# ---- shapes
@overridable
def permute_dims(x: Tensor, /, axes: Any) -> Tensor:
    """The dims in another order, as a view."""
    return check_tensor(x, "permute_dims(): x").permute(axes)


@overridable
def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """A new dim of size 1 at a place, as a view."""
    return check_tensor(x, "expand_dims(): x").unsqueeze(axis)


@overridable
def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two dims exchanged, as a view. Raises ShapeError below two dims."""
    return check_tensor(x, "matrix_transpose(): x").mT


@overridable
def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The tensors, each shown with the common size."""
    return list(aten.broadcast_tensors(list(arrays)))


@overridable
def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element so many times (or its own number of times), along a dim; axis=None: of the flattened tensor."""
    return check_tensor(x, "repeat(): x").repeat_interleave(repeats, dim=axis)


@overridable
def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts along a dim, as views."""
    return tuple(check_tensor(x, "unstack(): x").unbind(axis))


@overridable
def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at an index of each place along a dim."""
    return aten.take_along_dim(x, indices, axis)


# ---- values
@overridable
def bitwise_invert(x: Tensor, /) -> Tensor:
    """Each bit the other way."""
    return aten.bitwise_not(x)


@overridable
def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum over one dim of conj(x1) * x2, in the dtype of their product. Raises ShapeError where the sizes of that
    dim differ."""
    if x1.ndim and x2.ndim and x1.shape[axis] != x2.shape[axis]:
        raise ShapeError(f"vecdot(): dim {axis} has the sizes {x1.shape[axis]} and {x2.shape[axis]}")
    return aten.linalg_vecdot(x1, x2, dim=axis).to(promote(x1.dtype, x2.dtype))


@overridable
def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Running sums along a dim (which only a tensor of one dim may leave out); include_initial: with a 0 first."""
    return _cumulative("cumulative_sum", aten.cumsum, x, axis, dtype, 0 if include_initial else None)


@overridable
def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Running products along a dim (which only a tensor of one dim may leave out); include_initial: with a 1 first."""
    return _cumulative("cumulative_prod", aten.cumprod, x, axis, dtype, 1 if include_initial else None)


def _cumulative(
    name: str, scan: Any, x: Tensor, axis: int | None, dtype: DType | None, initial: int | None
) -> Tensor:
    check_tensor(x, f"{name}(): x")
    if axis is None:
        if x.ndim != 1:
            raise ValueProblem(f"{name}(): axis must be given for a tensor of {x.ndim} dims")
        axis = 0
    out: Tensor = scan(x, axis, dtype=dtype)
    if initial is None:
        return out
    size = [*out.shape]
    size[axis] = 1
    return aten.cat([aten.full(size, initial, dtype=out.dtype), out], axis)


# ---- sets
class UniqueAll(NamedTuple):
    """The values, the place of each one's first occurrence, the value's place for each element, and the counts."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The values, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The values, and the value's place for each element."""

    values: Tensor
    inverse_indices: Tensor


@overridable
def unique_all(x: Tensor, /) -> UniqueAll:
    """The values of a tensor, sorted, with where they are and how often."""
    values, inverse, counts = aten.unique(x, return_inverse=True, return_counts=True)
    order = aten.argsort(aten.flatten(inverse), stable=True)
    starts = aten.cumsum(counts, 0) - counts
    return UniqueAll(values, order[starts], inverse, counts)


@overridable
def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The values of a tensor, sorted, and how often each occurs."""
    return UniqueCounts(*aten.unique(x, return_counts=True))


@overridable
def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The values of a tensor, sorted, and the value's place for each element."""
    return UniqueInverse(*aten.unique(x, return_inverse=True))


@overridable
def unique_values(x: Tensor, /) -> Tensor:
    """The values of a tensor, sorted."""
    return aten.unique(x)


# ---- linear algebra
@overridable
def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of all pairs of elements of two vectors."""
    return aten.outer(x1, x2)


@overridable
def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """The sum of products over dims: the last `axes` of x1 with the first of x2, or the dims of two lists."""
    return aten.tensordot(x1, x2, dims=axes)


@overridable
def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sum along a diagonal of each matrix [..., n, m]; integers are summed as int64."""
    return aten.sum(aten.diagonal(x, offset, -2, -1), -1, dtype=dtype)
