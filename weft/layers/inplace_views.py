"""Methods that change what a tensor shows and leave the bytes: transpose_, squeeze_, ... (in-place view operators),
resize_ and set_.

The history of a tensor that is no view gets the view operator's node; a view stays one, its path from the base
one step longer. Other views of the same base keep what they show: they remember how the base lay when they were
made (ViewOf.array).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.autograd.record import gradient_edge
from weft.autograd.views import check_inplace, refuse_inference, storage_order
from weft.layers.backends import backend_for
from weft.layers.outputs import write_out
from weft.ops.geometry import repeats_elements
from weft.ops.layout import order_of_format, ordered
from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.ops.shown import show
from weft.support.errors import ShapeError, StateError, Unsupported
from weft.tensor.dense import payload_of
from weft.tensor.history import AutogradState, ViewOf
from weft.tensor.modes import modes, set_grad_enabled
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.formats import DIM_ORDERS

NAMES = ("transpose", "t", "squeeze", "unsqueeze", "swapaxes", "swapdims", "as_strided")


@overridable
def as_strided(self: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    """A view of the storage with the given sizes, strides and offset, in elements;
    written as a view of what `self` is a view of."""
    if isinstance(storage_offset, int) and storage_offset < 0:
        raise ShapeError(f"Tensor: invalid storage offset {storage_offset}")
    root = self if _stands_alone(self) else self._view.base  # type: ignore[union-attr]
    if root is not self and modes.capture is not None:
        aten.alias(self)  # a capture is told of both, and guards that they share memory
    if root.dtype is not self.dtype:
        place = None if storage_offset is None else storage_offset - self.geometry().offset
        return aten.as_strided(self, size, stride, place)
    order = storage_order(root)
    offset = self.geometry().offset if storage_offset is None else storage_offset
    start = root.geometry().offset  # not 0 for a detached view: the operator counts from the first element
    offset = offset if start == 0 else offset - start
    view = aten.as_strided(root if order is None else aten.permute(root, order), size, stride, offset)
    if order is None and view.requires_grad and modes.capture is None and not (root.is_contiguous() or _repeats(root)):
        view.register_hook(_refuse_gradient)
    return view


def _refuse_gradient(gradient: Tensor) -> None:
    raise Unsupported(
        "as_strided: the gradient of a tensor with gaps between its elements is not known; take as_strided of what it "
        "is a view of, or of a clone()"
    )


def _stands_alone(tensor: Tensor) -> bool:
    """Whether as_strided of a tensor is one of itself: it is no view, or was left by its base, or is a leaf."""
    view, state = tensor._view, tensor._autograd
    if view is None or view.base._storage is not tensor._storage:
        return True
    return state is not None and ((state.requires_grad and state.node is None) or state.retains_grad)


def _repeats(tensor: Tensor) -> bool:
    """Whether elements share memory because a dim is repeated."""
    return repeats_elements(tensor.geometry())


@overridable
def as_strided_scatter(
    self: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: Any = None, *, out: Any = None
) -> Tensor:
    """A copy of the tensor, lying as it does, with `src` where as_strided with these sizes, strides and offset looks in
    the storage."""
    start = self.geometry().offset
    place = start if storage_offset is None else storage_offset
    order = storage_order(self)
    if self.is_contiguous() and isinstance(start, int) and start == 0:
        scattered = aten.as_strided_scatter(self, src, size, stride, place)
    elif order is not None and isinstance(start, int) and start == 0:
        scattered = aten.as_strided_scatter(aten.permute(self, order), src, size, stride, place)
        scattered = aten.permute(scattered, tuple(order.index(i) for i in range(len(order))))
    else:
        count = self.storage().nbytes // self.element_size()
        row = aten.as_strided_scatter(as_strided(self, (count,), (1,), 0).clone(), src, size, stride, place)
        scattered = aten.as_strided(row, self.dims, self.stride(), start)
    if out is None:
        return scattered
    return write_out("as_strided_scatter", aten.as_strided_scatter.default.op.takes, scattered, out)


def _inplace_view(name: str) -> Callable[..., Tensor]:
    operator = as_strided if name == "as_strided" else getattr(aten, name)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        capture = modes.capture
        if capture is not None:
            capture.outside.may_reshape(self, f"{name}_")
        refuse_inference(self)
        check_inplace(self, False)
        storage, grad = self.storage(), modes.grad or _has_history(self)
        if self._view is None:
            _replace_history(self, operator(_former(self), *args, **kwargs))
        else:
            with set_grad_enabled(grad):  # one that has a history keeps one
                view = operator(self, *args, **kwargs)
            _lengthen_path(self, view)
        storage.version += 1
        if self._view is not None and self._autograd is not None:
            self._autograd.version = storage.version
        if capture is not None:
            capture.outside.note_inplace_view(self, f"{name}_", args, kwargs)
        return self

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"In-place {name}: self shows its bytes as {name} would. Returns self."
    show(method, lambda: getattr(aten, name).overloads, "self")
    return method


def _has_history(view: Tensor) -> bool:
    return view._view is not None and view._view.creation == "default" and view._node is not None


def _refuse_in_capture(tensor: Tensor, name: str) -> None:
    if modes.capture is not None:
        modes.capture.outside.refuse_reshaping(tensor, name)


def _former(tensor: Tensor) -> Tensor:
    """The tensor as it is now, for the node of the view operator to come from."""
    out = tensor_around(tensor._data)
    out._storage = tensor.storage()
    edge = gradient_edge(tensor) if tensor._node is not None else None
    if edge is not None:
        out._autograd = AutogradState(False, *edge)
    return out


def _replace_history(tensor: Tensor, replacement: Tensor) -> None:
    tensor._data = payload_of(replacement).moved_to(tensor)
    state, new = tensor._autograd, replacement._autograd
    if state is not None:
        state.accumulate = None  # a leaf (written under no_grad) takes gradients of its new sizes
    if new is not None and new.node is not None:
        state = tensor._state()
        state.node, state.index = new.node, new.index


def _lengthen_path(tensor: Tensor, view: Tensor) -> None:
    before, after = tensor._view, view._view
    assert before is not None and after is not None
    tensor._data = payload_of(view).moved_to(tensor)
    tensor._view = ViewOf(after.base, after.path, before.creation, after.array)
    if view._autograd is not None:
        state = tensor._state()
        state.node, state.index = view._autograd.node, view._autograd.index


# ---- resize_ and set_


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Show the storage row-major (or as the memory format says) with these sizes, making it larger where they need
    more. Returns self; new elements are not initialised.

    Raises StateError for a tensor that requires grad, and where the storage would have to grow while something else
    shows it.
    """
    dims = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if self.requires_grad and not modes.inference:
        raise StateError("cannot resize variables that require grad")
    if any(d < 0 for d in dims):
        raise StateError(f"Trying to create tensor with negative dimension {min(dims)}: {list(dims)}")
    order = order_of_format(memory_format or "contiguous_format", len(dims))
    _refuse_in_capture(self, "resize_")
    refuse_inference(self)
    if tuple(dims) != self.dims:
        backend_for((self,)).resize(self, tuple(dims))
    if memory_format in DIM_ORDERS:
        self.as_strided_(dims, ordered(dims, order).strides)
    return self


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Show another storage: that of a tensor, as it shows it, or a Storage with sizes and strides;
    nothing without arguments. Returns self."""
    check_inplace(self, False)
    if modes.grad and self.requires_grad:
        raise StateError("set_: the derivative for 'set_' is not implemented; detach() the tensor first")
    _refuse_in_capture(self, "set_")
    backend_for((self,)).show(self, source, storage_offset, size, stride)
    self._view = None
    self._storage.version += 1
    if self._autograd is not None:
        self._autograd.accumulate = None  # gradients of what it showed before are not its own any more
    return self


def resize_as_(self: Tensor, other: Tensor, memory_format: Any = None) -> Tensor:
    """resize_ to the sizes of `other`, and with the memory format "preserve_format" to its order of dims in memory."""
    if memory_format == "preserve_format":
        memory_format = next((name for name in DIM_ORDERS if other.is_contiguous(name)), None)
    return resize_(self, tuple(other.shape), memory_format=memory_format)


def install() -> None:
    """Put the methods on Tensor."""
    for name in NAMES:
        setattr(Tensor, f"{name}_", _inplace_view(name))
    for method in (as_strided, as_strided_scatter, resize_, resize_as_, set_):
        setattr(Tensor, method.__name__, method)
