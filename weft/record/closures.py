"""Hooks that a function makes and that hold tensors of its call: a program calls the same code with the tensors of each
of its own calls in their cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any

from weft.support.errors import VersionError
from weft.tensor.tensor import Tensor

Caller = Callable[..., Any]


def without_tensors(hook: Any, is_value: Callable[[Any], bool]) -> tuple[Any, list[int], list[Tensor]]:
    """The hook with nothing in the cells where tensors of the call are, which cells these are, and the tensors."""
    if not isinstance(hook, FunctionType) or not hook.__closure__:
        return hook, [], []
    places = [i for i, cell in enumerate(hook.__closure__) if _is_full(cell) and is_value(cell.cell_contents)]
    held = [hook.__closure__[i].cell_contents for i in places]
    return _with_cells(hook, places, [None] * len(held)) if held else hook, places, held


def _is_full(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  raises if there is nothing
    except ValueError:
        return False
    return True


def _with_cells(hook: FunctionType, places: Sequence[int], held: Sequence[Any]) -> FunctionType:
    cells = list(hook.__closure__ or ())
    for i, value in zip(places, held, strict=True):
        cells[i] = CellType(value)
    closed = FunctionType(hook.__code__, hook.__globals__, hook.__name__, hook.__defaults__, tuple(cells))
    closed.__kwdefaults__ = hook.__kwdefaults__
    return closed


def call_closed(caller: Caller, places: Sequence[int], hook: FunctionType, *operands: Any) -> Any:
    """Call a hook with tensors in its cells, the last of what is given. Raises VersionError if it writes one of them:
    what follows may have read that already."""
    *arguments, held = operands
    versions = [tensor._version for tensor in held]
    returned = caller(_with_cells(hook, places, held), *arguments)
    if [tensor._version for tensor in held] != versions:
        raise VersionError(f"{hook.__name__}: a hook in a compiled function writes a tensor that it holds")
    return returned
