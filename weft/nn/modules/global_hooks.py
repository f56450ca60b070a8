"""Hooks on every module: tables of this process, and their registration.
They run before a module's own hooks of the same kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from weft.autograd.node import RemovableHandle
from weft.support import registry
from weft.support.errors import StateError

Hook = Callable[..., Any]
forward_pre: OrderedDict[int, Hook] = OrderedDict()
forward: OrderedDict[int, Hook] = OrderedDict()
forward_with_kwargs: OrderedDict[int, bool] = OrderedDict()
forward_always_called: OrderedDict[int, bool] = OrderedDict()
backward: OrderedDict[int, Hook] = OrderedDict()
backward_pre: OrderedDict[int, Hook] = OrderedDict()
plain_backward: OrderedDict[int, Hook] = OrderedDict()
parameter_registration: OrderedDict[int, Hook] = OrderedDict()
buffer_registration: OrderedDict[int, Hook] = OrderedDict()
module_registration: OrderedDict[int, Hook] = OrderedDict()
around_calls: OrderedDict[int, bool] = OrderedDict()  # the hooks that a call of a module must look at, of any kind
registry.hook_tables.append(around_calls)


def _add(hooks: OrderedDict[int, Hook], hook: Hook, *marks: OrderedDict[int, bool]) -> RemovableHandle:
    handle = RemovableHandle(hooks, marks)
    hooks[handle.id] = hook
    for table in marks:
        table[handle.id] = True
    return handle


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module; a returned value replaces the arguments."""
    return _add(forward_pre, hook, around_calls)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module; a returned value replaces the output."""
    marks = [
        around_calls, *([forward_with_kwargs] if with_kwargs else []), *([forward_always_called] if always_call else [])
    ]
    return _add(forward, hook, *marks)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` in the backward of every module;
    a returned value replaces grad_input."""
    if plain_backward:
        raise StateError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
            "Please use only one of them."
        )
    return _add(backward, hook, around_calls)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the backward of every module; a returned value replaces grad_output."""
    return _add(backward_pre, hook, around_calls)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` with the gradients of the last operator of every module.
    Prefer the full one."""
    if backward:
        raise StateError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
            "Please use only one of them."
        )
    return _add(plain_backward, hook, around_calls)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever a parameter is registered;
    a returned value is registered instead."""
    return _add(parameter_registration, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a buffer is registered; a returned value is registered instead."""
    return _add(buffer_registration, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever a submodule is registered;
    a returned value is registered instead."""
    return _add(module_registration, hook)


def registered(hooks: OrderedDict[int, Hook], module: Any, name: str, value: Any) -> Any:
    """What is registered in place of `value`."""
    for hook in list(hooks.values()):
        replaced = hook(module, name, value)
        value = value if replaced is None else replaced
    return value
