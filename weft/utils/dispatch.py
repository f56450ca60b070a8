"""weft.utils.dispatch: modes below autograd, and what wrapper subclasses with `__weft_dispatch__` need;
docs/subclasses.md shows how they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.layers.dispatch_modes import WeftDispatchMode, current_dispatch_modes
from weft.ops.packet import InplaceOverload
from weft.tensor.flattening import is_traceable_wrapper_subclass, transform_subclass
from weft.tensor.tensor import Tensor

__all__ = [
    "TorchDispatchMode", "WeftDispatchMode", "current_dispatch_modes", "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing", "transform_subclass",
]


class TorchDispatchMode(WeftDispatchMode):
    """A WeftDispatchMode under PyTorch's name: `__torch_dispatch__` is asked."""

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer an operator; NotImplemented passes it on to the classes of wrappers among its arguments."""
        return func(*args, **(kwargs or {}))

    def __weft_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.__torch_dispatch__(func, types, args, kwargs)


def return_and_correct_aliasing(func: Callable[..., Any], args: Any, kwargs: Any, out: Any) -> Any:
    """What a class's `__weft_dispatch__` should return: the first argument of an in-place operator, else `out`.

    That views share a version counter with what they view is seen to in any case.
    """
    return args[0] if isinstance(func, InplaceOverload) and isinstance(args[0], Tensor) else out
