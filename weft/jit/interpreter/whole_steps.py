"""Steps of a program whose block is run as a whole: groups, and gradients of regions."""

from __future__ import annotations

from typing import Any

from weft.ir.graph import Node
from weft.jit.autodiff.gradients import gradients_of
from weft.jit.interpreter.steps import Registers, Step, StepMaker


def group(code: StepMaker, node: Node) -> Step:
    """The body of a group, step by step."""
    body = code.steps_of(node.blocks[0])
    outputs = [code.place(v) for v in node.outputs]

    def run(registers: Registers) -> None:
        body.run(registers)
        for out, value in zip(outputs, body.results(registers), strict=True):
            registers[out] = value

    return run


def gradients(code: StepMaker, node: Node) -> Step:
    """A block run again on aliases, and the engine back through it."""
    read, body = code.reader(node.args), code.steps_of(node.blocks[0])
    outputs = [code.place(v) for v in node.outputs]

    def run(registers: Registers) -> None:
        def again(values: list[Any]) -> list[Any]:
            inside = registers.copy()
            for place, value in zip(body.params, values, strict=True):
                inside[place] = value
            body.run(inside)
            return list(body.results(inside))

        grads, inputs, needs = read(registers)
        for out, value in zip(outputs, gradients_of(again, grads, inputs, needs), strict=True):
            registers[out] = value

    return run
