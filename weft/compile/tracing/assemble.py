"""A program of its parts: the graph compiled, and around it what a call is asked, given, and gets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from weft.compile.program.call_guards import CallGuards
from weft.compile.program.call_plan import Effects, Inputs
from weft.compile.program.calling_entry import CallingEntry, Executable
from weft.compile.program.entry import Entry
from weft.compile.program.outputs import Outputs
from weft.compile.program.owner import Owner
from weft.compile.program.parts import Part, Parts, parts_of
from weft.compile.program.state_guards import StateGuards
from weft.compile.program.step import Step
from weft.guards import Switch
from weft.ir.graph import Graph
from weft.programs.executable import make_executable
from weft.programs.joint import JointProgram
from weft.programs.memory import Memory
from weft.programs.program_io import ArgumentSource, GradEffect
from weft.record.python_call import PythonCall
from weft.record.state import StateSlot
from weft.record.symbolic import SymbolicStorage
from weft.support import pytree
from weft.support.errors import CaptureError
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.compile.tracing.outcome import Outcome


def assemble(
    owner: Owner, switches: tuple[Switch, ...], outcome: Outcome, spec: pytree.TreeSpec, backend: str | None
) -> Entry:
    """Compile the graph that a capture found, and put the parts of the program together. switches: what changes in
    Python's state at its calls of Python."""
    capture, sources, leaves = outcome.capture, outcome.sources, outcome.leaves
    graph = capture.recorder.builder.graph(outcome.results, outcome.writes)
    _refuse_values_of_blocks(graph)
    joint, without = None, capture.recorder.histories.taken()
    if outcome.joint is not None:
        joint = JointProgram.build(graph, *outcome.joint, backend, without)
        graph = joint.halves.forward
    start = time.perf_counter()
    cut = _cut(outcome, graph) if capture.calls.made else Parts([Part(graph)], [])
    compiled = [(part, _executable(part, backend)) for part in cut.parts]
    seconds = time.perf_counter() - start
    memory, inputs = _memory(outcome), Inputs(sources)
    steps, raised = _steps(outcome, memory)
    effects = Effects(
        graph.writes, sources, outcome.grad_effects, outcome.number_writes, outcome.random, raised, memory
    )
    outputs = Outputs(
        outcome.returns, outcome.spec, outcome.leaves_grad, outcome.assigned, outcome.spent, outcome.late,
        outcome.made_leaves, outcome.retained, outcome.changes, joint, capture, sources,
    )
    state = StateGuards(owner, capture, sources, memory, inputs, outputs, leaves, outcome.apart)
    guards = CallGuards(  # made last: passes may ask about sizes
        outcome.facts, leaves, spec, outcome.checks, state, outcome.bound, sources, outcome.random, capture
    )
    last = compiled[-1][1]
    assert last is not None
    components = (graph, capture, sources, guards, inputs, last, effects, outputs, seconds)
    if not steps:
        return Entry(*components)
    return CallingEntry(
        *components, owner=owner, parts=compiled, calls=steps, slots=cut.slots, texts=_texts(outcome),
        switches=switches,
    )


def _refuse_values_of_blocks(graph: Graph) -> None:
    """Raises CaptureError where a value that a branch or a loop body computes is read outside of it: Python kept it
    (an attribute, a list, a variable of an outer function), but whether, and how often, the block runs is known only
    when the program runs.
    """
    if any(node.blocks for node in graph.nodes):
        for value in graph.block.free_values():
            where = value.node.where if value.node is not None else None
            raise CaptureError(
                f"{f'{where}: ' if where else ''}a branch of weft.cond, or the body of a loop, keeps a value that it "
                "computes for later (in an attribute, a list or a variable outside): return it from the branch or "
                "body, and keep what weft.cond, weft.scan or weft.while_loop returns"
            )


def _executable(part: Part, backend: str | None) -> Executable | None:
    return None if part.graph is None else make_executable(part.graph, backend)


# ---- calls of Python
def _cut(outcome: Outcome, graph: Graph) -> Parts:
    calls = outcome.capture.calls.made
    return parts_of(graph, [call.written for call in calls], [call.likes for call in calls], _texts(outcome))


def _texts(outcome: Outcome) -> list[str]:
    """Where each parameter comes from, as a text that is the same in every program of the function."""
    return [_text(source) for source in outcome.sources]


def _text(source: Any) -> str:
    kind = type(source).__name__
    about = next(getattr(source, name) for name in ("tensor", "slot", "number", "leaf") if hasattr(source, name))
    if isinstance(about, Tensor):
        return f"{kind} {id(about)}"
    return f"{kind} {getattr(about, 'key', None) or (id(about.storage) if hasattr(about, 'storage') else about)}"


def _steps(outcome: Outcome, memory: Memory) -> tuple[list[Step], dict[int, tuple[Any, int]]]:
    """The calls of Python in the program's order, and by how much it raises versions behind the last one."""
    done: dict[int, int] = {}
    steps = []
    for call, (guards, check) in zip(outcome.capture.calls.made, outcome.behind, strict=True):
        raised = _behind(call.raised, done)
        done = {key: by for key, (_, by) in call.raised.items()}
        resolved = [_effect(outcome, slot, param) for slot, param in call.grads]
        zeroed = [_effect(outcome, slot, None) for slot in call.zeroed]
        current = [_effect(outcome, slot, param) for slot, param in call.known]
        effects = Effects(list(enumerate(call.written)), outcome.sources, resolved, [], call.random, raised, memory)
        saved = [tensor for storage in call.saved if (tensor := _outside(outcome, storage)) is not None]
        steps.append(Step(call, effects, guards, check, _arguments(outcome, call), zeroed, current, saved))
    return steps, _behind(outcome.raised, done)


def _behind(raised: dict[int, tuple[Any, int]], done: dict[int, int]) -> dict[int, tuple[Any, int]]:
    return {key: (storage, by - done.get(key, 0)) for key, (storage, by) in raised.items()}


def _effect(outcome: Outcome, slot: Any, param: int | None) -> GradEffect:
    real = outcome.capture.leaf_gradients.real(slot.tensor)
    return GradEffect(slot, real, None, param, outcome.leaf_of(real))


def _outside(outcome: Outcome, storage: SymbolicStorage) -> StateSlot | int | None:
    """State, or the place of an argument; None for memory that only the program has."""
    slot: StateSlot | None = storage.slot
    if slot is not None:
        return slot if slot.leaf is None else slot.leaf
    source = None if storage.param is None else outcome.sources[storage.param]
    return source.leaf if isinstance(source, ArgumentSource) else None


def _arguments(outcome: Outcome, call: PythonCall) -> dict[int, int]:
    """Which of what a hook is given are arguments of the program's call."""
    arguments = {}
    for i, leaf in enumerate(call.given):
        at = outcome.leaf_of(outcome.capture.leaf_gradients.real(leaf)) if isinstance(leaf, Tensor) else None
        if at is not None:
            arguments[i] = at
    return arguments


def _memory(outcome: Outcome) -> Memory:
    """Where the state lies that the program depends on."""
    arguments = {id(leaf) for leaf in outcome.leaves}
    met = [leaf for leaf in outcome.met if id(leaf) not in arguments]
    return Memory(outcome.capture.outside.states.values(), outcome.named - arguments, met)
