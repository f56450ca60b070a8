"""Entry: one captured program with its guards. `match` says whether a call fits (and binds its symbols), `run` makes
the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.compile.program.call_guards import CallGuards
from weft.compile.program.call_plan import Effects, Grads, Inputs, Symbols
from weft.compile.program.kept_up import NOTHING_KEPT_UP, KeptUp
from weft.compile.program.outputs import Outputs
from weft.ir.graph import Graph
from weft.programs.argument_histories import Before
from weft.programs.executable import Compiled, Interpreted
from weft.programs.joint import JointProgram
from weft.programs.store import Miss
from weft.record.capture import Capture
from weft.record.wrappers import Desugared
from weft.runtime.program import Interrupted
from weft.support import pytree
from weft.support.interrupts import to_the_end

AFTER_A_RUN = "_weft_after_a_run"  # an attribute of errors of the user's code, raised where a program has written


@dataclass(eq=False)
class Entry:
    """One program of a function: its guards, what it is given, what runs, what it does besides, and what its caller
    gets.

    seconds_total: of capture and compilation.
    """

    graph: Graph
    capture: Capture
    sources: list[Any]
    guards: CallGuards
    inputs: Inputs
    executable: Interpreted | Compiled
    effects: Effects
    outputs: Outputs
    seconds_compile: float = 0.0
    seconds_total: float = 0.0

    def __post_init__(self) -> None:
        self.match: Callable[[list[Any], pytree.TreeSpec], Symbols | Miss] = self.guards.match

    @property
    def joint(self) -> JointProgram | None:
        """The backward of what the program returns, if it has one."""
        return self.outputs.joint

    @property
    def meets_wrappers(self) -> bool:
        """Whether the program takes or gives objects of tensor subclasses, taken apart."""
        specs = (self.guards.spec, self.outputs.spec, *[place.spec for place in self.guards.bound.places])
        return any(spec.holds(Desugared) for spec in specs)

    def run(self, leaves: list[Any], symbols: Symbols) -> Any:
        """Run the program on a call that fits."""
        inputs, grads = self.inputs.gather(leaves, symbols)
        before = self.outputs.remembered(leaves, inputs)
        return self.make_whole(self.executable.run, leaves, inputs, symbols, grads, before)

    def make_whole(
        self, run: Callable[[list[Any], Symbols], list[Any]], leaves: list[Any], inputs: list[Any], symbols: Symbols,
        grads: Grads, before: Before,
    ) -> Any:
        """Run the program, its last part where it has several, and do what follows: all of it or nothing, wherever an
        interrupt comes, which is raised behind it. run: gives the results, and is Python's (behind a call of C an
        interrupt may come before its result has a name).
        """
        results: list[Any] | None = None
        interrupt: Interrupted | None = None
        kept_up = KeptUp() if self.outputs.assigned else NOTHING_KEPT_UP
        try:
            try:
                results = run(inputs, symbols)
            except Interrupted as stop:
                results, interrupt = stop.results, stop
            output = self._finish(leaves, inputs, results, symbols, grads, kept_up, before)
        except KeyboardInterrupt:
            if results is not None:  # the program has written its state: what belongs to that follows
                written = results
                to_the_end(lambda: self._finish(leaves, inputs, written, symbols, grads, kept_up, before))
            raise
        except Exception as error:
            if results is not None:
                vars(error)[AFTER_A_RUN] = True
            raise
        if interrupt is not None:
            raise interrupt
        return output

    def _finish(
        self, leaves: list[Any], inputs: list[Any], results: list[Any], symbols: Symbols, grads: Grads,
        kept_up: KeptUp, before: Before,
    ) -> Any:
        """Everything after the program's run. It may be done twice, but for the assignments that are `kept_up`
        already.
        """
        self.outputs.separate(results, inputs, symbols)
        self.effects.apply(leaves, inputs, results, symbols, grads, before.gradients)
        return self.outputs.make(leaves, inputs, results, symbols, kept_up, before)

    @property
    def programs(self) -> list[tuple[str, Graph, Interpreted | Compiled]]:
        """What runs at a call, by title, in order."""
        return [("program", self.graph, self.executable)]

    @property
    def executables(self) -> list[Interpreted | Compiled]:
        """Everything that was compiled for it: what runs at a call, and the backward of what it returns."""
        forward = [executable for _, _, executable in self.programs]
        return forward if self.joint is None else [*forward, self.joint.backward]

    def stages(self) -> dict[str, Any]:
        """Every stage by name."""
        return self.stages_of(self.executable)

    @staticmethod
    def stages_of(executable: Interpreted | Compiled) -> dict[str, Any]:
        """Every stage of one executable by name."""
        stages: dict[str, Any] = executable.stages()
        program = getattr(executable, "program", None)
        if program is not None and hasattr(program, "stages"):
            stages.update(program.stages())
        return stages
