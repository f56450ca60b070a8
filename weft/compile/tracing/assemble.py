"""A program of its parts: the graph compiled, and around it what a call is asked, given, and gets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from weft.compile.program.call_guards import CallGuards
from weft.compile.program.call_plan import Effects, Inputs
from weft.compile.program.entry import Entry
from weft.compile.program.executable import make_executable
from weft.compile.program.joint import JointProgram
from weft.compile.program.memory import Memory
from weft.compile.program.outputs import Outputs
from weft.compile.program.state_guards import StateGuards
from weft.support import pytree

if TYPE_CHECKING:
    from weft.compile.driver import CompiledFunction
    from weft.compile.tracing.outcome import Outcome


def assemble(owner: CompiledFunction, outcome: Outcome, spec: pytree.TreeSpec, backend: str | None) -> Entry:
    """Compile the graph that a capture found, and put the parts of the program together."""
    capture, sources, leaves = outcome.capture, outcome.sources, outcome.leaves
    graph = capture.recorder.builder.graph(outcome.results, outcome.writes)
    joint = None
    if outcome.joint is not None:
        joint = JointProgram.build(graph, *outcome.joint, backend)
        graph = joint.halves.forward
    start = time.perf_counter()
    executable = make_executable(graph, backend)
    seconds = time.perf_counter() - start
    memory, inputs = _memory(outcome), Inputs(sources)
    effects = Effects(
        graph, sources, outcome.grad_effects, outcome.number_writes, outcome.random, outcome.raised, memory
    )
    outputs = Outputs(
        outcome.returns, outcome.spec, outcome.settings, outcome.assigned, outcome.spent, outcome.late,
        outcome.made_leaves, joint, capture, sources,
    )
    state = StateGuards(owner, capture, sources, memory, inputs, outputs, leaves)
    guards = CallGuards(  # made last: passes may ask about sizes
        outcome.facts, leaves, spec, outcome.checks, state, outcome.bound, sources, outcome.random, capture
    )
    return Entry(graph, capture, sources, guards, inputs, executable, effects, outputs, seconds)


def _memory(outcome: Outcome) -> Memory:
    """Where the state lies that the program depends on."""
    arguments = {id(leaf) for leaf in outcome.leaves}
    met = [leaf for leaf in outcome.met if id(leaf) not in arguments]
    return Memory(outcome.capture.outside.states.values(), outcome.named - arguments, met)
