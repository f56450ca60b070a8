"""What is told of something that ran as programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.interop.streams import Target
from weft.ir.graph import Graph
from weft.ir.opaque import plan_of_opaque
from weft.passes.fold.notes import latest, notes_of_loops
from weft.programs.executable import Compiled
from weft.programs.measured import Measured, measure
from weft.support.locations import lines_text


@dataclass
class KernelTimes:
    """One kernel of a program: seconds of all its launches in one call, the user's lines (`train.py:12, 14`), the names
    of the parameters, arguments and state that it reads or writes, bytes and operations of one launch, its operators,
    and its loops as text."""

    name: str
    seconds: float
    launches: int
    lines: str
    params: list[str]
    bytes: int
    operations: int
    operators: tuple[str, ...]
    nest: str


@dataclass
class ProgramFacts:
    """One program: a forward, a backward, or a whole step.

    stages: (name, number of operators) in order. steps: what runs, in order: kernels with the operators that they fuse,
    and what runs outside of native code, with the reason. arena_bytes: None where nothing is planned. loops: what
    became of each loop of Python that left many operators: one loop of the program, or why not.
    param_names: what the user calls the inputs. inputs: what to measure with, of these sizes; None: what it was run on
    last.
    """

    title: str
    opaque_calls: int
    stages: list[tuple[str, int]]
    passes: list[tuple[str, float, int]]
    backend: str
    steps: list[str]
    native_segments: int = 0
    foreign_segments: int = 0
    arena_bytes: int | None = None
    loops: list[str] = field(default_factory=list)
    seconds_passes: float = 0.0
    param_names: list[str] = field(default_factory=list, repr=False)
    executable: Any = field(default=None, repr=False)
    inputs: list[Any] | None = field(default=None, repr=False)
    sizes: dict[str, int] | None = field(default=None, repr=False)
    _measured: Measured | str | None = field(default=None, repr=False)

    @property
    def kernels(self) -> list[str]:
        """The native kernels in order, repeats included."""
        return [s for s in self.steps if s.startswith("kernel ")]

    @property
    def foreign(self) -> list[str]:
        """The steps that NumPy or Python runs."""
        return [s for s in self.steps if s.startswith("numpy ")]

    @property
    def measured(self) -> Measured | str:
        """The times of a call, measured when first asked for, on copies; or why there are none."""
        if self._measured is None:
            if not isinstance(self.executable, Compiled):
                self._measured = "it is interpreted"
            elif self.backend != "llvm":
                self._measured = "nothing of it is native code"
            else:
                self._measured = measure(
                    self.executable.program, self.executable.optimized(), self.inputs, self.sizes
                )
            self.inputs = None
        return self._measured

    @property
    def kernel_times(self) -> list[KernelTimes]:
        """The kernels, the slowest first; [] where there are no times."""
        times = self.measured
        if isinstance(times, str):
            return []
        parts = self.executable.program.parts
        kernels = []
        for number, (seconds, launches) in times.kernels.items():
            facts = parts.kernels[number]
            size, work = times.sizes[number]
            names = [self.param_names[i] for i in facts.params if i < len(self.param_names)]
            kernels.append(KernelTimes(
                facts.name, seconds, launches, lines_text(facts.lines), names, size, work, facts.operators, facts.nest
            ))
        return sorted(kernels, key=lambda k: k.seconds, reverse=True)

    @property
    def foreign_lines(self) -> list[str]:
        """What runs outside of native code: `train.py:7: aten::linalg_eigh runs in NumPy`."""
        if not isinstance(self.executable, Compiled) or not self.foreign:
            return []
        program = self.executable.program
        nodes = [getattr(s, "node", None) for s in program.layout.segments]
        steps = dict.fromkeys(program.parts.host[n] for n in nodes if n is not None)
        return [f"{lines_text(lines) or self.title}: {operator}" for operator, lines in steps]


@dataclass
class Explanation:
    """What `weft.explain` tells. Print it, or read its fields.

    kind: "compiled", "split", "lazy", "backward" (compiled autograd) or "script". where: the line of its definition.
    seconds, seconds_compile: of the first call: of capture and compilation together, and of compilation alone; 0 where
    nobody timed them. seconds_checks: of what Python does before a program runs, where it could be measured.
    calls, seconds_call, seconds_programs: how often it was called while somebody looked, and the medians of a call and
    of the programs in it; the rest is Python.
    misses: why calls were captured anew. breaks: where and why one call is several programs, or Python runs in between.
    as_written: why calls run as they are written, with the line, for each structure of arguments that does; where the
    explained call is such a one, there are no programs.
    """

    name: str
    seconds: float = 0.0
    seconds_compile: float = 0.0
    programs: list[ProgramFacts] = field(default_factory=list)
    size_guards: list[str] = field(default_factory=list)
    python_guards: list[str] = field(default_factory=list)
    number_guards: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    as_written: list[str] = field(default_factory=list)
    kind: str = "compiled"
    where: str = ""
    breaks: list[str] = field(default_factory=list)
    seconds_checks: float | None = None
    calls: int = 0
    seconds_call: float = 0.0
    seconds_programs: float = 0.0
    graphs: list[Graph] = field(default_factory=list, repr=False)

    def slowest_kernels(self) -> list[tuple[KernelTimes, ProgramFacts]]:
        """The kernels of all programs with their program, the slowest first."""
        kernels = [(k, p) for p in self.programs for k in p.kernel_times]
        return sorted(kernels, key=lambda pair: pair[0].seconds, reverse=True)

    @property
    def guards(self) -> list[str]:
        """Everything that a program depends on: sizes, Python's state, answers to questions about numbers."""
        return [*self.size_guards, *self.python_guards, *self.number_guards]

    @property
    def seconds_passes(self) -> float:
        """Of the passes from graph to graph, within the compilation (or now, where the code came from the disk)."""
        return sum([p.seconds_passes for p in self.programs])

    def details(self) -> str:
        """Everything, as text: programs with all kernels, state, guards."""
        from weft.explanations.text import details_lines  # (it knows the facts)

        return "\n".join(details_lines(self))

    def save(self, path: Target) -> None:
        """Write a page of HTML that a browser shows without a network: the source with the time of each line, kernels
        with their loops and machine code, a timeline of threads, memory over time. path: of a file, or a binary file.
        Programs are timed on copies. Raises OSError.
        """
        from weft.explanations.page import write_page  # (it knows the facts)

        write_page([self], path)

    def __str__(self) -> str:
        from weft.explanations.text import lines_of  # (it knows the facts)

        return "\n".join(lines_of(self))

    def _repr_html_(self) -> str:
        from weft.explanations.table import html_of  # (it knows the facts)

        return html_of(self)


def program_facts(
    title: str, graph: Graph, executable: Any, symbols: dict[str, int] | None = None, names: list[str] | None = None,
    inputs: list[Any] | None = None,
) -> ProgramFacts:
    """The facts of one executable. symbols: of a call; names: of the program's inputs; inputs: to measure with."""
    opaque = sum(plan_of_opaque(n.op) is not None for n in graph.walk())
    if not isinstance(executable, Compiled):
        return ProgramFacts(
            title, opaque, [("captured", count_nodes(graph))], [], "interpret",
            [f"interpreted {n.op.name}" for n in graph.nodes], 0, 1, executable=executable,
        )
    executable.optimized()  # with a warm cache the passes have not run yet
    passes = executable.passes
    described = executable.program.describe(symbols)
    return ProgramFacts(
        title, opaque, [(name, count_nodes(g)) for name, g in passes.stages.items()],
        [(r.name, r.seconds, r.nodes) for r in passes.reports if r.changed], described.backend, list(described.steps),
        described.native_segments, described.foreign_segments, described.arena_bytes,
        list(map(str, latest([*notes_of_loops(graph), *passes.loops]))), sum(r.seconds for r in passes.reports),
        names or [], executable, inputs, symbols if inputs else None,
    )


def count_nodes(graph: Graph) -> int:
    """Operators of a graph, blocks included."""
    return sum(1 for _ in graph.walk())
