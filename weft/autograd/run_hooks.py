"""Hooks while a backward call runs: in which order, and what they may return."""

from __future__ import annotations

from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.node import Node, hooks_of
from weft.support.errors import StateError
from weft.support.refusals import call_user
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor


def run_tensor_hooks(node: Node, grads: list[Any], walk: Any) -> None:
    """Hooks of the tensors that a node made, which also hear (by a None) that nothing flows into them; then retained
    gradients are kept. Changes `grads`. walk: the backward call."""
    if node.stands_for_many:
        return _run_heard_hooks(node, grads, walk)
    if node.tensor_hooks and modes.capture is not None:
        modes.capture.with_hooks(node, grads, _call_tensor_hooks)
    elif node.tensor_hooks:
        _call_tensor_hooks(node, grads)
    if node.retain_hooks:
        for index, retain in list(node.retain_hooks.items()):
            if grads[index] is not None:
                retain(grads[index])


def is_heard(node: Node, index: int, gradient: Any, walk: Any) -> bool:
    """Whether hooks on a result of a node hear its gradient, or that there is none."""
    if not node.stands_for_many:
        return True
    return gradient is not None and (walk.needed is None or node.leads(index, walk))


def _run_heard_hooks(node: Node, grads: list[Any], walk: Any) -> None:
    tables = [(index, list(registered.values())) for index, registered in (node.tensor_hooks or {}).items()]
    for index, hooks in tables:  # (those that one of them adds or removes are another call's)
        for hook in hooks if is_heard(node, index, grads[index], walk) else ():
            grads[index] = call_tensor_hook(hook, grads[index])
    for index, retain in list((node.retain_hooks or {}).items()):
        if is_heard(node, index, grads[index], walk):
            retain(grads[index])


def _call_tensor_hooks(node: Node, grads: list[Any]) -> None:
    registered = (node.tensor_hooks or {}).items()
    for index, hooks in [(index, hooks_of(table, call_tensor_hook)) for index, table in registered]:
        for hook in hooks:  # (those that one of them adds or removes are another call's)
            if index < len(grads):
                grads[index] = call_tensor_hook(hook, grads[index])


def call_tensor_hook(hook: Any, gradient: Any) -> Any:
    """The gradient, or what a tensor's hook puts in its place."""
    result = call_user(hook, gradient)
    return _replaced(result, gradient, hook)


def _replaced(result: Any, gradient: Any, hook: Any) -> Any:
    if result is None:
        return gradient
    if gradient is None:
        raise StateError("can't replace a None gradient with a non-None value")
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if len(result.dims) != len(gradient.dims) or result.shape != gradient.shape:
        raise StateError(f"hook '{_hook_name(hook)}' has changed the size of value")
    if result.dtype is not gradient.dtype:
        raise StateError(
            f"hook '{_hook_name(hook)}' has changed the type of value (was {gradient.dtype} got {result.dtype})"
        )
    return result


def _hook_name(hook: Any) -> str:
    return getattr(hook, "__name__", None) or type(hook).__name__


def run_pre_hooks(node: Node, grads: list[Any]) -> None:
    """Hooks of a node before it runs; what they return takes the place of its gradients. Changes `grads`."""
    if modes.capture is not None:
        modes.capture.with_hooks(node, grads, _call_pre_hooks)
    else:
        _call_pre_hooks(node, grads)


def _call_pre_hooks(node: Node, grads: list[Any]) -> None:
    current = tuple(grads)
    for hook in hooks_of(node.pre_hooks or {}, call_pre_hook):
        current = call_pre_hook(hook, current)
    grads[:] = current


def call_pre_hook(hook: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """A node's incoming gradients, or what a hook puts in their place."""
    result = call_user(hook, grads)
    return grads if result is None else _replaced_all(hook, result, grads)


def _replaced_all(hook: Any, result: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a hook on a node returned in place of its gradients: as many, of the same sizes and dtypes;
    a None leaves one as it is not there."""
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    if len(result) != len(before):
        raise StateError(
            f"hook '{_hook_name(hook)}' has returned an incorrect number of values (got {len(result)}, "
            f"but expected {len(before)})"
        )
    for new, old in zip(result, before, strict=True):
        if new is not None:
            if old is None:
                raise StateError("can't replace a None gradient with a non-None value")
            _replaced(new, old, hook)
    return result


def run_post_hooks(node: Node, out: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Hooks of a node after it ran; what they return takes the place of what it gave."""
    assert node.post_hooks is not None
    for hook in hooks_of(node.post_hooks, call_post_hook):
        out = call_post_hook(hook, out, grads)
    return out


def call_post_hook(hook: Any, out: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a node gave for its edges, or what a hook puts in its place."""
    result = call_user(hook, out, grads)
    return out if result is None else _replaced_all(hook, result, out)


def run_on_nothing(node: Node, grads: list[Any]) -> tuple[Any, ...]:
    """What is left of a node's step where nothing flows into it: hooks behind it hear that."""
    if isinstance(node, AccumulateGrad):
        node.apply((None,), ())
    out = (None,) * len(node.edges)
    return run_post_hooks(node, out, tuple(grads)) if node.post_hooks else out
