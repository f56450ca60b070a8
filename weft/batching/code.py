"""The steps of a batched program: those of the interpreter, on values that may differ from example to example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.batching.entries import ROW_ENTRIES
from weft.batching.operators import example_by_example, mark_copies, of_node, on_level
from weft.batching.values import Examples, count_of, differs, is_ragged
from weft.ir.graph import Node, values_in
from weft.ir.structure import LOOP
from weft.jit.interpreter.code import Code
from weft.jit.interpreter.recording.values import UNSET
from weft.jit.interpreter.steps import Registers, Step, setting
from weft.layers.transforms.batched import AsksForAValue
from weft.ops.op import OPS

_NOTHING = OPS["prim::Uninitialized"]
# what runs Python's code: functions of weft's and its Modules for all examples at once where they can
_WEFT_OWN = tuple(OPS[f"prim::{n}"] for n in ("CallBuiltin", "CallMethod"))
_ATTRIBUTES = tuple(OPS[f"prim::{n}"] for n in ("GetAttr", "SetAttr"))
_FOREIGN = (*_WEFT_OWN, *_ATTRIBUTES, *(OPS[f"prim::{n}"] for n in ("PythonOp", "CallFunction")))


class BatchingCode(Code):
    """The steps of a program that the pass made."""

    def step_of(self, node: Node) -> Step:
        if node.op is LOOP:
            return self._loop(node)
        if node.op is _NOTHING:
            return setting(self.place(node.output), UNSET)
        step = super().step_of(node)
        return self._foreign(node, step) if node.op in _FOREIGN else step

    def calling(self, node: Node, function: Callable[..., Any]) -> Step:
        op = node.op
        if op in ROW_ENTRIES:
            return super().calling(node, function)

        def for_all(*args: Any) -> Any:
            return of_node(op, function, args) if differs(args) else function(*args)

        return super().calling(node, for_all)

    def _loop(self, node: Node) -> Step:
        """A loop of which all examples make the same steps."""
        read = self.reader(node.args[:3])
        body = self.steps_of(node.blocks[0])
        outputs = [self.place(v) for v in node.outputs]
        index, *carried = body.params

        def repeat(registers: Registers) -> None:
            trip, going, values = read(registers)
            step = 0
            while going and step < trip:
                registers[index] = step
                for place, value in zip(carried, values, strict=True):
                    registers[place] = value
                body.run(registers)
                going, *values = body.results(registers)
                step += 1
            for out, value in zip(outputs, values, strict=True):
                registers[out] = value

        return repeat

    def _foreign(self, node: Node, step: Step) -> Step:
        """A call of what is no program: with all examples at once where that is a function of weft's, else once for
        each."""
        places = [self.place(v) for v in dict.fromkeys(values_in(node.args))]
        outputs = [self.place(v) for v in node.outputs]

        def run(registers: Registers) -> None:
            arguments = [registers[p] for p in places]
            if not differs(arguments):
                return step(registers)

            def called(*values: Any) -> Any:
                mine = registers.copy()
                for place, value in zip(places, values, strict=True):
                    mine[place] = value
                step(mine)
                return tuple([mine[out] for out in outputs])

            results = _of_all(called, arguments, node.op in _WEFT_OWN)
            if node.op in _ATTRIBUTES:
                mark_copies(results)
            for out, value in zip(outputs, results, strict=True):
                registers[out] = value
            return None

        return run


def _of_all(called: Callable[..., Any], values: Sequence[Any], at_once: bool) -> Any:
    args = tuple(values)
    if at_once and not is_ragged(args) and any(isinstance(a, Examples) for a in args):
        try:
            return on_level(called, args, count_of(*args))
        except AsksForAValue:
            pass
    return example_by_example(called, args)
