"""Blocks within which tensors that modules compute are kept (nn.utils.parametrize.cached)."""

from __future__ import annotations

from typing import Any

from weft.tensor.modes import modes

values: dict[tuple[int, str], Any] = {}  # by module and name, while a block is open
_open: list[Any] = []  # the capture within which each block began, or None


def begin() -> None:
    """Open a block."""
    _open.append(modes.capture)


def end() -> None:
    """Close the innermost block; with the outermost one the values go."""
    _open.pop()
    if not _open:
        values.clear()


def is_open() -> bool:
    """Whether values are kept."""
    return bool(_open)


def blocks_around() -> int:
    """How many blocks are open that began outside of the function that is captured: a program is one for so many."""
    return sum([block is None or block is not modes.capture for block in _open])
