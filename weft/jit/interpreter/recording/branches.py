"""Branches of a program that is captured, where they hang on what is only known when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.ir.graph import Block
from weft.jit.interpreter.recording.containers import Container, OpenBlock, containers
from weft.jit.interpreter.recording.values import (
    MOST_OPTIONS,
    UNSET,
    NotRecorded,
    RunTime,
    form_of,
    is_number,
    kind_of,
    nothing_like,
    number_tensor,
    options_of,
    parts_of,
    refusal,
    remade,
    same_type,
)
from weft.record.blocks import front_ends as blocks
from weft.record.blocks.memory import end_of
from weft.record.blocks.recorded import Recorded
from weft.support.errors import WeftError
from weft.support.locations import Location
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import Type

Arms = Sequence[Callable[[], Sequence[Any]]]


def choose_when_run(test: RunTime, arms: Arms, where: Location | None) -> list[Any]:
    """The results of a branch whose condition is only known when the program runs; what its blocks write to lists and
    dicts around them is written. Raises NotRecorded.
    """
    recorders = [_Arm(run) for run in arms]
    try:
        recorded = blocks.record_branches([arm.record for arm in recorders])
    except WeftError as error:
        raise refusal("a branch", error) from error
    joint = _Joint(recorders, recorded)
    values = [joint.of(a, b) for a, b in zip(recorders[0].values, recorders[1].values, strict=True)]
    written = _written(recorders)
    contents = [(c, [joint.of(a, b) for a, b in zip(*both, strict=True)], model) for c, both, model in written]
    picks = [p for p in joint.picks if p.operands is not None]
    branches = tuple([_with_results(recorded[i], [p.part(i) for p in picks]) for i in (0, 1)])
    chosen = blocks.choose(number_tensor(test), branches, [p.order for p in picks], where)  # type: ignore[arg-type]
    for pick, tensor in zip(picks, chosen, strict=True):
        for outer in pick.outer:
            blocks.may_share(tensor, outer)
        pick.value = tensor if pick.kind is None else RunTime(tensor, pick.kind, pick.options)
    for container, elements, model in contents:
        containers().replace(container, remade(model, [make() for make in elements]))
    return [make() for make in values]


@dataclass(eq=False)
class _Part:
    """A value that a branch gives. at: where it stands among the block's results (-1: it is no value of the graph);
    parts: what it holds at the end of the branch; model: what it is like then (a list of the outside has its old
    elements again behind the branch).
    """

    value: Any
    at: int = -1
    parts: tuple[_Part, ...] | None = None
    model: Any = None


class _Arm:
    """One branch: what it gives, and what it leaves in lists and dicts around it."""

    def __init__(self, run: Callable[[], Sequence[Any]]) -> None:
        self.run = run
        self.values: list[_Part] = []
        self.left: dict[int, tuple[Container, Container, tuple[_Part, ...]]] = {}
        self.tensors: list[Tensor] = []
        self.block: OpenBlock

    def record(self) -> list[Tensor]:
        """Run it; what it gives that is a value of the graph."""
        with containers().block() as self.block:
            self.values = [self._part(value) for value in self.run()]
            self.left = {
                key: (container, contents, self._parts(contents))
                for key, (container, contents) in self.block.left().items()
            }
        return self.tensors

    def _parts(self, value: Any) -> tuple[_Part, ...]:
        return tuple([self._part(part) for part in parts_of(value) or ()])

    def _part(self, value: Any) -> _Part:
        if parts_of(value) is not None:
            return _Part(value, parts=self._parts(value), model=_model(value))
        if not isinstance(value, Tensor) and not is_number(value):
            return _Part(value)
        self.tensors.append(value if isinstance(value, Tensor) else number_tensor(value))
        return _Part(value, len(self.tensors) - 1)


def _written(arms: Sequence[_Arm]) -> list[tuple[Container, tuple[tuple[_Part, ...], ...], Container]]:
    """The containers that one of the branches writes, what they hold behind either, and what that is like."""
    written = []
    for key, container in {k: c for arm in arms for k, (c, _, _) in arm.left.items()}.items():
        models = [arm.left[key][1] if key in arm.left else container.copy() for arm in arms]
        if not _keeps_its_form(*models):
            raise NotRecorded("the branches leave other elements in a list or dict")
        both = tuple([
            arm.left[key][2] if key in arm.left else tuple([_outer(v) for v in parts_of(model) or ()])
            for arm, model in zip(arms, models, strict=True)
        ])
        written.append((container, both, models[0]))
    return written


def _keeps_its_form(a: Any, b: Any) -> bool:
    return len(parts_of(a) or ()) == len(parts_of(b) or ()) and form_of(a) == form_of(b)


def _outer(value: Any) -> _Part:
    """A value of the block around the branch."""
    parts = parts_of(value)
    return _Part(value, -1, None if parts is None else tuple([_outer(part) for part in parts]), _model(value))


def _model(value: Any) -> Any:
    return value.copy() if isinstance(value, (list, dict)) else value


class _Joint:
    """What stands for what two branches give. picks: the values of which the program chooses one."""

    def __init__(self, arms: Sequence[_Arm], recorded: Sequence[Recorded]) -> None:
        self.arms, self.recorded = arms, recorded
        self.picks: list[_Pick] = []
        self.made: dict[tuple[int, int], Container] = {}

    def of(self, a: _Part, b: _Part) -> Callable[[], Any]:
        """What gives the value, once the choice is recorded."""
        if _are_same(a.value, b.value):
            return lambda: a.value
        if a.value is UNSET and b.parts is not None:
            a = _Part(UNSET, parts=(_Part(UNSET),) * len(b.parts))
        elif b.value is UNSET and a.parts is not None:
            b = _Part(UNSET, parts=(_Part(UNSET),) * len(a.parts))
        elif not _fit(a, b):
            raise NotRecorded("the branches give different structures")
        if a.parts is None or b.parts is None:
            pick = _pick(a, b, self.recorded)
            self.picks.append(pick)
            return lambda: pick.value
        elements = [self.of(x, y) for x, y in zip(a.parts, b.parts, strict=True)]
        return lambda: self._remade(a, b, [make() for make in elements])

    def _remade(self, a: _Part, b: _Part, elements: list[Any]) -> Any:
        joined = remade(b.model if a.value is UNSET else a.model, elements)
        if not isinstance(joined, (list, dict)):
            return joined
        key = id(a.value), id(b.value)
        if key not in self.made:
            others = [
                p.value for p, arm in zip((a, b), self.arms, strict=True)
                if p.value is not UNSET and not arm.block.has_made(p.value)
            ]
            others += [c for pair, c in self.made.items() if pair[0] == key[0] or pair[1] == key[1]]
            containers().stands_for(joined, others)
            self.made[key] = joined
        return self.made[key]


def _fit(a: _Part, b: _Part) -> bool:
    if a.parts is None or b.parts is None:
        return a.parts is b.parts
    return _keeps_its_form(a.model, b.model)


@dataclass(eq=False)
class _Pick:
    """What becomes of two values: one that both have, or operands of the two blocks, with their edges. outer: the
    tensors among both that were there before the branch.
    """

    value: Any = None
    operands: tuple[Any, Any] | None = None
    order: Any = None
    kind: Type | None = None
    options: tuple[Any, ...] | None = None
    outer: list[Tensor] = field(default_factory=list)

    def part(self, arm: int) -> Any:
        """Operand and edge in one of the blocks."""
        assert self.operands is not None
        return self.operands[arm]


def _pick(a: _Part, b: _Part, arms: Sequence[Recorded]) -> _Pick:
    present = [part for part in (a, b) if part.value is not UNSET]
    kinds = [kind_of(part.value) for part in present]
    if any(k is not kinds[0] for k in kinds):
        raise NotRecorded("the branches give different types")
    for part in present:
        if not isinstance(part.value, Tensor) and not is_number(part.value):
            raise NotRecorded(f"a value of type {type(part.value).__name__} hangs on a branch")
    parts = [_operand(part, present[0], block) for part, block in zip((a, b), arms, strict=True)]
    types = [p[0].type for p in parts]
    if not same_type(*types):
        raise NotRecorded(f"the branches give {types[0]} and {types[1]}")
    orders = [blocks.order_of(part.value) for part in (a, b)]
    order = orders[0] if orders[0] == orders[1] else None
    pick = _Pick(operands=(parts[0], parts[1]), order=order, kind=kinds[0], options=_either([p.value for p in present]))
    pick.outer = [p.value for p in present if isinstance(p.value, Tensor) and blocks.is_from_outside(p.value)]
    return pick


def _either(values: Sequence[Any]) -> tuple[Any, ...] | None:
    alternatives = [options_of(v) for v in values]
    if any(options is None for options in alternatives):
        return None
    joined = tuple(dict.fromkeys(v for options in alternatives for v in options or ()))
    return joined if len(joined) <= MOST_OPTIONS else None


def _are_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    plain = (bool, int, float, str, type(None))
    return type(a) is type(b) and type(a) in plain and a == b and repr(a) == repr(b)


def _operand(part: _Part, model: _Part, block: Recorded) -> tuple[Any, Any]:
    """The operand, and where its gradient flows."""
    if part.at >= 0:
        return block.results[part.at], block.ends[part.at]
    if part.value is UNSET:
        return blocks.operand(nothing_like(model.value)), None
    tensor = part.value if isinstance(part.value, Tensor) else number_tensor(part.value)
    return blocks.operand(tensor), end_of(tensor)


def _with_results(block: Recorded, parts: Sequence[tuple[Any, Any]]) -> Recorded:
    body = Block(block.block.params, block.block.nodes, tuple([operand for operand, _ in parts]))
    return replace(block, block=body, ends=tuple([edge for _, edge in parts]))
