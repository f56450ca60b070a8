"""Arguments and results of traced calls: tensors, and tuples, lists and dicts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.jit.script.frontend.values import SugaredValue, TupleValue
from weft.jit.tracing.values import TracedNumber, TracedTensor
from weft.tensor.tensor import Tensor


def unwrapped(held: Any) -> Any:
    """The value with traced tensors and numbers as what they are."""
    if isinstance(held, TracedTensor):
        return held.plain
    if isinstance(held, TracedNumber):
        return held.plain
    if type(held) in (tuple, list):
        return type(held)(unwrapped(v) for v in held)
    if isinstance(held, tuple) and hasattr(held, "_make"):
        return held._make(map(unwrapped, held))
    if type(held) is slice:
        return slice(unwrapped(held.start), unwrapped(held.stop), unwrapped(held.step))
    return {k: unwrapped(v) for k, v in held.items()} if type(held) is dict else held


def like(held: Any, parts: list[Any]) -> Any:
    """A tuple, named tuple or list like another."""
    kind: Any = type(held)
    return kind(parts) if kind in (tuple, list) else kind._make(parts)


def tuple_like(held: tuple[Any, ...], parts: Sequence[SugaredValue]) -> TupleValue:
    """A tuple of the graph with the name and fields of another."""
    fields: tuple[str, ...] = getattr(type(held), "_fields", ())
    return TupleValue(parts, type(held).__name__ if fields else "", fields)


def holds_tensor(value: Any) -> bool:
    """Whether a result has something that the trace follows."""
    return (
        isinstance(value, Tensor)
        or value is None
        or (isinstance(value, (tuple, list)) and any(map(holds_tensor, value)))
        or (isinstance(value, dict) and any(map(holds_tensor, value.values())))
    )


def is_plain_input(value: Any) -> bool:
    """Whether an argument is a tensor, None, or a tuple of them."""
    return value is None or isinstance(value, Tensor) or (isinstance(value, tuple) and all(map(is_plain_input, value)))


def holds_traced(value: Any) -> bool:
    """Whether there is something of a trace in a value."""
    if type(value) in (tuple, list):
        return any(map(holds_traced, value))
    if type(value) is dict:
        return any(map(holds_traced, value.values()))
    return isinstance(value, (TracedTensor, TracedNumber))
