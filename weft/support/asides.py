"""Code that Python runs in between on a thread, on behalf of nobody whose work is under way: finalizers, callbacks of
weak references and of the garbage collector, signal handlers. It steps aside: it runs with the user's modes, and as if
nothing were recorded.

Each module that keeps such state of a thread says how it is put aside (`put_aside_by`). Collections of garbage step
aside by themselves, whoever records; what else comes in between is known by its frames (guards/asides.py).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

Block = Callable[[], AbstractContextManager[Any]]
B = TypeVar("B", bound=Block)
_BLOCKS: list[Block] = []
_QUESTIONS: list[Callable[[], bool]] = []


def put_aside_by(block: B) -> B:
    """Declare a block within which some state of this thread is as if nothing were under way."""
    _BLOCKS.append(block)
    return block


def is_under_way_if(question: Callable[[], bool]) -> Callable[[], bool]:
    """Declare a quick question: whether there may be something to put aside on this thread."""
    _QUESTIONS.append(question)
    return question


@contextmanager
def aside() -> Iterator[None]:
    """Within the block this thread records nothing, and its modes are the user's."""
    with ExitStack() as stack:
        for block in _BLOCKS:
            stack.enter_context(block())
        yield


class _Collections(threading.local):
    """The block of the collection that runs on this thread. (Collections do not nest.)"""

    block: ExitStack | None = None


_collections = _Collections()


def _begin(phase: str, info: dict[str, Any]) -> None:
    if phase != "start":
        return
    if gc.callbacks[-1] is not _end:  # others have put theirs behind it
        gc.callbacks.remove(_end)
        gc.callbacks.append(_end)
    if _collections.block is None and any([question() for question in _QUESTIONS]):
        _collections.block = ExitStack()
        _collections.block.enter_context(aside())


def _end(phase: str, info: dict[str, Any]) -> None:
    block = _collections.block
    if phase == "stop" and block is not None:
        _collections.block = None
        block.close()


gc.callbacks.insert(0, _begin)  # before those of others
gc.callbacks.append(_end)
