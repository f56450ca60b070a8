"""Variable: the older name of a Tensor. `Variable(t, requires_grad=True)` makes a leaf over t's bytes;
isinstance(t, Variable) holds for tensors."""

from __future__ import annotations

from typing import Any

from weft.autograd.engine import queue_callback
from weft.support.errors import ArgumentError
from weft.tensor.tensor import Tensor


class _VariableMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Tensor:
        if not isinstance(data, Tensor):
            raise ArgumentError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)


class _Engine:
    """The engine, as far as programs reach for it."""

    queue_callback = staticmethod(queue_callback)


class Variable(metaclass=_VariableMeta):
    """A Tensor, by the name that programs from before PyTorch 0.4 use."""

    _execution_engine = _Engine()
