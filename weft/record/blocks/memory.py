"""Writes to outer tensors inside of a block: noted while it is recorded, undone where it ends, and made again outside
with what the block yields."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.autograd.node import Edge
from weft.autograd.record import gradient_edge
from weft.ir.graph import Value
from weft.tensor.modes import modes, set_grad_enabled
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.record.recorder import GraphRecorder
    from weft.record.symbolic import SymbolicPayload, SymbolicStorage
    from weft.record.tensors import SymbolicTensors
    from weft.record.writes import Writes


@dataclass(eq=False)
class Memory:
    """What a block leaves in memory that it found: outer tensors with value and history, storages with value,
    version counters.

    after: the counters once what was written is in place outside.
    """

    tensors: dict[int, tuple[Tensor, Value, Edge | None]] = field(default_factory=dict)
    storages: dict[int, tuple[SymbolicStorage, Value]] = field(default_factory=dict)
    counters: dict[int, tuple[Any, int]] = field(default_factory=dict)
    after: dict[int, int] = field(default_factory=dict)

    @contextmanager
    def in_place(self, recorder: GraphRecorder) -> Iterator[None]:
        """Memory as the block left it, for the backward through what it saved; versions say what was written since."""
        storages = [(storage, value) for storage, value in self.storages.values() if not storage.goes_on]
        before = [_state_of(storage) for storage, _ in storages]
        versions = [(counted, counted.version) for counted, _ in self.counters.values()]
        try:
            for storage, value in storages:
                _put(storage, (value, recorder.builder, recorder.depth))
            for key, (counted, version) in self.counters.items():
                counted.version += version - self.after[key]
            yield
        finally:
            for (storage, _), state in zip(storages, before, strict=True):
                _put(storage, state)
            for counted, version in versions:
                counted.version = version


def end_of(result: Any) -> Edge | None:
    """Where the gradient of a result flows, if it has a history: under no_grad what was there before keeps its own."""
    return gradient_edge(result) if isinstance(result, Tensor) and result.dtype.is_differentiable else None


def _state_of(storage: SymbolicStorage) -> tuple[Any, Any, int]:
    return storage.value, storage.builder, storage.depth


def _put(storage: SymbolicStorage, state: tuple[Any, Any, int]) -> None:
    storage.value, storage.builder, storage.depth = state
    storage.generation += 1


class OpenBlock:
    """The writes of a block that is being recorded."""

    def __init__(self, recorder: GraphRecorder, tensors: SymbolicTensors, writes: Writes) -> None:
        self.recorder, self.tensors, self.writes, self.written = recorder, tensors, writes, writes.written
        self.storages: dict[int, tuple[SymbolicStorage, tuple[Any, Any, int]]] = {}
        self.counters: dict[int, tuple[Any, int]] = {}
        self.histories: dict[int, tuple[Tensor, Any]] = {}
        self.bases: dict[int, Tensor] = {}

    def note(self, target: Tensor, payload: SymbolicPayload) -> None:
        """A tensor is about to be written."""
        storage = payload.storage
        if storage.depth == self.recorder.depth and id(storage) not in self.storages:
            return  # made in the block
        if id(storage) not in self.storages:
            self.storages[id(storage)] = (storage, _state_of(storage))
            _put(storage, (storage.value, self.recorder.builder, self.recorder.depth))
        base = target if target._view is None else target._view.base
        for tensor in (target, base):
            self.keep_history(tensor)
        counted: Any = target._storage
        self.counters.setdefault(id(counted), (counted, counted.version))
        self.bases.setdefault(id(base), base)

    def keep_history(self, tensor: Tensor) -> None:
        """Behind the block a tensor has the history that it has now."""
        self.histories.setdefault(id(tensor), (tensor, copy.copy(tensor._autograd)))

    def left(self) -> Memory:
        """What the block leaves, asked where it ends."""
        return Memory(
            {key: (base, self.tensors.operand(base), end_of(base)) for key, base in self.bases.items()},
            {key: (storage, storage.value) for key, (storage, _) in self.storages.items()},
            {key: (counted, counted.version) for key, (counted, _) in self.counters.items()},
        )

    def undo(self) -> None:
        """Memory as it was before the block."""
        for storage, state in self.storages.values():
            _put(storage, state)
        self.writes.forget_writes(
            [(counted, version) for counted, version in self.counters.values()], self.written
        )
        for tensor, state in self.histories.values():
            tensor._autograd = state


def joined(tensors: SymbolicTensors, memories: Sequence[Memory]) -> list[Memory]:
    """The same tensors, storages and counters for each of several blocks: those that one does not write are
    as they are outside."""
    out = [Memory() for _ in memories]
    for memory in memories:
        for key, (base, _, _) in memory.tensors.items():
            for mine, own in zip(out, memories, strict=True):
                mine.tensors[key] = own.tensors.get(key) or (base, tensors.operand(base), end_of(base))
        for key, (storage, _) in memory.storages.items():
            for mine, own in zip(out, memories, strict=True):
                mine.storages[key] = own.storages.get(key, (storage, storage.value))
        for key, (counted, _) in memory.counters.items():
            for mine, own in zip(out, memories, strict=True):
                mine.counters[key] = own.counters.get(key, (counted, counted.version))
    return out


def write_back(memories: Sequence[Memory], values: Sequence[Tensor]) -> None:
    """Give the outer tensors what the blocks left in them;
    their histories change where one of the blocks changes them."""
    for (base, _, _), value in zip(memories[0].tensors.values(), values, strict=True):
        with set_grad_enabled(modes.grad and value.requires_grad):
            base.copy_(value)
    for memory in memories:
        memory.after = {key: counted.version for key, (counted, _) in memory.counters.items()}
