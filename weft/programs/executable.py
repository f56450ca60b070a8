"""Executables: one interface over the back ends. `run(inputs, symbols)` gives the graph's results;
those in graph.writes land in their inputs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.ir.evaluate import interpret
from weft.ir.graph import Graph
from weft.ir.structure import LOOP
from weft.passes.partition import Halves
from weft.passes.pipeline import fold, optimize, optimize_folded
from weft.passes.recompute import recompute
from weft.passes.run import Run
from weft.programs.carried import CarriedProgram
from weft.programs.live_programs import LiveProgram, is_sharable, living_programs
from weft.programs.program_cache import (
    added_since,
    find_program,
    guards_text,
    program_key,
    store_guards,
    with_answers,
)
from weft.runtime.cache import Cache, user_cache
from weft.runtime.segments import HostSegment, Layout
from weft.runtime.storage import root_of
from weft.support.counters import counters
from weft.support.knobs import knobs
from weft.support.observers import observers


class Interpreted:
    """Runs the captured graph node by node (opaque backward calls included)."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.passes = Run()

    @property
    def captured(self) -> Graph:
        """The graph."""
        return self.graph

    def run(self, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
        """One call, or what an observer makes of it."""
        if observers.executables is not None:
            return observers.executables(self, inputs, symbols)  # type: ignore[no-any-return]
        return self.compute(inputs, symbols)

    def compute(self, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
        """Interpret, then write what is to be written. A result that is not written has memory of its own,
        row-major."""
        results = own_memory(interpret(self.graph, inputs, symbols), inputs)
        for position, param in self.graph.writes:
            target = inputs[param]
            np.copyto(target, results[position])
            results[position] = target
        counters.foreign_segments += 1
        return results

    def stages(self) -> dict[str, Any]:
        """The captured graph, and what the compiler would make of it."""
        optimize(self.graph, self.passes)
        return dict(self.passes.stages)


def own_memory(results: list[Any], inputs: Sequence[Any]) -> list[Any]:
    """The results, those copied that show memory of an input or of an earlier result, or are not row-major."""
    taken = {id(root_of(x)) for x in inputs if isinstance(x, np.ndarray)}
    fresh: list[Any] = []
    for r in results:
        r = np.asarray(r) if isinstance(r, np.generic) else r
        if isinstance(r, np.ndarray):
            if id(root_of(r)) in taken or not r.flags.c_contiguous:
                r = r.copy(order="C")
            taken.add(id(root_of(r)))
        fresh.append(r)
    return fresh


class _LoopInPython(Exception):
    """A loop that folding has made is not native."""


class Compiled:
    """Runs the program that the native (or NumPy) back end made of the optimized graph.

    Where a program of the same captured graph is alive, or in the disk cache, neither the passes nor LLVM run:
    the text of the folded graph is the key.
    """

    def __init__(self, graph: Graph, backend: str) -> None:
        self.captured, self.backend = graph, backend
        if backend == "numpy":
            from weft.codegen.program.compile import compile_program  # deferred: brings in llvmlite

            self._take(folds=False)
            self.program = compile_program(self.optimized, backend=backend)
            return
        try:
            self._live = self._take(folds=True)._code()
        except _LoopInPython:
            self._live = self._take(folds=False)._code()
        self.program = self._live.code.program(self.optimized)

    def _take(self, folds: bool) -> Compiled:
        """Begin with the captured graph. folds: whether what repeats in it becomes loops."""
        self.folds, self.passes = folds, Run()
        self.folded = fold(self.captured, self.passes, folds)
        self._optimized: Graph | None = None
        return self

    def _code(self) -> LiveProgram:
        text = self._text = program_key(self.folded)  # (passes will add answers to it)
        return self._living(text) if is_sharable(self.folded) else self._compile(text, Cache(None))

    def _refuse_loops(self, layout: Layout) -> None:
        """Raises _LoopInPython where a loop that folding has made would run in NumPy, node by node, because something
        in it is not native: as nodes only that leaves the native program."""
        nodes = self.optimized().nodes
        loops = sum(nodes[s.node].op is LOOP for s in layout.segments if isinstance(s, HostSegment))
        if loops and loops > sum(node.op is LOOP for node in self.captured.nodes):
            raise _LoopInPython

    def _living(self, text: str) -> LiveProgram:
        """The code that a program of the same graph has; where there is none, this one's."""
        self._living_programs = living_programs(text)  # (as long as this one lives)
        match = self._living_programs.find(self.folded.env)
        return self._living_programs.add(self._compile(text, user_cache())) if match is None else match[0]

    def _compile(self, text: str, cache: Cache) -> LiveProgram:
        """The graph's code, from the disk cache or new."""
        from weft.codegen.program.compile import compile_code  # deferred: brings in llvmlite

        env, before = self.folded.env, frozenset(self.folded.env.guards)
        key, cached = find_program(cache, text, env)
        if cached is None:
            self.optimized()
        added = added_since(env, before) if cached is None else cached
        env.guards.update((g.relation, g) for g in added if g.relation not in before)
        code = compile_code(
            self.optimized, cache=cache, cache_key=with_answers(key, added),
            accept=self._refuse_loops if self.folds else None,
        )
        if cached is None:
            store_guards(cache, key, added)
            self._show_kernels()
        return LiveProgram(code, tuple(added))

    def to_carry(self) -> CarriedProgram | None:
        """The code with what says when it fits, for another process; None where there is none that another may take."""
        if self.backend == "numpy" or not is_sharable(self.folded):
            return None
        from weft.codegen.program.compile import code_bytes  # deferred: brings in llvmlite

        guards = self._live.guards
        code = code_bytes(self.optimized, with_answers(self._text, guards))
        return None if code is None else CarriedProgram(self._text, guards_text(guards), code)

    def _show_kernels(self) -> None:
        for word in ("nests", "llvm"):
            if word in knobs.debug:
                print(f"{word}:\n{self.stages()[word]}", file=sys.stderr)

    def optimized(self) -> Graph:
        """The graph after the pipeline (run when first asked for)."""
        if self._optimized is None:
            self._optimized = optimize_folded(self.folded, self.passes, self.folds)
        return self._optimized

    def run(self, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
        """One call of the program, or what an observer makes of it."""
        if observers.executables is not None:
            return observers.executables(self, inputs, symbols)  # type: ignore[no-any-return]
        return self.program.run(inputs, symbols)

    def compute(self, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
        """One call of the program."""
        return self.program.run(inputs, symbols)

    def runs_loops_in_numpy(self) -> bool:
        """Whether a loop runs in NumPy, node by node, since something in it is not native."""
        steps = self.program.describe(None).steps if self.backend != "numpy" else ()
        return any(step.startswith("numpy ") and LOOP.name in step for step in steps)

    def stages(self) -> dict[str, Any]:
        """The graph after each group of passes; in native code also its kernels' loops and LLVM text."""
        from weft.codegen.stages import kernel_stages  # deferred: brings in llvmlite

        graph = self.optimized()
        kernels = {} if self.backend == "numpy" else kernel_stages(graph)
        return {**self.passes.stages, **kernels}


def make_executable(graph: Graph, backend: str | None = None) -> Interpreted | Compiled:
    """The executable of a captured graph on the back end that the knobs choose."""
    name = backend or knobs.backend
    return Interpreted(graph) if name == "interpret" else Compiled(graph, name)


def chosen(halves: Halves, results: int, backend: str | None) -> Halves:
    """Halves with the choice of what is saved. The interpreter runs what was captured, and saves what that names."""
    is_interpreted = (backend or knobs.backend) == "interpret"
    return halves if is_interpreted else recompute(halves, results)
