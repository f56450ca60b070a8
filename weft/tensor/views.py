"""What a view remembers: its base and the view operators from there, whatever back end made it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.ops.op import Op
from weft.tensor.history import ViewOf
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor


def view_of(source: Tensor, storage: Any, payload: Any, op: Op, rest: tuple[Any, ...], index: int) -> Tensor:
    """A tensor around `payload` that knows how it is seen: result `index` of op(source, *rest), in source's storage."""
    out = recorded_view(source, storage, payload, op, rest, index)
    if modes.inference or not modes.grad:
        out._view.creation = "inference" if modes.inference else "no_grad"  # type: ignore[union-attr]
        if storage.version:
            out._state().version = storage.version  # it has no history, whatever was written before
    return out


def recorded_view(source: Tensor, storage: Any, payload: Any, op: Op, rest: tuple[Any, ...], index: int) -> Tensor:
    """view_of() where histories are recorded."""
    out, view, parent = new(Tensor), new(ViewOf), source._view
    out._data, out._storage, out._autograd, out._view = payload, storage, None, view
    if parent is None:
        view.base, view.path, view.array = source, ((op, rest, index),), source._data
        view.creation = "multi" if op.schema.returns_list else "default"
    else:
        view.base, view.path, view.array = parent.base, (*parent.path, (op, rest, index)), parent.array
        view.creation = "multi" if parent.creation == "default" and op.schema.returns_list else parent.creation
    return out


def views_of(source: Tensor, storage: Any, payloads: Iterable[Any], op: Op, rest: tuple[Any, ...]) -> Any:
    """What op(source, *rest) gives, around these payloads."""
    views = tuple([view_of(source, storage, payload, op, rest, i) for i, payload in enumerate(payloads)])
    return views if op.schema.gives_several else views[0]


new = object.__new__


def forget_base(results: Any) -> Any:
    """The results of a rule as tensors that are views of nothing: its last step may have been a view of a temporary."""
    for t in results if isinstance(results, (tuple, list)) else (results,):
        if isinstance(t, Tensor):
            t._view = None
    return results
