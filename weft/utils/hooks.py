"""weft.utils.hooks: what removes hooks, and the hooks around the backward of one call of a Module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from weft.autograd.node import RemovableHandle
from weft.nn.modules.backward_hooks import BackwardWatch
from weft.support.warn import warn
from weft.tensor.tensor import Tensor

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]
F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__torch_unserializable__"


class BackwardHook(BackwardWatch):
    """Full backward hooks of one call of a module: the arguments go through `setup_input_hook`, the results through
    `setup_output_hook`."""

    def __init__(self, module: Any, user_hooks: Iterable[Any], user_pre_hooks: Iterable[Any]) -> None:
        super().__init__(module, (dict(enumerate(user_hooks)),), (dict(enumerate(user_pre_hooks)),))

    setup_input_hook = BackwardWatch.inputs
    setup_output_hook = BackwardWatch.outputs


def unserializable_hook(f: F) -> F:
    """Mark a hook of a tensor as one that need not be saved with it."""
    setattr(f, _MARK, True)
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of the tensor's hooks that are not marked, since they are not saved with it."""
    state = tensor._autograd
    for hook in ((state and state.hooks) or {}).values():
        if not hasattr(hook, _MARK):
            warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can decorate the "
                "function with weft.utils.hooks.unserializable_hook to suppress this warning"
            )
