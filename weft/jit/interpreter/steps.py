"""Steps: what a program is run as. Each reads and writes registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from weft.ir.graph import Block, Node, Operand, Value
from weft.jit.program import Program

Registers = list[Any]
Step = Callable[[Registers], None]


class BlockSteps(Protocol):
    """The steps of a block. results: what its results are, in the registers; params: the registers of its parameters.
    """

    results: Callable[[Registers], list[Any]]
    params: list[int]

    def run(self, registers: Registers) -> None:
        """Every step in order."""


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

    def steps_of(self, block: Block) -> BlockSteps:
        """The steps of a block."""

    def calling(self, node: Node, function: Callable[..., Any]) -> Step:
        """Call a function with a node's operands, and put its results into registers."""


def setting(place: int, value: Any) -> Step:
    """A register gets the same value each time."""

    def run(registers: Registers) -> None:
        registers[place] = value

    return run
