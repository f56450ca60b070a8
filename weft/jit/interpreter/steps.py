"""Steps: what a program is run as. Each reads and writes registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from weft.ir.graph import Block, Node, Operand, Value
from weft.jit.errors import Error, located
from weft.jit.interpreter.operators import spoken_name
from weft.jit.program import Program
from weft.record.restart import Restart
from weft.support.errors import CaptureError

Registers = list[Any]
Step = Callable[[Registers], None]


@dataclass
class Steps:
    """A block: its steps, the nodes that they come from, and its results."""

    steps: list[Step] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: Callable[[Registers], list[Any]] = field(default=lambda registers: [])
    params: list[int] = field(default_factory=list)

    def run(self, registers: Registers) -> None:
        """Every step in order. An exception gains the line of the program."""
        at = 0
        try:
            for at, step in enumerate(self.steps):  # noqa: B007  (the handler asks where)
                step(registers)
        except Exception as error:
            node = self.nodes[at]
            if (node.blocks and isinstance(error, Error)) or isinstance(error, (Restart, CaptureError)):
                raise  # it has the line of the node within, or is no business of the program
            located_error = located(error, node.where, spoken_name(node))
            if located_error is error:
                raise
            raise located_error from error


class StepMaker(Protocol):
    """What makes the steps of one program (code.py), as those that make single ones know it.

    template: the registers when a call begins, constants in them; entered: the register of the objects whose `with`
    blocks have begun.
    """

    program: Program
    template: Registers
    entered: int | None

    def of(self, program: Program) -> Callable[[Sequence[Any]], Any]:
        """What runs another program."""

    def place(self, value: Value) -> int:
        """The register of a value."""

    def constant(self, value: Any) -> int:
        """A register that holds a constant."""

    def read(self, operand: Operand) -> int | list[Any]:
        """Where an operand is: a register, or a list of such for a tuple that holds values."""

    def reader(self, operands: Sequence[Operand]) -> Callable[[Registers], list[Any]]:
        """What reads the operands of a step."""

    def steps_of(self, block: Block) -> Steps:
        """The steps of a block."""

    def calling(self, node: Node, function: Callable[..., Any]) -> Step:
        """Call a function with a node's operands, and put its results into registers."""


def setting(place: int, value: Any) -> Step:
    """A register gets the same value each time."""

    def run(registers: Registers) -> None:
        registers[place] = value

    return run
