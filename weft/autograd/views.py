"""Views and in-place writes: history is never mutated. A write on a view gives its base a new history (CopySlices), and views look theirs up again."""

from __future__ import annotations

from typing import Any

from weft.autograd.node import Edge, InputMetadata, Node, OpNode
from weft.autograd.record import gradient_edge
from weft.autograd.validate import validate
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.support import seams
from weft.support.errors import StateError
from weft.tensor.modes import modes
from weft.tensor.tensor import AutogradState, Tensor

Path = tuple[tuple[Op, tuple[Any, ...], int], ...]


def follow(base: Any, path: Path) -> Any:
    """The view at the end of a path of view operators."""
    for op, args, index in path:
        out = call(op, (base, *args))
        base = out[index] if type(out) in (tuple, list) else out
    return base


def write_path(base: Any, path: Path, new: Any) -> Any:
    """The base with `new` in place of the view at the end of the path, by each view's scatter."""
    if not path:
        return new
    op, args, index = path[0]
    if len(path) > 1:
        inner = follow(base, path[:1])
        new = write_path(inner, path[1:], new)
    scatter = getattr(aten, f"{op.base}_scatter")
    if op.schema.returns_list or len(op.schema.returns) > 1:
        return scatter(base, new, index, *args)
    return scatter(base, new, *args)


class CopySlices(Node):
    """The history of a base after an in-place write through one of its views: the write's node, seen from the base."""

    def __init__(self, base: Tensor, view: Tensor, inner: OpNode) -> None:
        assert view._view is not None
        slot = _self_slot(inner)
        others = tuple(e for i, e in enumerate(inner.edges) if i != slot)
        super().__init__((gradient_edge(base), *others))
        self.path: Path = view._view.path
        self.inner: Any = inner
        self.self_slot = slot
        self.view_metadata = InputMetadata(view.dims, view.dtype)
        self.metadata_of_inputs = [InputMetadata(base.dims, base.dtype)]

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        g = grads[0]
        if g is None:
            return (None,) * len(self.edges)
        if self.inner is None:
            from weft.autograd.saved import FREED  # the text of one error

            raise StateError(FREED)
        g_view = follow(g, self.path)
        out = list(self.inner.apply((g_view,), self._inner_needs(needs)))
        into_self = out.pop(self.self_slot) if self.self_slot is not None else None
        into_base = self._into_base(g, g_view, into_self) if needs[0] else None
        return (into_base, *out)

    def _inner_needs(self, needs: tuple[bool, ...]) -> tuple[bool, ...]:
        listed = list(needs[1:])
        if self.self_slot is not None:
            listed.insert(self.self_slot, needs[0])
        return tuple(listed)

    def _into_base(self, g: Any, g_view: Any, into_self: Any) -> Any:
        if into_self is None:
            into_self = aten.zeros_like(g_view)
        else:
            into_self = validate(self.inner.name(), 0, into_self, self.view_metadata)
        return write_path(g, self.path, into_self)

    def release(self) -> None:
        if self.inner is not None:
            had = self.inner.packed
            self.inner.release()
            if had is not None and self.inner.packed is None:
                self.inner = None


def _self_slot(inner: OpNode) -> int | None:
    """Which of the inner node's edges belongs to `self`."""
    plan = inner.plan
    return plan.differentiable.index(0) if 0 in plan.differentiable and inner.edges else None


def check_inplace(name: str, tensor: Tensor, other_needs_grad: bool) -> None:
    """Refuse the in-place writes that PyTorch refuses."""
    if modes.inference or not modes.grad:
        return
    state, view = tensor._autograd, tensor._view
    if view is None:
        if state is not None and state.requires_grad and state.node is None:
            raise StateError("a leaf Variable that requires grad is being used in an in-place operation.")
        return
    wanted = tensor.requires_grad or other_needs_grad
    if not wanted:
        return
    base_state = view.base._autograd
    if base_state is not None and base_state.requires_grad and base_state.node is None:
        raise StateError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if view.creation == "multi":
        raise StateError(
            f"Output 0 of {_maker(tensor)} is a view and is being modified inplace. This view is the output of a function that returns multiple views. "
            "Such functions do not allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        )
    if view.creation == "no_grad":
        raise StateError(
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case is ambiguous and "
            "error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the no_grad block (if "
            "you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
        )


def _maker(tensor: Tensor) -> str:
    node = tensor.grad_fn
    return node.name() if node is not None else "a view function"


def rebase(tensor: Tensor, node: OpNode) -> None:
    """Give `tensor` the history of an in-place write: its own, or its base's when it is a view."""
    node.metadata_of_inputs.append(InputMetadata(tensor.dims, tensor.dtype))
    view = tensor._view
    if view is None:
        tensor._state().node = node
        tensor._state().index = 0
        tensor._state().requires_grad = False
        _drop_accumulator(tensor)
        return
    base = view.base
    slices = CopySlices(base, tensor, node)
    state = base._state()
    state.node, state.index, state.requires_grad = slices, 0, False
    _drop_accumulator(base)
    tensor._state().version = -1  # look the history up again


def _drop_accumulator(tensor: Tensor) -> None:
    state = tensor._autograd
    if state is not None:
        state.accumulate = None
        state.hooks = None


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
    state.version = version
    edge = gradient_edge(info.base)
    if edge is None:
        state.node = None
        return
    previous, inference = modes.grad, modes.inference
    modes.grad, modes.inference = True, False
    try:
        again = follow(info.base, info.path)
    finally:
        modes.grad, modes.inference = previous, inference
    made = again._autograd
    if made is not None:
        state.node, state.index, state.requires_grad = made.node, made.index, False


seams.history_of_view.install(history_of_view)


def view_edge(tensor: Tensor) -> Edge | None:
    """The edge of a view's base."""
    return gradient_edge(tensor._view.base) if tensor._view is not None else None
