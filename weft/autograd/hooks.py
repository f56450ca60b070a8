"""Hooks on tensors: registration of tensor hooks, post-accumulate hooks, retain_grad, and multi-grad hooks."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from weft.autograd.accumulate import accumulator_of
from weft.autograd.engine import current_walk
from weft.autograd.node import Edge, RemovableHandle, add_hook, hooks_of
from weft.autograd.record import arrival_edge
from weft.ops.packet import aten
from weft.support import seams
from weft.support.errors import StateError, ValueProblem
from weft.support.refusals import call_user
from weft.tensor.modes import modes, refuse_in_trace
from weft.tensor.tensor import Tensor


def register(tensor: Tensor, hook: Any, kind: str) -> Any:
    """Register a hook of kind "tensor", "post_accumulate" or "retain" on a tensor."""
    if modes.capture is not None:
        modes.capture.outside.note_hooks(tensor)
    return _KINDS[kind](tensor, hook)


def _tensor_hook(tensor: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    if not tensor.requires_grad:
        raise StateError("cannot register a hook on a tensor that doesn't require gradient")
    edge = arrival_edge(tensor)
    assert edge is not None
    node, index = edge
    if node.tensor_hooks is None:
        node.tensor_hooks = {}
    hooks = node.tensor_hooks.setdefault(index, OrderedDict())
    if tensor.is_leaf:
        tensor._state().hooks = hooks
    return add_hook(hooks, hook)


def _post_accumulate_hook(tensor: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    if not tensor.requires_grad:
        raise StateError("cannot register a hook on a tensor that doesn't require gradient")
    if not tensor.is_leaf:
        raise StateError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    state = tensor._state()
    if state.post_accumulate is None:
        state.post_accumulate = OrderedDict()
    accumulator_of(tensor).keep_variable()
    return add_hook(state.post_accumulate, hook)


NO_HOOKS: tuple[tuple[int, ...], ...] = ((),) * 4


def hooks_on(tensor: Tensor) -> tuple[tuple[int, ...], ...]:
    """The hooks of a leaf and of its AccumulateGrad node, by the numbers of their handles."""
    return tuple(tuple(t) if t else () for t in _tables(tensor))


def is_heard(tensor: Tensor) -> bool:
    """Whether a tensor with a history has hooks, which change a gradient that is asked for by it."""
    node, state = tensor._node, tensor._autograd
    return node is not None and state is not None and node.is_heard(state.index)


def does_more(tensor: Tensor) -> bool:
    """Whether a gradient that is asked for by a tensor with a history is not just given: hooks change it, or the tensor
    keeps it."""
    return is_heard(tensor) or (tensor.retains_grad and not tensor.is_leaf)


def hooks_of_tensor(tensor: Tensor) -> list[Any]:
    """The hooks of a leaf and of its AccumulateGrad node."""
    return [hook for table in _tables(tensor) for hook in (table or {}).values()]


def share_hooks(tensor: Tensor, leaf: Tensor) -> None:
    """Let a leaf have the hooks of another one, those that it had and will have."""
    state, other = tensor._state(), leaf._state()
    state.hooks, state.post_accumulate = other.hooks, other.post_accumulate
    node = accumulator_of(tensor)
    if other.accumulate is not None:
        node.pre_hooks, node.post_hooks = other.accumulate.pre_hooks, other.accumulate.post_hooks


def keep_hooks(tensor: Tensor, kept: tuple[tuple[int, ...], ...]) -> None:
    """Remove the hooks of a leaf that `hooks_on` did not list then."""
    for table, numbers in zip(_tables(tensor), kept, strict=True):
        for number in list(table or ()):
            if number not in numbers:
                del table[number]


def hooks_at(edge: Edge) -> tuple[int, ...]:
    """The hooks of a tensor that is no leaf, which a node gave, by the numbers of their handles."""
    return tuple((edge[0].tensor_hooks or {}).get(edge[1], ()))


def keep_hooks_at(edge: Edge, kept: tuple[int, ...]) -> None:
    """Remove those that `hooks_at` did not list then."""
    for number in hooks_at(edge):
        if number not in kept:
            del edge[0].tensor_hooks[edge[1]][number]


def _tables(tensor: Tensor) -> tuple[Any, ...]:
    state = tensor._autograd
    if state is None:
        return (None,) * 4
    node = state.accumulate
    return (state.hooks, state.post_accumulate, node and node.pre_hooks, node and node.post_hooks)


def _retain(tensor: Tensor, _: Any) -> None:
    if modes.capture is not None:
        modes.capture.outside.note_asked(tensor)
    if not tensor.requires_grad:
        raise StateError("can't retain_grad on Tensor that has requires_grad=False")
    if tensor.is_leaf or tensor.retains_grad:
        return
    edge = arrival_edge(tensor)
    assert edge is not None
    node, index = edge
    state = tensor._state()
    state.retains_grad = True
    is_inside = _is_of_a_level(tensor)
    # The node must not keep the tensor alive; what has its state has its gradient (a subclass's object over its bytes).
    reference = weakref.ref(state)

    def keep(gradient: Tensor) -> None:
        kept = reference()
        if kept is not None:
            kept.grad = _added(kept.grad, gradient, is_inside)

    if node.retain_hooks is None:
        node.retain_hooks = {}
    node.retain_hooks[index] = keep


def _added(kept: Tensor | None, gradient: Tensor, is_inside: bool) -> Tensor | None:
    """What a tensor retains then; gradients for a batch of seeds are none of a tensor that is outside of the batch."""
    if _is_of_a_level(gradient) and not is_inside:
        return kept
    return aten.clone(gradient) if kept is None else kept + gradient


def _is_of_a_level(tensor: Tensor) -> bool:
    """Whether a tensor is one of a transform that runs, and means nothing after it."""
    return hasattr(tensor._data, "level")


def retain_no_more(tensor: Tensor) -> None:
    """Let a tensor that is no leaf keep no gradients, as before retain_grad()."""
    state, edge = tensor._autograd, arrival_edge(tensor) if tensor.retains_grad else None
    if state is not None and edge is not None:
        state.retains_grad = False
        (edge[0].retain_hooks or {}).pop(edge[1], None)


_KINDS: dict[str, Callable[[Tensor, Any], Any]] = {
    "tensor": _tensor_hook, "post_accumulate": _post_accumulate_hook, "retain": _retain
}
seams.register_tensor_hook.install(register)


class _MultiHandle:
    """Removes the hooks of register_multi_grad_hook."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Unregister all of them."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all") -> _MultiHandle:
    """Call `fn(grads)` once all gradients of `tensors` were computed in a backward ("all"), or `fn(grad)` with
    the first ("any")."""
    refuse_in_trace("a hook on several gradients is no part of a trace; use Tensor.register_hook")
    if mode not in ("all", "any"):
        raise ValueProblem(f"Expects mode to be one of ('all', 'any') but got {mode}")
    chosen = _FirstHook(fn) if mode == "any" else _AllHook(tensors, fn)
    return _MultiHandle(tuple(_tensor_hook(t, functools.partial(chosen, i)) for i, t in enumerate(tensors)))


class _AllHook:
    """Calls once per backward, when all gradients that this backward computes are there; the others are None."""

    def __init__(self, tensors: Sequence[Tensor], fn: Callable[[list[Any]], None]) -> None:
        self.edges = [edge for edge in map(arrival_edge, tensors) if edge is not None]
        self.count, self.fn = len(tensors), fn
        self.lock = threading.Lock()

    def __call__(self, i: int, gradient: Tensor) -> None:
        walk = current_walk()
        assert walk is not None, "a tensor hook runs within a backward call"
        with self.lock:
            note = walk.notes.get(self)
            if note is None:
                note = walk.notes[self] = [sum(map(walk.reaches, self.edges)), [None] * self.count]
            note[0] -= 1
            note[1][i] = gradient
            is_complete = note[0] == 0
        if is_complete:
            _tell(self.fn, note[1])


class _FirstHook:
    """Calls once per backward, with the first gradient."""

    def __init__(self, fn: Callable[[Tensor], None]) -> None:
        self.fn = fn

    def __call__(self, i: int, gradient: Tensor) -> None:
        walk = current_walk()
        assert walk is not None, "a tensor hook runs within a backward call"
        if walk.notes.setdefault(self, i) == i:
            walk.notes[self] = -1
            _tell(self.fn, gradient)


def _tell(fn: Callable[..., None], what: Any) -> None:
    for hook in hooks_of({-1: fn}, call_multi_hook, None):
        call_multi_hook(hook, what)


def call_multi_hook(hook: Callable[..., None], what: Any) -> None:
    """Tell a hook of several tensors their gradients, or the first of them."""
    call_user(hook, what)
