"""Why a backward call has no captured graph yet, in words: what differs from the graph that it follows longest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.compiled_autograd.steps import (
    ACCUMULATE,
    ADD,
    CALL,
    CHECK,
    INLINE,
    INNER_TENSORS,
    INTO_BASE,
    MAKE_SUBCLASS,
    OP,
    POST_HOOK,
    PRE_HOOK,
    RETAIN,
    SLICE,
    TENSOR_HOOK,
    UNPACK,
    VALIDATE,
    Constant,
    Key,
    Kind,
    Schedule,
    Step,
)
from weft.ops.backward import ARG, Plan

_KINDS = {
    CALL: "the backward of a custom Function", TENSOR_HOOK: "a hook on a tensor", RETAIN: "a gradient that is retained",
    PRE_HOOK: "a hook before a node", POST_HOOK: "a hook after a node", UNPACK: "a hook on a saved tensor",
    ACCUMULATE: "a leaf", ADD: "a sum of gradients", VALIDATE: "an edge", CHECK: "an edge from Python",
    SLICE: "a write through a view", INTO_BASE: "a gradient for the base of a view",
    INLINE: "the backward of a compiled function", MAKE_SUBCLASS: "a gradient of a wrapper class",
    INNER_TENSORS: "the inner tensors of a gradient",
}


def reason(plan: Schedule, known: Iterable[Key]) -> str:
    """One line: the step at which a schedule parts from every captured one, whose it is, the user's line, and what
    differs there."""
    steps = tuple(plan.steps)
    best: tuple[Any, ...] | None = None
    at = -1
    for key in known:
        same = _common(key.structure[0], steps)
        if same >= at:  # of those that it follows as long, the latest
            best, at = key.structure, same
    if best is None:
        return f"the first backward of {len(steps)} steps, {_place(plan, 0)}"
    if at == len(steps) == len(best[0]):
        if best[1] != plan.outputs:
            return f"other gradients are given back than by an earlier backward of these steps, {_place(plan, at - 1)}"
        if best[3] != plan.kind:
            return f"gives {_kind(plan.kind)} where an earlier one gives {_kind(best[3])}, {_place(plan, at - 1)}"
        return f"{len(plan.tensors)} tensors are saved where an earlier one saved {best[2]}, {_place(plan, at - 1)}"
    if at == len(steps):
        return f"ends where an earlier one goes on with {_name(best[0][at])}, {_place(plan, at - 1)}"
    if at == len(best[0]):
        return f"goes on with {_name(steps[at])} where an earlier one ends, {_place(plan, at)}"
    return f"step {at} differs from every captured backward, {_place(plan, at)}: {_difference(best[0][at], steps[at])}"


def _kind(kind: Kind) -> str:
    """What the gradients are."""
    made = "wrappers" if kind.has_wrappers else "plain gradients"
    return f"{made} with a history" if kind.is_differentiable else f"{made} without a history"


def _common(a: tuple[Step, ...], b: tuple[Step, ...]) -> int:
    """How many steps two schedules begin with together."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))


def _place(plan: Schedule, step: int) -> str:
    """Whose a step is: node, its number in the walk, and the line of its forward."""
    if not plan.owners:
        return "without a node"
    owner = plan.owners[max(step, 0)]
    node = plan.live[owner]
    line = node.forward_line
    return f"{node.name()} (NodeCall {plan.node_calls().index(owner)})" + (f", {line}" if line else "")


def _name(step: Step) -> str:
    return str(step[1].name) if step[0] == OP else _KINDS.get(step[0], str(step[0]))


def _difference(was: Step, now: Step) -> str:
    kind = now[0]
    if was[0] != kind or (kind == OP and was[1] is not now[1]):
        return f"{_name(now)} where an earlier one has {_name(was)}"
    if kind == OP:
        return _of_formula(was, now)
    if kind in (VALIDATE, CHECK):
        if was[2] != now[2]:
            return f"an edge of {now[2]} dims, was of {was[2]}"
        if was[3] != now[3]:
            return f"an edge of dtype {now[3]}, was {was[3]}"
    if kind == ACCUMULATE and was[2] != now[2]:
        return "hooks follow a leaf" if now[2] else "no hooks follow a leaf any more, or it takes no turn of its own"
    if kind in (CALL, TENSOR_HOOK, PRE_HOOK, POST_HOOK) and was[:-1] == now[:-1]:
        return f"{_KINDS[kind]} gives gradients at {_there(now[-1])}, gave them at {_there(was[-1])}"
    return f"{_name(now)} reads other values"


def _of_formula(was: Step, now: Step) -> str:
    plan: Plan = now[1]
    if was[3] != now[3]:
        return f"{plan.name} is asked for gradients at {_there(now[3])}, was at {_there(was[3])}"
    for i, (a, b) in enumerate(zip(was[4], now[4], strict=False)):
        if a != b:
            return f"{_slot(plan, i)} of {plan.name} is {_value(b)}, was {_value(a)}"
    return f"{plan.name} reads other values"


def _slot(plan: Plan, i: int) -> str:
    slot = plan.slots[i]
    return f"`{plan.op.schema.arguments[slot.position].name}`" if slot.kind == ARG else f"a saved {slot.kind}"


def _value(packed: Any) -> str:
    if type(packed) is Constant:
        return repr(packed.value)
    if type(packed) is int:
        return f"tensor t{~packed}" if packed < 0 else f"value {packed}"
    if type(packed) is tuple:
        return "[" + ", ".join(map(_value, packed)) + "]"
    return "absent" if packed is None else f"a {packed}"


def _there(flags: Any) -> str:
    """The places of those that are there."""
    return "(" + ", ".join(str(i) for i, flag in enumerate(flags) if flag) + ")"
