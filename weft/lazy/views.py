"""Views of lazy tensors: what a view operator adds to the path of its source, found once for sources that lie alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft.lazy.config as config
from weft.autograd.record import recording
from weft.functionalizer.operators import SELECT, UNBIND
from weft.functionalizer.views import show
from weft.functionalizer.writes import Path
from weft.lazy.inline.writer import MISSED
from weft.lazy.payload import LazyPayload
from weft.ops.geometry import Geometry
from weft.ops.op import Op
from weft.support import limits
from weft.support.memo import Memo
from weft.tensor.modes import modes
from weft.tensor.views import recorded_view
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType
from weft.types.unbacked import has_symbols

Shown = tuple[Path, TensorType, Geometry]  # the step behind the source's path, and what is seen there
_found: Memo[Any, Sequence[Shown] | None] = Memo(limits.LAZY_VIEWS)
_PLAIN = frozenset((int, bool, DType, type(None)))


def shown(op: Op, source: LazyPayload, rest: tuple[Any, ...]) -> list[Shown] | None:
    """Path, type and geometry of each result of a view operator; None where only a copy can show it. Raises what the
    operator's geometry does.
    """
    assert op.view is not None
    if op.view.is_free:  # its path begins at the storage
        return _none_or_list(show(op, source, rest).results)
    path, storage = source.path, source.storage
    key = (op, source.type, source.geometry() if path or not storage.is_row_major else None, storage.order, rest)
    try:
        shown_steps = _found[key]
    except (KeyError, TypeError):
        shown_steps = show(op, source, rest).results
        if shown_steps is not None:
            shown_steps = [(_own(steps[len(path) :]), kind, geometry) for steps, kind, geometry in shown_steps]
        if is_plain(rest) and not storage.type.is_symbolic:
            _found[key] = shown_steps
    return None if shown_steps is None else [(path + steps, kind, geometry) for steps, kind, geometry in shown_steps]


def _own(steps: Path) -> Path:
    """The steps of one of several views, so that it needs none of the others: of all rows, one is picked."""
    return tuple([(SELECT, (*rest, i), 0) if op is UNBIND else (op, rest, i) for op, rest, i in steps])


def short_view(op: Op, args: tuple[Any, ...]) -> Any:
    """A view with its history; MISSED where it is one of several, or a copy, or its sizes are to be found."""
    source, rest = args[0], args[1:]
    data = source._data
    if (
        config.forced or op.schema.gives_several or not modes.grad or type(data) is not LazyPayload
        or data.type.is_symbolic or data.storage.type.is_symbolic or any([has_symbols(a) for a in rest])
    ):
        return MISSED
    try:
        results = shown(op, data, rest)
    except Exception:  # the walk has the words
        return MISSED
    if results is None or len(results) != 1:
        return MISSED
    path, kind, geometry = results[0]
    storage = source.storage() if source._storage is None else source._storage
    out = recorded_view(source, storage, LazyPayload(data.storage, path, kind, geometry), op, rest, 0)
    if source._autograd is not None or source._view is not None:
        recording(op)(args, out)
    return out


def _none_or_list(steps: Any) -> list[Shown] | None:
    return None if steps is None else list(steps)


def is_plain(value: Any) -> bool:
    """Whether these are numbers and dtypes alone, no tensors that pick."""
    return type(value) in _PLAIN or (type(value) is tuple and all(map(is_plain, value)))
