"""Forms: what a backward call's nodes are, apart from tensors, sizes, numbers and hooks; and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from weft.autograd.dependencies import runs_on_nothing
from weft.autograd.node import Node
from weft.ops.backward import ARG, DIMS, Plan
from weft.programs.inlining import Body
from weft.programs.tensor_program import ProgramBackward
from weft.record.wrappers import PartBackward, UnwrapBackward, WrapBackward

# The lists. What programs (compiled forwards) had saved is collected last, and has lists of its own: which of it is
# needed is known once the gradients are that arrive at them.
TENSORS, SIZES, EDGE_SIZES, INTS, FLOATS, OBJECTS, HOOKS = (
    "tensors", "sizes", "sizes of edges", "ints", "floats", "objects", "hooks"
)
OF_PROGRAMS = "programs' "
ORDER = (
    TENSORS, OF_PROGRAMS + TENSORS, SIZES, EDGE_SIZES, OF_PROGRAMS + SIZES, OF_PROGRAMS + INTS, INTS, FLOATS,
    OF_PROGRAMS + FLOATS, OBJECTS, OF_PROGRAMS + OBJECTS, HOOKS,
)
# In the form of a saved value: the next element of a list. (A tensor is its place in the list.)
SIZE, INT, FLOAT, UNPACK = "size", "int", "float", "unpack"
# The first part of a node's form, where it is not the plan of an operator's formulas.
LEAF, SLICES, PROGRAM, PART, UNWRAP, WRAP, CALL, CALL_ON_NOTHING = (
    "leaf", "slices", "program", "part", "unwrap", "wrap", "call", "call on nothing"
)
INVALID = "invalid"  # in place of saved values that were freed, or written since
HANDS_ON = "hands on"  # a program that gives the gradients that it is given
Form = tuple[Any, ...]  # (kind, counts, inputs, edges, saved, hooks, flow)
# (number of the gradient, count) of hooks on tensors, numbers of retained gradients, counts of hooks before and after.
HookForm = tuple[tuple[tuple[int, int], ...], tuple[int, ...], int, int]


class Constant(NamedTuple):
    """A saved value that is part of the structure. (The type tells True from 1.)"""

    type: type
    value: Any


class Slices(NamedTuple):
    """What CopySlices has beside its edges."""

    path: Form
    plan: Plan
    counts: tuple[int, ...]
    saved: Any
    view: tuple[int, Any]  # rank and dtype


class Copied(NamedTuple):
    """The run of a program as a body to copy: what it takes, by place in the list of tensors (-1 - place: of programs'
    tensors) or FLOAT; the gradients that it takes; the gradients of which edges it gives."""

    body: Body
    taken: tuple[Any, ...]
    tangents: tuple[int, ...]
    edges: tuple[tuple[int, Any], ...]


class Kind(NamedTuple):
    """What gradients are beside numbers: graphs of their own (create_graph), wrappers of other tensors."""

    is_differentiable: bool
    has_wrappers: bool


class Key:
    """The structure of a backward call. It is hashed once, though a call looks it up several times.
    Raises TypeError for a saved value that has no hash."""

    __slots__ = ("_hash", "structure")

    def __init__(self, structure: Form) -> None:
        self.structure = structure
        self._hash = hash(structure)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.structure == other.structure


# The stages of a node's turn, in order: rank, and for hooks on several gradients which. What hooks of one rank change
# of each other is another call's.
Stage = tuple[int, int]
Stages = dict[Stage, tuple[Any, tuple[Any, ...]]]
TENSOR_STAGE, RETAIN_STAGE, BEFORE_STAGE, RUN_STAGE, AFTER_STAGE = range(5)


STRUCTURED = "structured"  # of nodes whose forms are not written out flat


@cache
def slots_of(plan: Plan) -> tuple[tuple[bool, Callable[[Any], bool] | None], ...]:
    """Of each value that an operator's node saves: whether it is sizes, and for a number which values of it decide what
    is computed."""
    questions = dict(plan.op.specialized_positions)
    return tuple([
        (slot.kind == DIMS, questions.get(slot.position) if slot.kind == ARG else None) for slot in plan.slots
    ])


def forms_in(flat: Iterator[Any]) -> Iterator[Form]:
    """The forms of nodes that are written one after the other, the most frequent ones flat."""
    for kind in flat:
        if type(kind) is tuple:
            yield kind
            continue
        inputs, hooks, detail = ((next(flat), next(flat)),), next(flat), next(flat)
        is_operator = isinstance(kind, Plan)
        edges: list[Form | None] = []
        for _ in range(sum(detail) if is_operator else 0 if kind is LEAF else detail):
            place = next(flat)
            index = next(flat)
            edges.append(None if place is None else (place, index))
        saved = tuple([next(flat) for _ in kind.slots]) if is_operator else detail if kind is LEAF else None
        yield kind, detail if is_operator else None, inputs, tuple(edges), saved, hooks, None


def kind_of(node: Node) -> str:
    """The kind of a node that is neither an operator's nor a leaf's."""
    if isinstance(node, ProgramBackward):
        return PROGRAM
    if isinstance(node, PartBackward):
        return PART
    if isinstance(node, UnwrapBackward):
        return UNWRAP
    if isinstance(node, WrapBackward):
        return WRAP
    return CALL_ON_NOTHING if runs_on_nothing(node) else CALL


def stages_of(node: Node) -> Stages:
    """The hooks of a node that has some, by stage: with the number of the gradient that they are on, or those of all
    that are retained."""
    tables, stages = node.hook_tables or {}, Stages()
    for at, (index, registered) in enumerate((tables.get("tensor_hooks") or {}).items()):
        stages[TENSOR_STAGE, at] = (index, tuple(registered.values()))
    if len(tables) > 1 or "tensor_hooks" not in tables:
        for stage, name in ((RETAIN_STAGE, "retain_hooks"), (BEFORE_STAGE, "pre_hooks"), (AFTER_STAGE, "post_hooks")):
            table = tables.get(name)
            if table:
                stages[stage, 0] = (tuple(table) if stage == RETAIN_STAGE else 0, tuple(table.values()))
    return stages
