"""A program's steps under a capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.ir.graph import Node
from weft.ir.structure import IF, LOOP
from weft.jit.interpreter.code import Code
from weft.jit.interpreter.recording.branches import choose_when_run
from weft.jit.interpreter.recording.effects import raise_when_run
from weft.jit.interpreter.recording.loops import WhenRun
from weft.jit.interpreter.recording.operators import is_symbolic, recorded, refuse_in_block, writes_or_shows
from weft.jit.interpreter.recording.rows import settled
from weft.jit.interpreter.recording.values import UNSET, Asked, NotRecorded, RunTime, is_open
from weft.jit.interpreter.steps import Registers, Step, setting
from weft.ops.op import OPS
from weft.record.blocks import front_ends as blocks
from weft.support.locations import Location
from weft.support.refusals import Caller, passes
from weft.tensor.modes import modes
from weft.types.sym import SymInt

_NOTHING = OPS["prim::Uninitialized"]
_IN_PYTHON = tuple(OPS[f"prim::{n}"] for n in ("PythonOp", "SetAttr"))
_OUTSIDE = tuple(OPS[f"prim::{n}"] for n in ("PythonOp", "SetAttr", "CallBuiltin", "CallMethod"))
_CALLS = tuple(OPS[f"prim::Call{n}"] for n in ("Function", "Method"))
_RAISE = OPS["prim::RaiseException"]
UNROLLED = 4  # steps; a loop of so many that surely are made is written out


class RecordingCode(Code):
    """The steps of a program whose operators are recorded. What hangs on values becomes prim::If and prim::Loop.

    may_widen: whether a step of a loop may give another kind of value than it was given.
    """

    may_widen = False

    def step_of(self, node: Node) -> Step:
        if node.op is IF:
            return self._branch(node)
        if node.op is LOOP:
            return self._loop(node)
        if node.op is _NOTHING:
            return setting(self.place(node.output), UNSET)
        step = super().step_of(node)
        if node.op is _RAISE:
            return at_its_line(self._raise(node, step), node.where)
        if node.op in _OUTSIDE:
            step = _settled(step, [self.place(v) for v in node.inputs()])
        return _once(step, node.op.name) if node.op in _IN_PYTHON else step

    def from_python(self, args: Sequence[Any]) -> Any:
        try:
            *_, result = settled((*args, self(args)))
        except BaseException as error:
            passes(error, Caller.SCRIPT)
            raise
        return result

    def _raise(self, node: Node, step: Step) -> Step:
        """In a block that is recorded, an exception that the run raises where it gets there."""
        read, where = self.reader(node.args), node.where

        def raise_then(registers: Registers) -> None:
            if not blocks.is_in_block():
                return step(registers)
            text, kind = read(registers)
            return raise_when_run(text, kind, where)

        return raise_then

    def calling(self, node: Node, function: Callable[..., Any]) -> Step:
        return at_its_line(super().calling(node, recorded(node.op, function)), node.where)

    def _branch(self, node: Node) -> Step:
        asked = self.read(node.args[0])
        assert isinstance(asked, int)
        blocks = [self.steps_of(b) for b in node.blocks]
        outputs = [self.place(v) for v in node.outputs]

        def choose(registers: Registers) -> None:
            test = registers[asked]
            if type(test) is RunTime:

                def arm(i: int) -> Callable[[], list[Any]]:
                    def run() -> list[Any]:
                        inside = registers.copy()
                        blocks[i].run(inside)
                        return list(blocks[i].results(inside))

                    return run

                values = choose_when_run(test, [arm(0), arm(1)], node.where)
            else:
                block = blocks[0] if test else blocks[1]
                block.run(registers)
                values = list(block.results(registers))
            for out, value in zip(outputs, values, strict=True):
                registers[out] = value

        return choose

    def _loop(self, node: Node) -> Step:
        in_python = super().step_of(node)
        body = self.blocks[node.blocks[0]]
        outputs = [self.place(v) for v in node.outputs]
        index, *carried = body.params
        following = node.blocks[0].results
        goes_round = [r is not p for p, r in zip(node.blocks[0].params[1:], following[1:], strict=True)]
        outer = [self.places[v] for v in node.blocks[0].free_values()]
        steps_surely = following[0] is True
        fills = self.may_widen or any(writes_or_shows(n.op) or n.op in _CALLS for n in node.blocks[0].walk())
        read = self.reader(node.args[:3])

        def repeat(registers: Registers) -> None:
            trip, going, values = read(registers)
            seen = [trip, going, *values, *(registers[place] for place in outer)]
            if not any(is_open(v) or is_symbolic(v) for v in seen):
                return in_python(registers)  # what is known now is computed now
            is_short = type(trip) is int and steps_surely and trip <= UNROLLED
            if going is False or (type(trip) is int and trip <= 0) or is_short:
                return in_python(registers)

            def step(at: Any, inside: Any) -> tuple[Any, list[Any]]:
                mine = registers.copy()
                mine[index] = at
                for place, value in zip(carried, inside, strict=True):
                    mine[place] = value
                body.run(mine)
                goes_on, *results = body.results(mine)
                return goes_on, results

            try:
                final = WhenRun(trip, going, list(values), goes_round, step, fills, node.where).record()
            except NotRecorded:
                if type(trip) in (RunTime, SymInt) or type(going) in (RunTime, Asked):
                    raise
                return in_python(registers)
            for out, value in zip(outputs, final, strict=True):
                registers[out] = value
            return None

        return repeat


def at_its_line(step: Step, where: Location | None) -> Step:
    """Nodes that the step records come from the program's line."""
    if where is None:
        return step

    def run(registers: Registers) -> None:
        if modes.capture is None:
            return step(registers)
        with blocks.at_line(where):
            return step(registers)

    return run


def _settled(step: Step, places: Sequence[int]) -> Step:
    """A step that hands values to Python, which sees them as they are."""

    def run(registers: Registers) -> None:
        for place in places:
            registers[place] = settled(registers[place])
        step(registers)

    return run


def _once(step: Step, name: str) -> Step:
    def only_outside(registers: Registers) -> None:
        refuse_in_block(name)
        step(registers)

    return only_outside
