"""Which loops run as machine code: those that have made some steps, where execution is optimized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.ir.graph import Node
from weft.jit.native.kinds import Unfit, has_form
from weft.support.knobs import knobs

NEVER = -1
STEPS = 48  # that the interpreter makes before a loop is compiled, which costs some milliseconds


class Execution:
    """How programs run. optimized: as machine code where they can; steps: how many the interpreter makes of a loop;
    calls: how often it runs a group of operators.
    """

    optimized = True
    steps = STEPS
    calls = 1


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Within, scripted programs run optimized, or step by step in the interpreter."""
    before = Execution.optimized
    Execution.optimized = bool(should_optimize)
    try:
        yield
    finally:
        Execution.optimized = before


@contextmanager
def compiled_after(steps: int, calls: int = 1) -> Iterator[None]:
    """Within, loops are compiled when they have made so many steps, over all their runs, and groups of operators when
    they have run so often.
    """
    before = Execution.steps, Execution.calls
    Execution.steps, Execution.calls = steps, calls
    try:
        yield
    finally:
        Execution.steps, Execution.calls = before


class HotLoop:
    """What the interpreter knows of one loop. seen: the steps that it has made."""

    def __init__(self, code: Any, node: Node) -> None:
        self.code, self.node = code, node
        self.seen = 0
        self._native: Any = None
        self._may = all(has_form(v.type) for v in node.outputs) and not node.args[3]

    def after(self) -> int:
        """The step at which a run of the loop is handed over; NEVER if it is not."""
        if not self._may or not Execution.optimized or knobs.eager:
            return NEVER
        return max(0, Execution.steps - self.seen)

    def run(
        self, registers: list[Any], step: int, trip: int, going: bool, carried: Sequence[Any]
    ) -> tuple[int, bool, Sequence[Any]]:
        """The loop from a step on, as machine code, as far as that goes."""
        if self._native is None:
            try:
                from weft.jit.native.loop import NativeLoop  # the code generator, for programs that need it

                self._native = NativeLoop(self.code, self.node)
            except Unfit:
                self._may = False
                return step, going, carried
        self._may = self._native.is_worthwhile
        return self._native.run(registers, step, trip, going, carried)  # type: ignore[no-any-return]
