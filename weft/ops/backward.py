"""The backward plan of an operator: its formulas, and where each formula's arguments come from.
One per entry, made once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from weft.ops.op import Joint, NodeBy, Op
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.support.generated import expression_function

_FIRST_LETTER = re.compile("(?<![A-Za-z])[a-z]")
_NOTHING = (type(None),)
_NUMBERS = (type(None), bool, int, float, complex)
# Where a formula's parameter comes from.
GRAD, GRADS, NEEDS, ARG, RESULT, DIMS, DTYPE = "grad", "grads", "needs", "arg", "result", "dims", "dtype"


@dataclass(frozen=True)
class Source:
    """One formula parameter: its kind and the argument or result position it speaks of."""

    kind: str
    position: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Formula:
    """A rule, its parameters' sources, and the argument positions whose gradients it gives."""

    rule: Callable[..., Any]
    sources: tuple[Source, ...]
    inputs: tuple[int, ...]
    is_joint: bool


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The formulas of one operator, and the slots (distinct sources) that a node packs."""

    op: Op
    name: str
    formulas: tuple[Formula, ...]
    slots: tuple[Source, ...]
    differentiable: tuple[int, ...]

    @cached_property
    def saves_results(self) -> bool:
        """Whether any formula reads a result."""
        return any(s.kind == RESULT for s in self.slots)

    @cached_property
    def operands(self) -> tuple[int, ...]:
        """The slots of arguments that are tensors, or numbers in the place of one."""
        arguments = self.op.schema.arguments
        return tuple([i for i, s in enumerate(self.slots) if s.kind == ARG and arguments[s.position].kind == "Tensor"])

    @cached_property
    def may_save_tensors(self) -> bool:
        """Whether any slot is for tensors."""
        arguments = self.op.schema.arguments
        return any(s.kind == RESULT or (s.kind == ARG and arguments[s.position].is_tensor) for s in self.slots)

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """For each formula where its parameters are: in a slot, or at -1 the gradient, at -2 all gradients,
        at -3 which of them are wanted."""
        beside = {GRAD: -1, GRADS: -2, NEEDS: -3}
        return tuple([
            tuple([beside[s.kind] if s.kind in beside else self.slots.index(s) for s in f.sources])
            for f in self.formulas
        ])

    @cached_property
    def number(self) -> int:
        """Which differentiable argument is a number or missing in the overload that the node is named after; -1 for
        none. PyTorch's node has no edge for it."""
        by = self.op.node
        if not isinstance(by, NodeBy) or by.is_plain is not None or self.name != by.plain:
            return -1
        place = self.op.schema.index(by.argument)
        return self.differentiable.index(place) if place in self.differentiable else -1

    @cached_property
    def number_slot(self) -> int:
        """The slot of that argument; -1 for none."""
        place = -1 if self.number < 0 else self.differentiable[self.number]
        return next((i for i, s in enumerate(self.slots) if s == Source(ARG, place)), -1)

    @cached_property
    def one_each(self) -> tuple[int, ...]:
        """How many gradients each argument has where none is a list of tensors."""
        return (1,) * len(self.differentiable)

    @cached_property
    def planned(self) -> dict[tuple[Any, ...], Any]:
        """What is planned for the formulas (weft.tensor.planned.Formula), by which are wanted, and by how many
        gradients flow in where it is not one."""
        return {}

    def slot(self, source: Source) -> int:
        return self.slots.index(source)


def node_names(op: Op) -> tuple[str, ...]:
    """`aten::mul.Tensor` -> MulBackward0, unless the entry says otherwise; overloads of one base are numbered in order
    of definition. The copy of a view is named after the view. Last the name of the in-place form, if it has one."""
    written = (op.inplace_node,) if op.inplace_node else ()
    if isinstance(op.node, NodeBy):
        return op.node.plain, op.node.other, *written
    if op.copies is not None:
        return tuple([f"{name}_copy" for name in node_names(op.copies)])
    name = _FIRST_LETTER.sub(lambda match: match[0].upper(), op.base).replace("_", "")
    return op.node or f"{name}Backward{_overload_number(op)}", *written


def _overload_number(op: Op) -> int:
    from weft.ops.op import PACKETS  # read when asked, after all entries exist

    named = [o for o in PACKETS[f"{op.schema.namespace}::{op.base}"] if o.vjp or o.view]
    return named.index(op) if op in named else 0


def plan_of(op: Op) -> Plan:
    """The plan of a differentiable operator; of one whose node has several names, that of the first.
    Raises ValueProblem for a formula with an unknown parameter."""
    return plans_of(op)[0]


def chooser(op: Op) -> Callable[[tuple[Any, ...]], bool]:
    """Which of an operator's plans a call has, by its arguments: the second one, or the first."""
    if not isinstance(op.node, NodeBy):
        return lambda args: False
    place, is_plain = op.schema.index(op.node.argument), op.node.is_plain
    if is_plain is not None:
        return lambda args: not is_plain(args[place])
    plain = _NUMBERS if op.schema.arguments[place].is_tensor else _NOTHING
    return lambda args: type(args[place]) not in plain


_PLANS: dict[Op, tuple[Plan, ...]] = {}


@cache
def plans_of(op: Op) -> tuple[Plan, ...]:
    """The plan of a differentiable operator under each name of its node. Threads that ask at once get the same."""
    return _PLANS.setdefault(op, _plans_of(op))


def _plans_of(op: Op) -> tuple[Plan, ...]:
    vjp = op.vjp
    if vjp is None and op.view is not None:
        vjp = {"self": _view_rule(op)}
    formulas: list[Formula] = []
    if isinstance(vjp, Joint):
        formulas.append(_formula(op, vjp.rule, tuple(op.schema.index(n) for n in vjp.inputs), True))
    else:
        for name, rule in (vjp or {}).items():
            formulas.append(_formula(op, rule, (op.schema.index(name),), False))
    slots: list[Source] = []
    for formula in formulas:
        for source in formula.sources:
            if source.kind in (ARG, RESULT, DIMS, DTYPE) and source not in slots:
                slots.append(source)
    inputs = tuple(i for f in formulas for i in f.inputs)
    return tuple([Plan(op, name, tuple(formulas), tuple(slots), inputs) for name in node_names(op)])


def _view_rule(op: Op) -> Callable[..., Any]:
    """The gradient of a view by its scatter into zeros; the twin's name is `<base>_scatter`."""
    names = [a.name for a in op.schema.arguments[1:]]
    scatter = getattr(aten, f"{op.base}_scatter")
    text = f"scatter(zeros(self_dims, dtype=g.dtype), g, {', '.join(names)})"
    return expression_function("view rule", ("g", "self_dims", *names), text, {"scatter": scatter, "zeros": aten.zeros})


def _formula(op: Op, rule: Callable[..., Any], inputs: tuple[int, ...], is_joint: bool) -> Formula:
    return Formula(rule, tuple(_source(op, name) for name in inspect.signature(rule).parameters), inputs, is_joint)


def _source(op: Op, name: str) -> Source:
    schema = op.schema
    if name == "g":
        return Source(GRAD)
    if name == "gs":
        return Source(GRADS)
    if name == "needs":
        return Source(NEEDS)
    names = [a.name for a in schema.arguments]
    if name in names:
        return Source(ARG, names.index(name))
    if name == "result":
        return Source(RESULT, 0)
    if name.startswith("result") and name[6:].isdigit():
        return Source(RESULT, int(name[6:]))
    for suffix, kind in (("_dims", DIMS), ("_dtype", DTYPE)):
        if name.endswith(suffix) and name[: -len(suffix)] in names:
            return Source(kind, names.index(name[: -len(suffix)]))
    for i, r in enumerate(schema.returns):
        if r.name == name:
            return Source(RESULT, i)
    raise ValueProblem(
        f"{op.name}: the formula parameter {name!r} is neither g, gs, needs, result, "
        f"nor an argument ({', '.join(names)})"
    )


def apply_functional(
    plan: Plan, grads: tuple[Any, ...], needs: tuple[bool, ...], packed: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The pure form of every node: cotangents, which inputs want one, and unpacked slots in;
    one gradient per differentiable input out."""
    out: list[Any] = []
    context = (grads[0] if grads else None, grads, needs)
    for formula, places in zip(plan.formulas, plan.places, strict=True):
        wanted = needs[len(out) : len(out) + len(formula.inputs)]
        if not any(wanted):
            out.extend([None] * len(wanted))
            continue
        result = formula.rule(*[packed[at] if at >= 0 else context[-1 - at] for at in places])
        if formula.is_joint:
            out.extend([r if w else None for r, w in zip(result, wanted, strict=True)])
        else:
            out.append(result)
    return tuple(out)


def flat_gradients(
    plan: Plan, grads: tuple[Any, ...], needs: tuple[bool, ...], packed: tuple[Any, ...]
) -> tuple[Any, ...]:
    """What an opaque call gives, in order: one gradient for each wanted argument, one for each tensor of a list.
    None where the formula gives none, for nothing flows there; results keep their places."""
    out: list[Any] = []
    for gradient, is_wanted in zip(apply_functional(plan, grads, needs, packed), needs, strict=True):
        if is_wanted:
            out.extend(gradient if type(gradient) in (tuple, list) else (gradient,))
    return tuple(out)


@cache
def needed_slots(plan: Plan, needs: tuple[bool, ...]) -> tuple[int, ...]:
    """Indices of the slots that the formulas wanted by `needs` read."""
    wanted = dict(zip(plan.differentiable, needs, strict=True))
    needed: set[int] = set()
    for formula in plan.formulas:
        if any(wanted[i] for i in formula.inputs):
            needed.update(plan.slots.index(s) for s in formula.sources if s in plan.slots)
    return tuple(sorted(needed))
