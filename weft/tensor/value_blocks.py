"""Blocks within which tensors that modules compute are kept (nn.utils.parametrize.cached)."""

from __future__ import annotations

from typing import Any, ClassVar

from weft.tensor.modes import modes

values: dict[tuple[int, str], Any] = {}  # by module and name, while a block is open
_open: list[Any] = []  # the capture within which each block began, or None


class ValueBlocks:
    """How many blocks are open: a number that scripts know."""

    depth: ClassVar[int] = 0


def begin() -> None:
    """Open a block."""
    _open.append(modes.capture)
    ValueBlocks.depth = len(_open)


def end() -> None:
    """Close the innermost block; with the outermost one the values go."""
    _open.pop()
    ValueBlocks.depth = len(_open)
    if not _open:
        values.clear()


def blocks_around() -> int:
    """How many blocks are open that began outside of the function that is captured: a program is one for so many."""
    return sum([block is None or block is not modes.capture for block in _open])
