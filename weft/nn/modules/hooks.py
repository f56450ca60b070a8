"""The hooks of a Module: registration, and a call with hooks around it."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.autograd.node import RemovableHandle
from weft.autograd.record import gradient_edge
from weft.nn.modules import global_hooks as everywhere
from weft.nn.modules.backward_hooks import BackwardWatch
from weft.support.errors import ArgumentError, StateError
from weft.support.refusals import call_user
from weft.support.warn import warn
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.nn.modules.module import Module

Hook = Callable[..., Any]
HOOK_TABLES = (
    "_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called", "_plain_backward_hooks",
)


def make_tables(fields: dict[str, Any]) -> None:
    """Empty tables for every kind of hook that has none yet."""
    for name in HOOK_TABLES:
        fields.setdefault(name, OrderedDict())


def call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """forward, with the hooks around it in PyTorch's order."""
    called: set[int] = set()
    result: Any = None
    try:
        args, kwargs = _before(module, args, kwargs)
        watches = module._backward_hooks or module._backward_pre_hooks or everywhere.backward or everywhere.backward_pre
        watch = BackwardWatch(module) if watches else None
        if watch is not None:
            args = watch.inputs(args)
        result = module.forward(*args, **kwargs)
        for key, hook in [*everywhere.forward.items(), *module._forward_hooks.items()]:
            called.add(key)
            changed = _call_forward_hook(module, key, hook, args, kwargs, result)
            result = result if changed is None else changed
    except Exception:
        _call_always(module, called, args, kwargs, result)
        raise
    result = watch.outputs(result) if watch is not None else result
    if module._plain_backward_hooks or everywhere.plain_backward:
        _hook_last_node(module, args, result)
    return result


def _before(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for key, hook in [*everywhere.forward_pre.items(), *module._forward_pre_hooks.items()]:
        if key not in module._forward_pre_hooks_with_kwargs:
            replaced = call_user(hook, module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
            continue
        changed = call_user(hook, module, args, kwargs)
        if changed is None:
            continue
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise StateError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
            )
        args, kwargs = changed
    return args, kwargs


def _call_forward_hook(module: Module, key: int, hook: Hook, args: Any, kwargs: Any, result: Any) -> Any:
    wants_kwargs = key in module._forward_hooks_with_kwargs or key in everywhere.forward_with_kwargs
    return call_user(hook, module, args, kwargs, result) if wants_kwargs else call_user(hook, module, args, result)


def _call_always(module: Module, called: set[int], args: Any, kwargs: Any, result: Any) -> None:
    """After an error, the hooks with always_call that have not been called see what there is of a result.
    Their own errors are only told."""
    for key, hook in [*everywhere.forward.items(), *module._forward_hooks.items()]:
        if key in called or not (key in module._forward_hooks_always_called or key in everywhere.forward_always_called):
            continue
        try:
            changed = _call_forward_hook(module, key, hook, args, kwargs, result)
            result = result if changed is None else changed
        except Exception as error:
            warn(
                "module forward hook with ``always_call=True`` raised an exception that was silenced as another error "
                "was raised in forward: "
                + str(error),
            )


_MISSING = (
    "Using non-full backward hooks on a Module that does not {0} is deprecated and will be removed in future versions. "
    "This hook will be missing some of the {1}. Please use register_full_backward_hook to get the documented behavior."
)


def _warn_of_gaps(args: Any, result: Any) -> None:
    """Say what a plain backward hook will not see."""
    if not (isinstance(result, Tensor) or (isinstance(result, tuple) and all(isinstance(r, Tensor) for r in result))):
        warn(
            _MISSING.format("return a single Tensor or a tuple of Tensors", "grad_output"), FutureWarning
        )
    elif not all(isinstance(a, Tensor) for a in args):
        warn(
            _MISSING.format("take as input a single Tensor or a tuple of Tensors", "grad_input"), FutureWarning,
        )
    else:
        _warn_of_nodes(args, result if isinstance(result, tuple) else (result,))


def _warn_of_nodes(args: Any, results: tuple[Tensor, ...]) -> None:
    """The same for modules of several nodes."""
    node_ids = {id(r.grad_fn) for r in results if r.grad_fn is not None}
    if len(node_ids) > 1:
        warn(
            "Using a non-full backward hook when outputs are generated by different autograd Nodes is deprecated and "
            "will be removed in future versions. "
            "This hook will be missing some grad_output. Please use register_full_backward_hook to get the "
            "documented behavior.",
            FutureWarning,
        )
        return
    last = next((r.grad_fn for r in results if r.grad_fn is not None), None)
    edges = [gradient_edge(a) for a in args if a.requires_grad]
    reached = set() if last is None else {id(n) for n, _ in last.next_functions}
    if last is not None and any(e is not None and id(e[0]) not in reached for e in edges):
        warn(
            "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and will "
            "be removed in future versions. This "
            "hook will be missing some grad_input. Please use register_full_backward_hook to get the "
            "documented behavior.",
            FutureWarning,
        )


def _hook_last_node(module: Module, args: Any, result: Any) -> None:
    """register_backward_hook's hooks see the gradients of the last operator in the module, whatever it is."""
    if modes.capture is None:
        _warn_of_gaps(args, result)
    while isinstance(result, (tuple, list, dict)) and result:
        result = next(iter(result.values())) if isinstance(result, dict) else result[0]
    node = result.grad_fn if isinstance(result, Tensor) else None
    if node is not None:
        for hook in [*everywhere.plain_backward.values(), *module._plain_backward_hooks.values()]:
            node.register_hook(lambda grad_inputs, grad_outputs, hook=hook: hook(module, grad_inputs, grad_outputs))


class Hooked:
    """Registration of hooks. Every `register_...` returns a handle with remove()."""

    if TYPE_CHECKING:
        _forward_pre_hooks: OrderedDict[int, Hook]
        _forward_hooks: OrderedDict[int, Hook]
        _backward_hooks: OrderedDict[int, Hook]
        _backward_pre_hooks: OrderedDict[int, Hook]
        _plain_backward_hooks: OrderedDict[int, Hook]
        _state_dict_hooks: OrderedDict[int, Hook]
        _state_dict_pre_hooks: OrderedDict[int, Hook]
        _load_state_dict_pre_hooks: OrderedDict[int, Hook]
        _load_state_dict_post_hooks: OrderedDict[int, Hook]
        _forward_hooks_with_kwargs: OrderedDict[int, bool]
        _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
        _forward_hooks_always_called: OrderedDict[int, bool]

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; a returned value replaces the arguments."""
        handle = _add(self._forward_pre_hooks, hook, prepend, self._forward_pre_hooks_with_kwargs)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; a returned value replaces the output.
        always_call: also after an error, with None."""
        handle = _add(
            self._forward_hooks, hook, prepend, self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        )
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the module's inputs are known;
        a returned value replaces grad_input."""
        if self._plain_backward_hooks:
            raise StateError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        return _add(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the gradients flow into the module;
        a returned value replaces grad_output."""
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` with the gradients of the last operator of forward.
        Prefer register_full_backward_hook."""
        if self._backward_hooks:
            raise StateError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        return _add(self._plain_backward_hooks, hook, False)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before a state_dict is made."""
        return _add(self._state_dict_pre_hooks, hook, False)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata)` when a state_dict was made; it must return None."""
        def checked(module: Any, state: Any, prefix: str, metadata: Any) -> None:
            if hook(module, state, prefix, metadata) is not None:
                raise StateError("state_dict post-hook must return None")

        return _add(self._state_dict_hooks, checked, False)

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """As register_state_dict_post_hook, but a returned value replaces the state_dict."""
        return _add(self._state_dict_hooks, hook, False)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""
        return _add(self._load_state_dict_pre_hooks, _WithModule(hook, self), False)

    def _register_load_state_dict_pre_hook(self, hook: Hook, with_module: bool = False) -> RemovableHandle:
        """As register_load_state_dict_pre_hook, without the module unless asked for."""
        return (
            self.register_load_state_dict_pre_hook(hook) if with_module
            else _add(self._load_state_dict_pre_hooks, hook, False)
        )

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the lists in place."""
        return _add(self._load_state_dict_post_hooks, hook, False)


class _WithModule:
    """A loading hook that gets the module first; it does not keep the module alive."""

    def __init__(self, hook: Hook, module: Any) -> None:
        self.hook, self.module = hook, weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module(), *args)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook, self.module = state["hook"], weakref.ref(state["module"])


def _add(hooks: Any, hook: Hook, prepend: bool, *marks: Any) -> RemovableHandle:
    if not callable(hook):
        raise ArgumentError(f"a hook must be callable, got {type(hook).__name__}")
    handle = RemovableHandle(hooks, marks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle
