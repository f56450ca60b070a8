"""weft.explain: what becomes of a function on given arguments, as facts and as a page of text."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from weft.compile.driver import CompiledFunction
from weft.compile.program.entry import Entry
from weft.ir.graph import Graph
from weft.ir.opaque import plan_of_opaque
from weft.passes.fold.notes import latest, notes_of_loops
from weft.programs.executable import Compiled
from weft.programs.store import Miss
from weft.support import registry
from weft.support.errors import ArgumentError


@dataclass
class ProgramFacts:
    """One program: a forward, a backward, or a whole step.

    stages: (name, number of operators) in order. steps: what runs, in order: kernels with the operators that they fuse,
    and what runs outside of native code, with the reason. arena_bytes: None where nothing is planned. loops: what
    became of each loop of Python that left many operators: one loop of the program, or why not.
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

    @property
    def kernels(self) -> list[str]:
        """The native kernels in order, repeats included."""
        return [s for s in self.steps if s.startswith("kernel ")]

    @property
    def foreign(self) -> list[str]:
        """The steps that NumPy or Python runs."""
        return [s for s in self.steps if s.startswith("numpy ")]


@dataclass
class Explanation:
    """What `weft.explain` found; `print` it, or read its fields.

    as_written: why calls run as they are written, with the line, for each structure of arguments that does; where the
    explained call is such a one, there are no programs.
    """

    name: str
    seconds: float
    seconds_compile: float
    programs: list[ProgramFacts]
    size_guards: list[str]
    python_guards: list[str]
    number_guards: list[str]
    numbers: list[str]
    state: list[str]
    misses: list[str] = field(default_factory=list)
    as_written: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def explain_function(function: Any, *args: Any, **kwargs: Any) -> Explanation:
    """What becomes of a function (compiled or not) or module on these arguments. Captures it if no program fits;
    nothing is run.

    Without the arguments that the function needs: what became of it the last time that it was captured.
    ArgumentError if it never was.
    """
    owner = _owner(function)
    lacking = _lacks_arguments(owner.function, args, kwargs)
    if lacking and not owner.entries and not owner.stepwise:
        raise ArgumentError(
            f"explain: {owner.name} takes arguments and was not called yet; name some, "
            f"as in weft.explain({owner.name}, x)"
        )
    if lacking:
        return _of_entry(owner, owner.entries[0], None) if owner.entries else _of_none(owner)
    try:
        entry, call = owner.entry_for(args, kwargs)
    except Exception as error:
        why = owner.why_as_written(error)
        if why is None:
            raise
        return _of_none(owner, why)
    finally:
        owner.forget_users()
    return _of_entry(owner, entry, None if isinstance(call, Miss) else call)


def _of_none(owner: CompiledFunction, *reasons: str) -> Explanation:
    """Of calls that run as they are written."""
    whys = [s.why for s in owner.stepwise]
    return Explanation(
        str(owner.name), 0.0, 0.0, [], [], [], [], [], [], list(owner.misses), list(dict.fromkeys([*reasons, *whys]))
    )


def _of_entry(owner: CompiledFunction, entry: Entry, symbols: dict[str, int] | None) -> Explanation:
    programs = [_program(title, graph, executable, symbols) for title, graph, executable in entry.programs]
    if entry.joint is not None:
        programs[0].title = "forward"
        halves = entry.joint.halves
        # known once the forward has run
        programs.append(_program("backward", halves.backward, entry.joint.backward, None if halves.sizes else symbols))
    return _explanation(owner, entry, programs)


def _lacks_arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if args or kwargs:
        return False
    try:
        inspect.signature(function).bind()
    except TypeError:
        return True
    except ValueError:  # a function that has no signature to look at
        pass
    return False


def _owner(function: Any) -> CompiledFunction:
    if isinstance(function, CompiledFunction):
        return function
    inner = getattr(function, "_compiled", None)  # a compiled module
    if isinstance(inner, CompiledFunction):
        return inner
    if registry.is_module(function):
        return CompiledFunction(function.forward, type(function).__name__)
    return CompiledFunction(function)


def _explanation(owner: CompiledFunction, entry: Entry, programs: list[ProgramFacts]) -> Explanation:
    capture = entry.capture
    return Explanation(
        str(owner.name), entry.seconds_total, entry.seconds_compile, programs,
        [f"{_at(g.where)}{g}" for g in capture.env.guards.values()],
        [f"{_at(g.where)}{g.text}" for g in entry.guards.python.guards],
        [
            f"{_at(g.where)}the answer to a question about a number is {g.answer}"
            for g in capture.python_state.number_guards
        ],
        [n.name for n in capture.python_state.numbers],
        list(_state(entry)),
        list(owner.misses), [s.why for s in owner.stepwise],
    )


def _at(where: Any) -> str:
    return f"{where}: " if where is not None else ""


def _state(entry: Entry) -> Iterator[str]:
    written = {param for _, param in entry.graph.writes}
    for slot in entry.capture.outside.states.values():
        value = entry.graph.params[slot.param]
        yield f"{value.name}: {value.type}{', updated in place' if slot.param in written else ''}"


def _program(title: str, graph: Graph, executable: Any, symbols: dict[str, int] | None) -> ProgramFacts:
    opaque = sum(plan_of_opaque(n.op) is not None for n in graph.walk())
    if not isinstance(executable, Compiled):
        return ProgramFacts(
            title, opaque, [("captured", _count(graph))], [], "interpret",
            [f"interpreted {n.op.name}" for n in graph.nodes], 0, 1,
        )
    executable.optimized()  # with a warm cache the passes have not run yet
    passes = executable.passes
    described = executable.program.describe(symbols)
    return ProgramFacts(
        title, opaque, [(name, _count(g)) for name, g in passes.stages.items()],
        [(r.name, r.seconds, r.nodes) for r in passes.reports if r.changed], described.backend, list(described.steps),
        described.native_segments, described.foreign_segments, described.arena_bytes,
        list(map(str, latest([*notes_of_loops(graph), *passes.loops]))),
    )


def _count(graph: Graph) -> int:
    return sum(1 for _ in graph.walk())


# ---- as text
def _lines(explanation: Explanation) -> Iterator[str]:
    if not explanation.programs:
        yield f"{explanation.name}: no program, runs as it is written"
        yield from _section("why", explanation.as_written)
        return
    yield (
        f"{explanation.name}: captured and compiled in {explanation.seconds * 1e3:.0f} ms, "
        f"of that {explanation.seconds_compile * 1e3:.0f} ms in the compiler"
    )
    for program in explanation.programs:
        yield ""
        yield from _program_lines(program)
    yield ""
    yield from _section("state", explanation.state)
    yield from _section("guards on sizes", explanation.size_guards)
    yield from _section("guards on Python", explanation.python_guards)
    yield from _section("guards on numbers", explanation.number_guards)
    yield from _section("numbers read at each call", explanation.numbers)
    yield from _section("guards that missed so far", explanation.misses)
    yield from _section("other calls that run as they are written", explanation.as_written)


def _section(title: str, entries: list[str]) -> Iterator[str]:
    if entries:
        yield f"{title}: {len(entries)}"
        yield from (f"  {e}" for e in entries)


def _program_lines(program: ProgramFacts) -> Iterator[str]:
    stages = ", ".join(f"{count} {name}" for name, count in program.stages)
    yield f"{program.title}: operators {stages}; {program.opaque_calls} of the captured are backward calls"
    arena = "" if program.arena_bytes is None else f", arena of {program.arena_bytes / 1024:.1f} KiB"
    yield (
        f"  {program.backend}: {len(program.kernels)} kernels, {program.native_segments} native segments, "
        f"{program.foreign_segments} foreign{arena}"
    )
    if program.passes:
        yield (
            "  passes that changed something: "
            + ", ".join(f"{name} ({seconds * 1e3:.1f} ms)" for name, seconds, _ in program.passes)
        )
    for loop in program.loops:
        yield f"  loop: {loop}"
    for step, times in Counter(program.kernels).items():
        name, _, fused = step[len("kernel "):].partition(": ")
        yield f"  {name}{f' x{times}' if times > 1 else ''}: {fused}"
    for step, times in Counter(program.foreign).items():
        name = step.removeprefix("numpy ")
        yield (
            f"  outside native code{f' x{times}' if times > 1 else ''}: {name} runs in NumPy: "
            "it has no native lowering for these arguments"
        )
