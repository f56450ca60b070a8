"""The steps of a backward call, and what stands beside them: schedule.py writes them, graph.py builds of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weft.autograd.node import Node
from weft.autograd.saved import SavedTensor
from weft.autograd.views import CopySlices
from weft.compiled_autograd.live_hooks import LiveHooks
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import is_wrapper, wrapper_classes

Step = tuple[Any, ...]  # (kind, ...)
Ref = int
Pattern = tuple[bool, ...]  # which results of a Python call are there
# Kinds of steps. What a step takes of the lists beside it, it takes in the order in which it is written.
OP, SLICE, INTO_BASE, ADD, VALIDATE, INLINE = "op", "slice", "into_base", "add", "validate", "inline"
CALL, CHECK, TENSOR_HOOK, RETAIN, PRE_HOOK, POST_HOOK, ACCUMULATE, UNPACK = (
    "call", "check", "tensor_hook", "retain", "pre_hook", "post_hook", "accumulate", "unpack"
)
# the gradient of a wrapper of its inner tensors', and the other way round
MAKE_SUBCLASS, INNER_TENSORS = "make_subclass", "inner_tensors"
_PURE = frozenset((OP, SLICE, INTO_BASE, ADD, VALIDATE, INLINE))
SIZE, INT, FLOAT = "size", "int", "float"  # where a saved value is a number: the next of its list


class Constant(NamedTuple):
    """A saved value that is part of the structure. (The type tells True from 1.)"""

    type: type
    value: Any


class Kind(NamedTuple):
    """What gradients are beside numbers: graphs of their own (create_graph), wrappers of other tensors."""

    is_differentiable: bool
    has_wrappers: bool


NUMBERS = Kind(False, False)


def kind_of(tensors: Iterable[Any], is_differentiable: bool) -> Kind:
    """The kind of a backward call by its tensors."""
    has_wrappers = bool(wrapper_classes) and any(map(is_wrapper, tensors))
    return Kind(is_differentiable, has_wrappers) if has_wrappers or is_differentiable else NUMBERS


def last_call(steps: Sequence[Step]) -> int:
    """The number of the last step that runs code of the user's; -1 without one."""
    for i in range(len(steps) - 1, -1, -1):
        if steps[i][0] not in _PURE and not (steps[i][0] == ACCUMULATE and not steps[i][2]):
            return i
    return -1


# Where a tensor beside the steps was saved, so that its version can be looked at again.
Saved = tuple[SavedTensor, Node]


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
        self.steps: Sequence[Step] = []
        self.outputs: tuple[Ref | None, ...] = ()
        self.tensors: list[Any] = []
        self.saved: list[Saved | None] = []  # beside `tensors`
        self.sizes: list[int] = []
        self.numbers: list[int] = []  # the symbols of what is inlined
        self.ints: list[int] = []
        self.floats: list[float] = []
        self.objects: list[Any] = []
        self.live: list[Node] = []  # the nodes in the order in which they are walked
        self.owners: Sequence[int] = []  # beside `steps`: whose they are, by place in `live`
        self.nodes: list[Node] = []  # those that run, in order
        self.ends: Sequence[int] = []  # beside `nodes`: how many steps are done when it has run
        self.holds_numbers: Collection[int] = ()  # of `nodes`, by place: formulas that have saved numbers alone
        self.places: dict[tuple[Any, ...], Ref] = {}  # of tensors, by payload and history
        self.known: dict[Node, tuple[Any, ...]] = {}  # what nodes had saved, tensors by number: they may be freed since
        self.hooks = LiveHooks()
        self.recall: Any = None  # the walk (recall.py) by which it was found
        self.kind = NUMBERS

    @property
    def origins(self) -> list[Node]:
        """Beside `steps`: whose they are."""
        return [self.live[place] for place in self.owners]

    def node_calls(self) -> list[int]:
        """The places in `live` of the nodes that have steps, in the order in which they run."""
        return list(dict.fromkeys(self.owners))

    def calls(self) -> list[str]:
        """Beside `steps`: whose they are, as "MulBackward0 (NodeCall 2)"."""
        numbers = {place: i for i, place in enumerate(self.node_calls())}
        return [f"{self.live[place].name()} (NodeCall {numbers[place]})" for place in self.owners]

    @cached_property
    def key(self) -> Key:
        """The structure, once all steps are written."""
        return Key((tuple(self.steps), self.outputs, len(self.tensors), self.kind))

    def remember(self, node: Node, number: int) -> None:
        """Keep what the node that ran as `number` had saved, all but its tensors."""
        recall, saved = self.recall, None
        if recall is not None:
            place = number if recall.runs is None else recall.runs[number]
            if place not in recall.rememberable:
                return
            saved = recall.known(node, place)
        if saved is None:
            known = self.known.get(node)
            saved = None if known is None else emptied(known)
        if saved is not None:
            self.known[node] = saved

    def forget(self, last: int) -> None:
        """Nodes that come behind step number `last` are asked anew for what they saved: they have not let go of it,
        while a run may have let go of a tensor that it saw no further use for."""
        self.hooks.done = last + 1
        done = {node for steps, node in zip(self.ends, self.nodes, strict=True) if steps <= last}
        done |= {node.inner for node in done if type(node) is CopySlices}
        self.known = {node: saved for node, saved in self.known.items() if node in done}

    def inputs(self) -> list[Any]:
        """What the captured graph takes, in the order of its parameters."""
        return [*self.tensors, *self.sizes, *self.numbers, *self.ints, *self.floats, *self.objects]


_GONE, _UNPACKED = SavedTensor(Tensor(np.zeros(0))), SavedTensor(Tensor(np.zeros(0)))
_UNPACKED.unpack_hook = lambda packed: packed  # (a step of its own, whether or not a formula reads it)


def emptied(saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """Saved values without their tensors."""
    return tuple([
        (_GONE if v.unpack_hook is None else _UNPACKED) if type(v) is SavedTensor
        else emptied(v) if type(v) is tuple else v
        for v in saved
    ])
