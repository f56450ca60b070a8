"""Indexing syntax: `x[...]` and `x[...] = v` as a chain of views followed, where tensors index,
by one advanced indexing.

Pure functions over anything that operators accept. Ints select, slices slice, None inserts a dim, `...` skips dims;
bool and integer tensors (or lists and NumPy arrays) are gathered into the index list of `aten::index`
and `aten::index_put`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.ops.array import Array
from weft.ops.bind import is_routable
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, CaptureError, IndexBoundsError, Unsupported, ValueProblem
from weft.support.warn import warn
from weft.tensor.creation import tensor as tensor_of
from weft.tensor.dense import is_dense, payload_of
from weft.tensor.device import backends
from weft.tensor.meta import is_meta
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim, Expr
from weft.types.sym import SymInt, to_dim

Indices = tuple[Any, ...]
_MASKS = (dt.bool_, dt.uint8)
_INTEGERS = (dt.int64, dt.int32)
_INDEXERS = frozenset((*_MASKS, *_INTEGERS))


def getitem(x: Any, index: Any) -> Any:
    """The value of `x[index]`: a view unless a tensor indexes. Raises IndexBoundsError, ValueProblem."""
    view, indices = setitem_plan(x, index)
    if indices is not None:
        return aten.index(view, indices)
    return aten.alias(x) if view is x else view


def setitem_plan(x: Any, index: Any) -> tuple[Any, Indices | None]:
    """What `x[index] = v` writes to: a view, and the index list for index_put
    (None when the view itself is written)."""
    view, dim, axis = x, 0, 0
    tensors: list[tuple[int, Any]] = []
    for item in _expand_ellipsis(x, _as_items(index)):
        view, step, consumed, tensor = _apply(view, item, dim, axis)
        if tensor is not None:
            tensors.append((dim, tensor))
        dim += step
        axis += consumed
    return view, _index_list(tensors) if tensors else None


def _index_list(tensors: list[tuple[int, Any]]) -> Indices:
    """Index tensors in order, with a None for each dim that is kept before them;
    a mask of several dims stands for all of its dims."""
    out: list[Any] = []
    at = 0
    for dim, tensor in tensors:
        out.extend([None] * (dim - at))
        out.append(tensor)
        at = dim + _width(tensor)
    return tuple(out)


def _width(tensor: Any) -> int:
    return int(tensor.ndim) if tensor.dtype in _MASKS else 1


def room(view: Any, indices: Indices) -> int:
    """How many dims `view[indices]` has."""
    tensors = [i for i in indices if i is not None]
    joint = max([1 if i.dtype in _MASKS else int(i.ndim) for i in tensors], default=0)
    return int(view.ndim) - sum([_width(i) for i in tensors]) + joint


# ---- reading the index


def _as_items(index: Any) -> list[Any]:
    if isinstance(index, tuple):
        return [_plain(i) for i in index]
    if isinstance(index, list) and any(
        isinstance(i, (list, tuple, slice)) or i is None or i is Ellipsis or is_routable(i) for i in index
    ):
        return [_plain(i) for i in index]
    return [_plain(index)]


# how many dims of x items of Python's own classes speak of
_SIMPLE: dict[Any, int] = {int: 1, slice: 1, type(None): 0, type(Ellipsis): 0}


def _plain(item: Any) -> Any:
    """NumPy numbers and ranges as Python's."""
    if type(item) in _SIMPLE:
        return item
    if (
        isinstance(item, (np.bool_, np.integer))
        or (isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iub")
    ):
        return item.item()
    return list(item) if isinstance(item, range) else item


def _consumed(item: Any) -> int:
    """How many dims of x an item speaks of."""
    simple = _SIMPLE.get(type(item))
    if simple is not None:
        return simple
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if is_routable(item) and item.dtype in _MASKS:
        return int(item.ndim)
    if isinstance(item, (list, tuple, np.ndarray)):
        array = np.asarray(item)
        return array.ndim if array.dtype == np.bool_ else 1
    return 1


def _expand_ellipsis(x: Any, items: list[Any]) -> list[Any]:
    used = sum([_consumed(i) for i in items])
    if used > x.ndim:
        if x.ndim == 0:
            raise IndexBoundsError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                "convert a 0-dim tensor to a number"
            )
        raise IndexBoundsError(f"too many indices for tensor of dimension {x.ndim}")
    out: list[Any] = []
    room = x.ndim - used
    for item in items:
        if item is Ellipsis:
            out.extend([slice(None)] * room)
            room = 0
        else:
            out.append(item)
    return out


# ---- one item


def _apply(view: Any, item: Any, dim: int, axis: int) -> tuple[Any, int, int, Any]:
    """The view after one item at `dim` (which was `axis` in x): how far dim and axis move on, and the index tensor,
    if any."""
    if item is None:
        return aten.unsqueeze(view, dim), 1, 0, None
    if type(item) is slice:
        return _slice(view, item, dim), 1, 1, None
    if isinstance(item, bool):
        return aten.unsqueeze(view, dim), 1, 0, _constant(view, np.zeros(int(item), np.int64))
    if isinstance(item, (int, SymInt, Expr)):
        return _select(view, to_dim(item), dim, axis), 0, 1, None
    tensor = _as_tensor(view, item)
    if tensor.dtype not in _INDEXERS and not (tensor.ndim == 0 and tensor.dtype.category == dt.INT):
        raise IndexBoundsError("tensors used as indices must be long, int, byte or bool tensors")
    if tensor.dtype is dt.uint8 and tensor.ndim:
        warn(
            "indexing with dtype weft.uint8 is now deprecated, please use a dtype weft.bool instead."
        )
    if tensor.ndim == 0:
        return _by_number(view, tensor, dim, axis)
    if tensor.dtype in _MASKS:
        _check_mask(view, tensor, dim)
    width = _width(tensor)
    return view, width, width, tensor


def _slice(view: Any, item: slice, dim: int) -> Any:
    if item.start is None and item.stop is None and item.step is None:
        return view
    for part in (item.start, item.stop, item.step):
        if part is not None and not isinstance(part, (int, Expr)) and not hasattr(part, "__index__"):
            raise ArgumentError("slice indices must be integers or None or have an __index__ method")
    step = 1 if item.step is None else item.step
    if isinstance(step, int) and step <= 0:
        raise ValueProblem("slice step cannot be zero" if step == 0 else "step must be greater than zero")
    if item.start is None and item.stop is None and isinstance(step, int) and step == 1:
        return view
    return aten.slice(view, dim, item.start, item.stop, step)


def _select(view: Any, index: Dim, dim: int, axis: int) -> Any:
    size = view.dims[dim]
    if type(index) is int and type(size) is int and -size <= index < size:
        return aten.select(view, dim, index)

    def out_of_bounds() -> IndexBoundsError:
        return IndexBoundsError(f"index {index} is out of bounds for dimension {axis} with size {size}")

    shape_env.refuse_less(index + size, 0, out_of_bounds)
    shape_env.refuse_less(size, index + 1, out_of_bounds)
    return aten.select(view, dim, index)


def _by_number(view: Any, tensor: Any, dim: int, axis: int) -> tuple[Any, int, int, Any]:
    """A 0-dim tensor: a mask adds a dim; an integer selects, or says where to select when the program runs."""
    if tensor.dtype in _MASKS:
        return aten.unsqueeze(view, dim), 1, 0, aten.reshape(tensor, (1,))
    if getattr(getattr(tensor, "_data", None), "differs", False):
        return view, 1, 1, tensor
    if modes.capture is not None and isinstance(tensor, Tensor):
        return _found_when_run(view, tensor, dim)  # (asked for its value, it would refuse)
    try:
        index = operator.index(tensor.item())
    except (CaptureError, Unsupported, AttributeError, TypeError):
        return _found_when_run(view, tensor, dim)
    return _select(view, index, dim, axis), 0, 1, None


def _found_when_run(view: Any, tensor: Any, dim: int) -> tuple[Any, int, int, Any]:
    if is_meta(view) or isinstance(view, Array):
        return view, 1, 1, tensor
    return aten.select_at(view, dim, tensor), 0, 1, None


def _check_mask(view: Any, mask: Any, dim: int) -> None:
    for i, size in enumerate(mask.dims):
        if not shape_env.equal(size, view.dims[dim + i]):
            raise IndexBoundsError(
                f"The shape of the mask [{', '.join(map(str, mask.dims))}] at index {i} does not match the shape of "
                f"the indexed tensor [{', '.join(map(str, view.dims))}] at index {dim + i}"
            )


# ---- tensors from lists and arrays


def _as_tensor(view: Any, item: Any) -> Any:
    if type(item) is Tensor and isinstance(view, Tensor) and is_dense(item) and is_dense(view):
        return item
    if is_routable(item):
        return _beside(view, item) if isinstance(view, Tensor) and isinstance(item, Tensor) else item
    if isinstance(item, np.ndarray):
        return _constant(view, item)
    if isinstance(item, (list, tuple, range)):
        array = np.array([_number(i) for i in item] if not _is_nested(item) else item)
        return _constant(view, array.astype(np.int64) if array.size == 0 else array)
    if isinstance(item, (str, bytes)):
        raise ArgumentError(f"new(): invalid data type '{type(item).__name__}'")
    try:
        return _constant(view, np.asarray(operator.index(item)))
    except TypeError:
        raise IndexBoundsError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(item).__name__})"
        ) from None


def _beside(view: Tensor, item: Tensor) -> Tensor:
    """An index, on the tensor's device: integers from elsewhere are brought there."""
    wanted, here = payload_of(view).companions, payload_of(item).companions
    return backends[wanted].receive(item) if wanted != here and wanted != "cpu" and item.dtype in _INTEGERS else item


def _is_nested(items: Iterable[Any]) -> bool:
    return any(isinstance(i, (list, tuple)) for i in items)


def _number(value: Any) -> Any:
    return value.item() if is_routable(value) else (int(value) if isinstance(value, SymInt) else value)


def _constant(view: Any, array: np.ndarray[Any, Any]) -> Any:
    """An index given as Python or NumPy values, in the world of `view`."""
    if isinstance(view, Array):
        return Array(array)
    if isinstance(view, Tensor):
        return tensor_of(array, device=payload_of(view).companions)
    return view.builder.handle(view.builder.constant(array))
