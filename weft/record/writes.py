"""What a capture does to objects that outlive it, and takes back: version counters, histories, and what others asked to
undo.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.guards import SideEffectError
from weft.support.errors import CaptureError
from weft.support.locations import Location, user_location
from weft.tensor.dense import is_dense
from weft.tensor.tensor import Tensor


class ArgumentChange(CaptureError):
    """The function changes an argument as its caller sees it, in a way that no program repeats (its memory, its
    strides, hooks that stay, a gradient of another class), or gives a tensor from outside a history: one of several
    arguments that share memory, or a tensor of Python's state; or its backward goes on into a history from before the
    call, or computes anew what it wrote since. Such a call runs as it is written."""


def _is_older(tensor: Tensor) -> bool:
    """Whether a tensor shows memory that was there before the call."""
    data: Any = tensor._data
    return is_dense(tensor) or data.storage.param is not None or data.storage.slot is not None


class Writes:
    """The writes of a function to tensors: what each changed beside the graph."""

    def __init__(self) -> None:
        self._versions: list[tuple[Any, int]] = []  # for each write, the storage and its version before
        self._histories: list[tuple[Tensor, Any, Location | None]] = []
        self._undo: list[Callable[[], None]] = []
        self._settled: set[int] | None = None  # storages of what the function returns, while its backward is recorded

    @contextmanager
    def settled(self, returned: Sequence[Any]) -> Iterator[None]:
        """While a backward is recorded that callers run later, often or never: its hooks and rules may write neither
        what is there before the call nor what it returns. Raises SideEffectError there.
        """
        self._settled = {id(t._storage) for t in returned if isinstance(t, Tensor)}
        try:
            yield
        finally:
            self._settled = None

    def note(self, target: Tensor) -> None:
        """A tensor is written: its version rises, and a history that exists outside of the function may change."""
        if self._settled is not None and (id(target._storage) in self._settled or _is_older(target)):
            raise SideEffectError(
                user_location(3), "writes a tensor in a backward that is recorded now and run later",
                "Write it in the function itself, or compile the whole step, the function that calls backward.",
            )
        for tensor in (target,) if target._view is None else (target, target._view.base):
            if is_dense(tensor):
                self._histories.append((tensor, copy.copy(tensor._autograd), user_location(3)))
        counted = target._storage
        self._versions.append((counted, counted.version))
        counted.version += 1

    def note_write(self, storage: Any) -> None:
        """A version counter that is about to be raised once while the function is captured is put back: the program
        will act, the capture has not.
        """
        self._versions.append((storage, storage.version))

    def has_written(self, storage: Any, version: int = 0) -> bool:
        """Whether the function itself wrote a storage since it had that version, not a call in another thread."""
        return any(counted is storage and before >= version for counted, before in self._versions)

    @property
    def written(self) -> int:
        """How many writes to tensors that exist outside of the function there were."""
        return len(self._histories)

    def forget_writes(self, counters: Sequence[tuple[Any, int]], written: int) -> None:
        """Put counters back to earlier versions: the writes since then, after `written` others, are made elsewhere."""
        del self._histories[written:]
        kept = {id(counted): version for counted, version in counters}
        self._versions = [
            (counted, before) for counted, before in self._versions if before < kept.get(id(counted), before + 1)
        ]
        for counted, version in counters:
            counted.version = version

    def raised(self) -> dict[int, tuple[Any, int]]:
        """By how much the function raises versions: for each storage, by id, the storage and the difference."""
        raised_by: dict[int, tuple[Any, int]] = {}
        for storage, _ in self._versions:
            raised_by[id(storage)] = (storage, raised_by.get(id(storage), (storage, 0))[1] + 1)
        return raised_by

    def refuse_histories(self) -> None:
        """A tensor from outside must not come out of a program's call with a history, which it does not keep. Raises
        ArgumentChange."""
        for tensor, before, where in self._histories:
            node = None if tensor._autograd is None else tensor._autograd.node
            if node is not (None if before is None else before.node):
                raise ArgumentChange(
                    f"{where}: a compiled function writes a value that requires grad into a tensor of shape "
                    f"{list(tensor.shape)} that exists outside of it; the tensor would keep the history of this call. "
                    "Write value.detach(), or write within weft.no_grad()."
                )

    def on_roll_back(self, undo: Callable[[], None]) -> None:
        """Call `undo` should the capture fail."""
        self._undo.append(undo)

    def restore(self) -> None:
        """Put versions and histories of concrete tensors back: the program that was captured will act, the capture has
        not.
        """
        for storage, by in self.raised().values():
            storage.version -= by  # (other threads may have raised it meanwhile)
        self._versions.clear()
        for tensor, state, _ in reversed(self._histories):
            tensor._autograd = state

    def roll_back(self) -> None:
        """Undo what others did meanwhile (optimizer state that was made, hooks)."""
        for undo in reversed(self._undo):
            undo()
