"""The steps of a backward call, and what stands beside them: schedule.py writes them, graph.py builds of them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from weft.autograd.node import Node
from weft.autograd.saved import SavedTensor
from weft.autograd.views import CopySlices

Step = tuple[Any, ...]  # (kind, ...)
Ref = int
Pattern = tuple[bool, ...]  # which results of a Python call are there
# Kinds of steps. What a step takes of the lists beside it, it takes in the order in which it is written.
OP, SLICE, INTO_BASE, ADD, VALIDATE = "op", "slice", "into_base", "add", "validate"
CALL, CHECK, TENSOR_HOOK, RETAIN, PRE_HOOK, POST_HOOK, ACCUMULATE, UNPACK = (
    "call", "check", "tensor_hook", "retain", "pre_hook", "post_hook", "accumulate", "unpack"
)
SIZE, INT, FLOAT = "size", "int", "float"  # where a saved value is a number: the next of its list


class Constant(NamedTuple):
    """A saved value that is part of the structure. (The type tells True from 1.)"""

    type: type
    value: Any


class Saved(NamedTuple):
    """Where a tensor beside the steps was saved, so that its version can be looked at again."""

    packed: SavedTensor
    node: Node


class Key:
    """The structure of a backward call. It is hashed once, though a call looks it up several times.
    Raises TypeError for a saved value that has no hash."""

    __slots__ = ("_hash", "structure")

    def __init__(self, structure: tuple[Any, ...]) -> None:
        self.structure = structure
        self._hash = hash(structure)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.structure == other.structure


class Schedule:
    """The steps of one backward call, and what they are done with."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.outputs: tuple[Ref | None, ...] = ()
        self.tensors: list[Any] = []
        self.saved: list[Saved | None] = []  # beside `tensors`
        self.sizes: list[int] = []
        self.ints: list[int] = []
        self.floats: list[float] = []
        self.objects: list[Any] = []
        self.nodes: list[tuple[int, Node]] = []  # nodes that have run once so many steps are done
        self.origins: list[Node] = []  # beside `steps`: whose they are
        self.places: dict[tuple[Any, ...], Ref] = {}  # of tensors, by payload and history
        self.known: dict[Node, tuple[Any, ...]] = {}  # what nodes had saved, tensors by number: they may be freed since

    @cached_property
    def key(self) -> Key:
        """The structure, once all steps are written."""
        return Key((tuple(self.steps), self.outputs, len(self.tensors)))

    def forget(self, last: int) -> None:
        """Nodes that come behind step number `last` are asked anew for what they saved: they have not let go of it,
        while a run may have let go of a tensor that it saw no further use for."""
        done = {node for steps, node in self.nodes if steps <= last}
        done |= {node.inner for node in done if type(node) is CopySlices}
        self.known = {node: saved for node, saved in self.known.items() if node in done}

    def inputs(self) -> list[Any]:
        """What the captured graph takes, in the order of its parameters."""
        return [*self.tensors, *self.sizes, *self.ints, *self.floats, *self.objects]
