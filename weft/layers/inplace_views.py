"""Methods that change what a tensor shows and leave the bytes: transpose_, squeeze_, ... (in-place view operators), resize_ and set_.

The history of a tensor that is no view gets the view operator's node; a view stays one, its path from the base one step longer. Other views of
the same base keep what they show: they remember how the base lay when they were made (ViewOf.array).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.autograd.record import gradient_edge
from weft.autograd.views import check_inplace, storage_order
from weft.layers.eager import INFERENCE_WRITE
from weft.ops.geometry import contiguous_strides
from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.runtime.storage import Storage, UntypedStorage, root_of
from weft.support.errors import ArgumentError, CaptureError, ShapeError, StateError, Unsupported, too_large
from weft.tensor.history import AutogradState, ViewOf
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

ndarray = np.ndarray
NAMES = ("transpose", "t", "squeeze", "unsqueeze", "swapaxes", "swapdims", "as_strided")


@overridable
def as_strided(self: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    """A view of the storage with the given sizes, strides and offset, in elements; written as a view of what `self` is a view of."""
    if isinstance(storage_offset, int) and storage_offset < 0:
        raise ShapeError(f"Tensor: invalid storage offset {storage_offset}")
    root = self if self._view is None else self._view.base
    if root.dtype is not self.dtype:
        return aten.as_strided(self, size, stride, storage_offset)
    order = storage_order(root)
    offset = self.storage_offset() if storage_offset is None else storage_offset
    start = root.storage_offset()  # not 0 for a detached view: the operator counts from the first element
    offset = offset if start == 0 else offset - start
    return aten.as_strided(root if order is None else aten.permute(root, order), size, stride, offset)


def _inplace_view(name: str) -> Callable[..., Tensor]:
    operator = as_strided if name == "as_strided" else getattr(aten, name)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        _refuse_outside(self, f"{name}_")
        _refuse_inference(self)
        check_inplace(name, self, False)
        storage = self.storage()
        if self._view is None:
            _replace_history(self, operator(_former(self), *args, **kwargs))
        else:
            _lengthen_path(self, operator(self, *args, **kwargs))
        storage.version += 1
        if self._view is not None and self._autograd is not None:
            self._autograd.version = storage.version
        return self

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"In-place {name}: self shows its bytes as {name} would. Returns self."
    return method


def _refuse_outside(tensor: Tensor, name: str) -> None:
    capture = modes.capture
    if capture is not None and (type(tensor._data) is ndarray or id(tensor) in capture.stand_ins):
        raise CaptureError(
            f"{name}: a compiled function changes the shape or strides of a tensor of shape {list(tensor.shape)} that exists outside of it; use the "
            f"functional form ({name[:-1]}) and return its result"
        )


def _refuse_inference(tensor: Tensor) -> None:
    if not modes.inference and tensor.is_inference():
        raise StateError(INFERENCE_WRITE)


def _former(tensor: Tensor) -> Tensor:
    """The tensor as it is now, for the node of the view operator to come from."""
    out = Tensor(tensor._data)
    out._storage = tensor.storage()
    edge = gradient_edge(tensor) if tensor.grad_fn is not None else None
    if edge is not None:
        out._autograd = AutogradState(False, *edge)
    return out


def _replace_history(tensor: Tensor, made: Tensor) -> None:
    data = made._data
    tensor._data = data if type(data) is ndarray else data.moved_to(tensor)
    state, new = tensor._autograd, made._autograd
    if state is not None:
        state.accumulate = None  # a leaf (written under no_grad) takes gradients of its new sizes
    if new is not None and new.node is not None:
        state = tensor._state()
        state.node, state.index = new.node, new.index


def _lengthen_path(tensor: Tensor, made: Tensor) -> None:
    before, after = tensor._view, made._view
    assert before is not None and after is not None
    data = made._data
    tensor._data = data if type(data) is ndarray else data.moved_to(tensor)
    tensor._view = ViewOf(after.base, after.path, before.creation, after.array)
    if made._autograd is not None:
        state = tensor._state()
        state.node, state.index = made._autograd.node, made._autograd.index


# ---- resize_ and set_


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Show the storage row-major with these sizes, making it larger where they need more. Returns self; new elements are not initialised.

    Raises StateError for a tensor that requires grad, and where the storage would have to grow while something else shows it.
    """
    dims = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if self.requires_grad:
        raise StateError("cannot resize variables that require grad")
    if any(d < 0 for d in dims):
        raise StateError(f"Trying to create tensor with negative dimension {min(dims)}: {list(dims)}")
    _refuse_outside(self, "resize_")
    _refuse_inference(self)
    if type(self._data) is not ndarray:
        raise CaptureError("resize_: a captured tensor cannot be resized; make a new one with zeros() and copy into it")
    if tuple(dims) == self._data.shape:
        return self
    dtype, offset, version = self._data.dtype, self.storage().offset_of(self._data), self.storage().version
    count = int(np.prod(dims, dtype=np.int64))
    needs_more = (offset + count) * dtype.itemsize > self._storage.nbytes
    storage: Any = _grown(self, offset + count) if needs_more else self._storage
    self._data = storage.view(dims, contiguous_strides(dims), offset, dtype)
    self._storage = storage
    storage.version = version + 1
    return self


def _grown(tensor: Tensor, count: int) -> Storage:
    """A larger storage with the old bytes in front. Raises StateError, and nothing has happened, where something else shows the old one."""
    try:
        array = np.empty(count, tensor._data.dtype)
    except (MemoryError, ValueError) as problem:
        raise too_large("resize_", problem) or problem from None
    nbytes, root = tensor._storage.nbytes, tensor._storage.array
    array.view(np.uint8)[:nbytes] = root.reshape(-1).view(np.uint8)
    del root
    if tensor._view is not None or not _let_go(tensor):
        raise StateError(
            f"Trying to resize storage that is not resizable: resize_ needs {array.nbytes} bytes, the storage has {nbytes}, and another tensor or array "
            "shows it. clone() the tensor first"
        )
    return Storage(array)


def _let_go(tensor: Tensor) -> bool:
    """Take a tensor's memory from it, unless it outlives that, for somebody else has it: then the tensor has it back."""
    storage, data = tensor._storage, tensor._data
    g: Any = tensor.geometry()  # of bytes: numbers
    version, dtype = storage.version, data.dtype
    held = [weakref.ref(x) for x in (storage, data, storage.array, root_of(data))]
    tensor._storage = tensor._data = None
    del storage, data
    storage, data, *arrays = [found() for found in held]
    others = [a for a in (data, *arrays) if a is not None]
    if storage is None and not others:
        return True
    tensor._storage = Storage(others[0]) if storage is None else storage
    tensor._storage.version = version
    tensor._data = tensor._storage.view(g.dims, g.strides, g.offset, dtype) if data is None else data
    return False


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Show another storage: that of a tensor, as it shows it, or a Storage with sizes and strides; nothing without arguments. Returns self."""
    check_inplace("set_", self, False)
    if modes.grad and self.requires_grad:
        raise StateError("set_: the derivative for 'set_' is not implemented; detach() the tensor first")
    _refuse_outside(self, "set_")
    if type(self._data) is not ndarray:
        raise Unsupported(f"set_: a tensor without bytes of its own ({type(self._data).__name__}) cannot show other storage")
    self._data, self._storage = _shown(self, source, storage_offset, size, stride)
    self._view = None
    self._storage.version += 1
    if self._autograd is not None:
        self._autograd.accumulate = None  # gradients of what it showed before are not its own any more
    return self


def _shown(tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> tuple[Any, Storage]:
    dtype = tensor._data.dtype
    if source is None:
        empty = np.empty(0, dtype)
        return empty, Storage(empty)
    if isinstance(source, Tensor):
        if source.dtype is not tensor.dtype:
            raise StateError(f"Could not set tensor of type {source.dtype} to a tensor of type {tensor.dtype}")
        if size is None:
            return source._data, source.storage()
        source = source.storage()
    if isinstance(source, UntypedStorage):
        source = source.storage
    if not isinstance(source, Storage):
        raise ArgumentError(f"set_(): expected a Tensor or a Storage, got {type(source).__name__}")
    dims = (source.nbytes // dtype.itemsize - offset,) if size is None else tuple(size)
    strides: tuple[Any, ...] = contiguous_strides(dims) if stride is None else tuple(stride)
    last = offset + sum((d - 1) * s for d, s in zip(dims, strides, strict=False)) + 1
    if offset < 0 or (all(dims) and last * dtype.itemsize > source.nbytes):
        raise StateError(f"set_(): sizes {list(dims)}, strides {list(strides)} and offset {offset} need more than the storage's {source.nbytes} bytes")
    return source.view(dims, strides, offset, dtype), source


def resize_as_(self: Tensor, other: Tensor, memory_format: Any = None) -> Tensor:
    """resize_ to the sizes of `other`."""
    return resize_(self, tuple(other.shape))


def install() -> None:
    """Put the methods on Tensor."""
    for name in NAMES:
        setattr(Tensor, f"{name}_", _inplace_view(name))
    for method in (as_strided, resize_, resize_as_, set_):
        setattr(Tensor, method.__name__, method)
