"""Views and in-place writes: history is never mutated. A write on a view gives its base a new history (CopySlices),
and views look theirs up again."""

from __future__ import annotations

import math
import re
from functools import cmp_to_key
from typing import Any

import numpy as np

from weft.autograd.node import Node, OpNode
from weft.autograd.record import described, gradient_edge
from weft.autograd.validate import validate
from weft.functionalizer import writes as functionalizer_writes
from weft.functionalizer.recorder import Calls
from weft.functionalizer.writes import Path
from weft.ops import compute
from weft.ops.call_signatures import shortest_route
from weft.ops.geometry import Geometry, is_contiguous
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.runtime.storage import root_of
from weft.support import seams
from weft.support.errors import StateError
from weft.tensor.dense import as_payload, dense_array
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.planned import around
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.unbacked import numbers_in

Array = np.ndarray[Any, Any]


def follow(base: Any, path: Path) -> Any:
    """The view at the end of a path of view operators."""
    for op, rest, index in path:
        args = (base, *rest)
        out = shortest_route(op, args)(op, args)
        base = out[index] if type(out) in (tuple, list) else out
    return base


class _Gradients(Calls):
    """Views of gradients: as_strided speaks of memory, and what it is the gradient of lay row-major."""

    def emit(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if op.view is not None and op.view.is_free and not args[0].is_contiguous():
            args = (aten._contiguous_copy(args[0]), *args[1:])
        return super().emit(op, args)


_GRADIENTS = _Gradients()


def write_path(base: Any, path: Path, new: Any, is_splat: bool = False) -> Any:
    """The base with `new` in place of the view at the end of the path, by each view's scatter. is_splat: all elements
    of `new` are equal, so that the view may show an element twice."""
    return functionalizer_writes.write_path(_GRADIENTS, base, path, new, is_splat)


def gradient_of_view(gradient: Any, path: Path) -> Any:
    """The part of a base's gradient that the view at the end of a path shows."""
    return functionalizer_writes.replay(_GRADIENTS, gradient, path)


def _opened(gradient: Any, path: Path) -> tuple[Array, Array] | None:
    """A copy of the gradient and the view of it at the end of the path, by NumPy alone;
    None where history or a capture needs the operators."""
    data = dense_array(gradient)
    if modes.grad or modes.capture is not None or modes.special is not None or data is None:
        return None
    whole = np.array(data, order="C")
    view: Any = whole
    for op, args, index in path:
        if op.view is None or op.view.is_free:
            return None
        view = compute.view(op, view, args)
        if type(view) in (tuple, list):
            view = view[index]
        if view is None:
            return None
    return whole, view


class CopySlices(Node):
    """The history of a base after an in-place write through one of its views: the write's node, seen from the base."""

    def __init__(self, base: Tensor, view: Tensor, inner: Node) -> None:
        assert view._view is not None
        slot = _self_slot(inner)
        others = inner.edges if slot is None else (*inner.edges[:slot], *inner.edges[slot + 1 :])
        super().__init__((gradient_edge(base), *others))
        self.path: Path = path_from_base(view)
        self.inner: Any = inner
        self.self_slot = slot
        self.view_metadata = described(view._data.shape, view._data.dtype)[0][0]
        self.metadata_of_inputs = described(base._data.shape, base._data.dtype)[0]

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        g = grads[0]
        if g is None:
            return (None,) * len(self.edges)
        opened = _opened(g, self.path) if needs[0] else None
        g_view = gradient_of_view(g, self.path) if opened is None else around(opened[1].copy())
        out = list(self.inner.apply((g_view,), self.inner_needs(needs)))
        into_self = out.pop(self.self_slot) if self.self_slot is not None else None
        if not needs[0]:
            return (None, *out)
        return (self._into_base(g, g_view, into_self) if opened is None else self._into_copy(*opened, into_self), *out)

    def _into_copy(self, whole: Array, view: Array, into_self: Any) -> Tensor:
        """The gradient of the base without history: a copy of the incoming one, written where the view lies."""
        view[...] = 0 if into_self is None else validate(self.inner.name(), 0, into_self, self.view_metadata)._data
        return around(whole)

    def inner_needs(self, needs: tuple[bool, ...]) -> tuple[bool, ...]:
        """Which gradients the inner node is asked for."""
        listed = list(needs[1:])
        if self.self_slot is not None:
            listed.insert(self.self_slot, needs[0])
        return tuple(listed)

    def _into_base(self, g: Any, g_view: Any, into_self: Any) -> Any:
        if into_self is None:
            return write_path(g, self.path, aten.zeros_like(g_view), True)
        into_self = validate(self.inner.name(), 0, into_self, self.view_metadata)
        is_zero = isinstance(self.inner, OpNode) and self.inner.plan.op.is_splat  # of what a number took the place of
        return write_path(g, self.path, into_self, is_zero)

    @property
    def is_freed(self) -> bool:
        return self.inner.is_freed  # type: ignore[no-any-return]

    def release(self) -> None:
        self.inner.release()

    def find_sizes(self) -> None:
        super().find_sizes()
        self.inner.find_sizes()
        self.path = tuple([(op, numbers_in(args), index) for op, args, index in self.path])
        self.view_metadata = self.view_metadata._replace(dims=numbers_in(self.view_metadata.dims))


def path_from_base(view: Tensor) -> Path:
    """The view operators that lead from the base, as it lies now, to the view."""
    info = view._view
    assert info is not None
    base = info.base
    if info.array is base._data:
        return info.path
    back, g = _geometry_within(base, info.array), base.geometry()
    now = (g.dims, g.strides, g.offset)
    if back == now or (type(info.array) is not type(base._data) and not (_is_of_numbers(back) and _is_of_numbers(now))):
        return info.path
    order = storage_order(base)
    first: Path = () if order is None else ((aten.permute.default.op, (order,), 0),)
    dims, strides, offset = back
    return (*first, (aten.as_strided.default.op, (dims, strides, offset - g.offset), 0), *info.path)


def _shows_less(view: Tensor) -> bool:
    """Whether the base shows fewer elements by now (as_strided_) than when the view was made."""
    info = view._view
    assert info is not None
    if info.array is info.base._data:
        return False
    before: Any = as_payload(info.array, info.base.storage()).geometry().dims
    now: Any = info.base.dims
    return _is_of_numbers((before, now, 0)) and math.prod(before) > math.prod(now)


def _is_of_numbers(geometry: tuple[Any, ...]) -> bool:
    dims, strides, offset = geometry
    return all([type(n) is int for n in (*dims, *strides, offset)])


def _geometry_within(base: Tensor, array: Any) -> tuple[Any, ...]:
    """Dims, strides and offset of an array over the base's storage: how the base lay before
    an in-place view operator."""
    g = as_payload(array, base.storage()).geometry()
    return (g.dims, g.strides, g.offset)


def storage_order(tensor: Tensor) -> tuple[int, ...] | None:
    """The permutation that makes a dense tensor row-major; None where there is none or none is needed.

    as_strided speaks of storage, and its gradient is written for a row-major input.
    """
    g = tensor.geometry()
    if is_contiguous(g):
        return None
    strides_of: Any = g.strides
    order = tuple(sorted(range(g.ndim), key=cmp_to_key(lambda i, j: _larger_first(strides_of[i], strides_of[j]))))
    dims, strides = tuple(g.dims[i] for i in order), tuple(g.strides[i] for i in order)
    return order if is_contiguous(Geometry(dims, strides)) else None


def _larger_first(a: Any, b: Any) -> int:
    return 0 if shape_env.equal(a, b) else 1 if shape_env.less(a, b) else -1


def _self_slot(inner: Any) -> int | None:
    """Which of the inner node's edges belongs to `self` (a custom Function says which input it wrote)."""
    if not isinstance(inner, OpNode):
        return inner.dirty_slot  # type: ignore[no-any-return]
    plan = inner.plan
    return plan.differentiable.index(0) if 0 in plan.differentiable and inner.edges else None


def check_inplace(tensor: Tensor, other_needs_grad: bool) -> None:
    """Refuse the in-place writes that PyTorch refuses."""
    if modes.inference:
        return
    refuse_inference(tensor)
    if not modes.grad:
        return
    state, view = tensor._autograd, tensor._view
    is_leaf = state is not None and state.requires_grad and state.node is None
    if view is None:
        if is_leaf:
            raise StateError("a leaf Variable that requires grad is being used in an in-place operation.")
        return
    if not (is_leaf or other_needs_grad or view.base.requires_grad or (state is not None and state.node is not None)):
        return
    if view.creation != "default":
        raise StateError(_refusal(tensor, view.creation, "is being"))
    base_state = view.base._autograd
    if base_state is not None and base_state.requires_grad and base_state.node is None:
        raise StateError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if is_leaf:
        raise StateError("a leaf Variable that requires grad is being used in an in-place operation.")
    # a view of a view that was made a leaf
    if state is not None and state.node is not None and view.base.is_leaf and tensor.requires_grad:
        raise StateError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def refuse_inference(tensor: Tensor) -> None:
    """Refuse a write into a tensor of inference mode outside of it. Raises StateError."""
    if not modes.inference and tensor.is_inference():
        raise StateError(INFERENCE_WRITE)


INFERENCE_WRITE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal "
    "tensor before doing inplace update."
)
_AMBIGUOUS = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the {0} block (if you don't want the inplace to be tracked) or both "
    "outside (if you want the inplace to be tracked)."
)
_REASONS = {
    "multi": (
        "This view is the output of a function that returns multiple views. Such functions do not allow the output "
        "views to be modified inplace. You should replace the inplace operation by an out-of-place one."
    ),
    "function": (
        "This view was created inside a custom Function (or because an input was returned as-is) and the autograd "
        "logic to handle view+inplace would override the custom backward associated with the custom Function, "
        "leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the "
        "custom Function."
    ),
    "no_grad": _AMBIGUOUS.format("no_grad"),
    "inference": _AMBIGUOUS.format("inference_mode"),
}


def _refusal(tensor: Tensor, creation: str, what: str) -> str:
    """Why a write on (or, "and its base or another view of its base has been", beside) a view made in a special way
    is refused."""
    maker = _maker(tensor)
    output = f"Output {tensor._autograd.index if tensor._autograd else 0} of {maker}"
    if creation in ("no_grad", "inference") or maker is None:
        mode = "inference" if creation == "inference" else "no_grad"
        start = (
            f"A view was created in {mode} mode" if maker is None
            else f"{output} is a view of a view which was created in {mode} mode"
        )
        ending = "in normal mode" if creation == "inference" else "with grad mode enabled"
        return f"{start} and {what} modified inplace {ending}. {_REASONS[creation]}"
    return f"{output} is a view and {what} modified inplace. {_REASONS[creation]}"


def _maker(tensor: Tensor) -> str | None:
    """What made the view: `Unbind` for UnbindBackward0."""
    state = tensor._autograd
    return None if state is None or state.node is None else re.sub(r"Backward\d*$", "", state.node.name())


def rebase(tensor: Tensor, node: Node) -> None:
    """Give `tensor` the history of an in-place write: its own, or its base's when it is a view."""
    node.metadata_of_inputs += described(tensor._data.shape, tensor._data.dtype)[0]
    view = tensor._view
    if view is None or _is_left_behind(tensor):
        adopt_history(tensor, node)
    else:
        adopt_history(view.base, CopySlices(view.base, tensor, node))
        tensor._state().version = -1  # look the history up again
    if modes.capture is not None:
        modes.capture.note_history(tensor if tensor._view is None else tensor._view.base)


def adopt_history(tensor: Tensor, node: Node, index: int = 0) -> None:
    """Make a node the history of a tensor that is no view, in place of the one that it has."""
    state = tensor._state()
    old = (state.node, state.index)
    state.node, state.index, state.requires_grad = node, index, False
    state.accumulate = None
    state.hooks = None
    if state.retains_grad:
        _move_retained(old, node, index)


def _move_retained(old: tuple[Any, int], node: Node, index: int) -> None:
    """A tensor that retains its gradient retains that of its new history."""
    before = None if old[0] is None else old[0].arrival(old[1])
    keep = None if before is None or before.retain_hooks is None else before.retain_hooks.pop(old[1], None)
    if keep is None:
        return
    if node.retain_hooks is None:
        node.retain_hooks = {}
    node.retain_hooks[index] = keep


def _is_left_behind(view: Tensor) -> bool:
    """Whether the base shows other memory by now (set_, `.data`): then the view is a tensor to itself."""
    info = view._view
    if info is None or view._storage is info.base._storage:
        return False
    mine, its = dense_array(view), dense_array(info.base)
    if mine is None or its is None or root_of(mine) is root_of(its):
        return False
    view._view = None
    return True


def history_of_view(view: Tensor) -> None:
    """Bring a view's node up to date with its base's history."""
    info = view._view
    assert info is not None
    state = view._autograd
    if state is None:
        state = view._autograd = AutogradState()
    version = view._storage.version
    if state.version == version:
        return
    if modes.capture is not None:
        modes.capture.note_renewal(view)
    if _is_left_behind(view):
        state.version = version
        return
    edge = gradient_edge(info.base)
    if edge is None:
        state.version, state.node = version, None
        return
    if info.creation != "default":
        if not modes.grad:
            return
        raise StateError(_refusal(view, info.creation, "its base or another view of its base has been"))
    state.version = version
    if _shows_less(view):
        return  # of what is left it is no view; what it was made of is still there
    previous, inference = modes.grad, modes.inference
    modes.grad, modes.inference = True, False
    try:
        again = follow(info.base, path_from_base(view))
    finally:
        modes.grad, modes.inference = previous, inference
    renewed = again._autograd
    if renewed is not None:
        old = (state.node, state.index)
        state.node, state.index, state.requires_grad = renewed.node, renewed.index, False
        if state.retains_grad:
            _move_retained(old, renewed.node, renewed.index)


seams.history_of_view.install(history_of_view)
