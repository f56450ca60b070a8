"""Why a backward call has no captured graph yet, in words: what differs from the graph that it follows longest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from weft.compiled_autograd.forms import Constant, Kind
from weft.compiled_autograd.recording import Recording
from weft.compiled_autograd.structure import Structure
from weft.ir.backward_calls import (
    ACCUMULATE_LEAF,
    CALL_BACKWARD,
    CHECK_GRADIENT,
    EPILOGUE,
    INNER_TENSORS_CALL,
    MAKE_SUBCLASS_CALL,
    POST_HOOK_CALL,
    PRE_HOOK_CALL,
    PROGRAM_PROLOGUE,
    PROLOGUE,
    RETAIN_GRAD,
    TENSOR_HOOK_CALL,
    UNPACK_HOOK,
)
from weft.ir.graph import Graph, Operand, Value
from weft.ir.opaque import VALIDATE, plan_of_opaque
from weft.ops.backward import ARG, Plan
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.types.tensor_type import NONE

_NAMES = {
    CALL_BACKWARD: "the backward of a custom Function", TENSOR_HOOK_CALL: "a hook on a tensor",
    RETAIN_GRAD: "a gradient that is retained", PRE_HOOK_CALL: "a hook before a node",
    POST_HOOK_CALL: "a hook after a node", UNPACK_HOOK: "a hook on a saved tensor", ACCUMULATE_LEAF: "a leaf",
    aten.add.Tensor.op: "a sum of gradients", VALIDATE: "an edge", CHECK_GRADIENT: "an edge from Python",
    PROLOGUE: "a write through a view", EPILOGUE: "a gradient for the base of a view",
    PROGRAM_PROLOGUE: "the backward of a compiled function", MAKE_SUBCLASS_CALL: "a gradient of a wrapper class",
    INNER_TENSORS_CALL: "the inner tensors of a gradient",
}
Step = tuple[Op, tuple[Any, ...], tuple[bool, ...]]  # a node: its operands by what they are, which results are there
_WORDS = {"s": "a size", "n": "an int", "i": "an int", "f": "a float", "o": "an object"}


def reason(
    recording: Recording, structure: Structure, calls: Sequence[str], earlier: Iterable[Recording]
) -> str:
    """One line: the node at which a graph parts from every captured one, whose it is, the user's line, and what
    differs there. calls: beside its nodes, whose each is."""
    steps = list(_steps(recording.graph))
    place = _Place(recording, structure, calls)
    best: Recording | None = None
    at = -1
    for other in earlier:
        same = _common(_steps(other.graph), steps)
        if same >= at:  # of those that it follows as long, the latest
            best, at = other, same
    if best is None:
        return f"the first backward of {len(steps)} steps, {place(0)}"
    earlier_steps = list(_steps(best.graph))
    if at == len(steps) == len(earlier_steps):
        return _other_ends(recording, best, structure, place(at - 1))
    if at == len(steps):
        return f"ends where an earlier one goes on with {_name(earlier_steps[at])}, {place(at - 1)}"
    if at == len(earlier_steps):
        return f"goes on with {_name(steps[at])} where an earlier one ends, {place(at)}"
    return f"step {at} differs from every captured backward, {place(at)}: {_difference(earlier_steps[at], steps[at])}"


def _other_ends(recording: Recording, earlier: Recording, structure: Structure, place: str) -> str:
    """What differs where all nodes are the same."""
    if recording.kind != earlier.kind:
        return f"gives {_kind(recording.kind)} where an earlier one gives {_kind(earlier.kind)}, {place}"
    if len(recording.tensors) != len(earlier.tensors):
        return f"{len(recording.tensors)} tensors are saved where an earlier one saved {len(earlier.tensors)}, {place}"
    return f"other gradients are given back than by an earlier backward of these steps, {place}"


class _Place:
    """Whose a node is: the walk's node, its number in the walk, and the line of its forward."""

    def __init__(self, recording: Recording, structure: Structure, calls: Sequence[str]) -> None:
        self.recording, self.structure, self.calls = recording, structure, calls

    def __call__(self, step: int) -> str:
        if not self.calls:
            return "without a node"
        line = self.structure.nodes[self.recording.owners[max(step, 0)]].forward_line
        return self.calls[max(step, 0)] + (f", {line}" if line else "")


class _Ref(str):
    """A value of a graph, in words."""

    __slots__ = ()


def _steps(graph: Graph) -> Iterator[Step]:
    """The nodes of a graph, values by number."""
    names: dict[Value, _Ref] = {}  # of parameters when they are met: most graphs differ in their first steps
    for number, node in enumerate(graph.nodes):
        args = _shown((*node.args, *map(str, node.blocks)), names)
        yield node.op, args, tuple([v.type is not NONE for v in node.outputs])
        for i, value in enumerate(node.outputs):
            names[value] = _Ref(f"value {number}.{i}")


def _shown(operand: Operand, names: Mapping[Value, _Ref]) -> Any:
    if type(operand) is tuple:
        return tuple([_shown(part, names) for part in operand])
    if type(operand) is Value:
        return names[operand] if operand in names else _parameter(operand.name)
    return None if operand is None else Constant(type(operand), operand)


def _parameter(name: str) -> _Ref:
    return _Ref(f"tensor {name}" if name[0] == "t" else _WORDS[name[0]])


def _kind(kind: Kind) -> str:
    """What the gradients are."""
    gradients = "wrappers" if kind.has_wrappers else "plain gradients"
    return f"{gradients} with a history" if kind.is_differentiable else f"{gradients} without a history"


def _common(a: Iterable[Step], b: Iterable[Step]) -> int:
    """How many steps two graphs begin with together."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _name(step: Step) -> str:
    plan = plan_of_opaque(step[0])
    return _NAMES.get(step[0], step[0].name) if plan is None else plan.name


def _difference(was: Step, now: Step) -> str:
    (before, old, had), (op, args, has) = was, now
    if before is not op:
        return f"{_name(now)} where an earlier one has {_name(was)}"
    plan = plan_of_opaque(op)
    if plan is not None:
        return _of_formula(plan, old, args)
    if op in (VALIDATE, CHECK_GRADIENT):
        (*_, dims, dtype), (*_, new_dims, new_dtype) = old, args
        if len(dims) != len(new_dims):
            return f"an edge of {len(new_dims)} dims, was of {len(dims)}"
        if dtype != new_dtype:
            return f"an edge of dtype {new_dtype.value}, was {dtype.value}"
    if op is ACCUMULATE_LEAF and old[2] != args[2]:
        without = "no hooks follow a leaf any more, or it takes no turn of its own"
        return "hooks follow a leaf" if args[2].value else without
    if had != has and old == args:
        return f"{_name(now)} gives gradients at {_there(has)}, gave them at {_there(had)}"
    return f"{_name(now)} reads other values"


def _of_formula(plan: Plan, was: tuple[Any, ...], now: tuple[Any, ...]) -> str:
    (_, wanted, saved), (_, wanted_now, saved_now) = was, now
    if wanted != wanted_now:
        flags, flags_now = ([flag.value for flag in needs] for needs in (wanted, wanted_now))
        return f"{plan.name} is asked for gradients at {_there(flags_now)}, was at {_there(flags)}"
    for i, (a, b) in enumerate(zip(saved, saved_now, strict=False)):
        if a != b:
            return f"{_slot(plan, i)} of {plan.name} is {_value(b)}, was {_value(a)}"
    return f"{plan.name} reads other values"


def _slot(plan: Plan, i: int) -> str:
    slot = plan.slots[i]
    return f"`{plan.op.schema.arguments[slot.position].name}`" if slot.kind == ARG else f"a saved {slot.kind}"


def _value(shown: Any) -> str:
    if type(shown) is Constant:
        return repr(shown.value)
    if type(shown) is tuple:
        return "[" + ", ".join(map(_value, shown)) + "]"
    return "absent" if shown is None else str(shown)


def _there(flags: Sequence[bool]) -> str:
    """The places of those that are there."""
    return "(" + ", ".join(str(i) for i, flag in enumerate(flags) if flag) + ")"
