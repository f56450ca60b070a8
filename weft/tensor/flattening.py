"""`__tensor_flatten__` and `__tensor_unflatten__`: a wrapper as its inner tensors, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.support.errors import ArgumentError
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import is_wrapper


def is_traceable_wrapper_subclass(value: Any) -> bool:
    """Whether a value is a wrapper that can be taken apart into inner tensors and put together again."""
    return is_wrapper(value) and hasattr(value, "__tensor_flatten__") and hasattr(type(value), "__tensor_unflatten__")


def parts_carry_history(kind: type) -> bool:
    """Whether a class makes its own steps of autograd between a wrapper and its inner tensors: its `__weft_parts__`
    gives those with the wrapper's history behind them, its `__tensor_unflatten__` a wrapper with theirs."""
    return hasattr(kind, "__weft_parts__")


def inner_tensors(wrapper: Tensor) -> tuple[tuple[str, ...], Any]:
    """The names of a wrapper's inner tensors, and what else it takes to put it together. Raises ArgumentError."""
    names, context = wrapper.__tensor_flatten__()  # type: ignore[attr-defined]
    for name in names:
        if not isinstance(getattr(wrapper, name), Tensor):
            raise ArgumentError(f"{type(wrapper).__name__}.__tensor_flatten__ names {name!r}, which is no Tensor")
    return tuple(names), context


def put_together(kind: type[Tensor], inner: dict[str, Tensor], context: Any, size: Any, stride: Any) -> Tensor:
    """The wrapper of these inner tensors. Raises ArgumentError when the class makes something else."""
    out = kind.__tensor_unflatten__(inner, context, size, stride)  # type: ignore[attr-defined]
    if type(out) is not kind:
        raise ArgumentError(f"{kind.__name__}.__tensor_unflatten__ gave a {type(out).__name__}")
    return out


def transform_subclass(
    wrapper: Tensor, callback: Callable[[str, Tensor], Tensor], outer_size: Any = None, outer_stride: Any = None
) -> Tensor:
    """A wrapper of the same class with `callback(name, inner)` in place of each inner tensor."""
    names, context = inner_tensors(wrapper)
    inner = {name: callback(name, getattr(wrapper, name)) for name in names}
    size = wrapper.shape if outer_size is None else outer_size
    return put_together(type(wrapper), inner, context, size, wrapper.stride() if outer_stride is None else outer_stride)
