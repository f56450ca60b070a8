"""A program of its parts: the graph compiled, and around it what a call is asked, given, and gets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.compile.assumptions import Assumptions
from weft.compile.program.boundary import Boundary
from weft.compile.program.call_guards import CallGuards
from weft.compile.program.call_plan import Effects, Inputs
from weft.compile.program.calling_entry import CallingEntry
from weft.compile.program.entry import Entry
from weft.compile.program.outputs import Outputs
from weft.compile.program.owner import Owner
from weft.compile.program.parts import Parts, Place, ProgramPart, parts_of
from weft.compile.program.state_guards import StateGuards
from weft.compile.program.step import PythonStep
from weft.ir.graph import Graph
from weft.ir.value_numbers import ValueNumbers
from weft.ops.geometry import Geometry
from weft.programs.executable import Compiled, make_executable
from weft.programs.joint import JointProgram
from weft.programs.memory import Memory
from weft.programs.program_io import ArgumentSource, GradEffect, NumberSource, StateSource
from weft.record.numbers.random_state import RandomState
from weft.record.python_call import PythonCall
from weft.record.restart import Restart
from weft.record.state import StateSlot
from weft.record.symbolic import SymbolicStorage
from weft.support import pytree
from weft.support.errors import CaptureError
from weft.tensor.tensor import Tensor
from weft.types.dims import Expr

if TYPE_CHECKING:
    from weft.compile.tracing.outcome import Outcome


def assemble(
    owner: Owner, assumptions: Assumptions, outcome: Outcome, spec: pytree.TreeSpec, backend: str | None
) -> Entry:
    """Compile the graph that a capture found, and put the parts of the program together."""
    capture, sources, leaves = outcome.capture, outcome.sources, outcome.leaves
    graph = capture.recorder.builder.graph(outcome.results, outcome.writes)
    _refuse_values_of_blocks(graph, capture.repeats.loops > 0)
    joint, without = None, capture.recorder.histories.taken()
    if outcome.joint is not None:
        joint = JointProgram.build(graph, *outcome.joint, backend, without)
        graph = joint.halves.forward
    start = time.perf_counter()
    split = Parts([ProgramPart(graph)])
    if capture.calls.recorded:
        split = _split(outcome, graph, owner.value_numbers, assumptions.kept)
    executables = [None if part.graph is None else make_executable(part.graph, backend) for part in split.parts]
    if capture.repeats.loops and any(isinstance(e, Compiled) and e.runs_loops_in_numpy() for e in executables):
        raise Restart(unrolled=True)  # as nodes, only what is not native leaves the native program
    seconds = time.perf_counter() - start
    memory, inputs = _memory(outcome), Inputs(sources)
    steps, raised = _steps(outcome, memory)
    effects = Effects(
        graph.writes, sources, outcome.grad_effects, outcome.number_writes, outcome.random, raised, memory
    )
    outputs = Outputs(
        outcome.returns, outcome.spec, outcome.leaves_grad, outcome.assigned, outcome.spent, outcome.late,
        outcome.made_leaves, outcome.retained, outcome.gradients, [*outcome.earlier.values()], outcome.changes, joint,
        sources,
    )
    state = StateGuards(owner, capture, sources, memory, inputs, outputs, leaves, outcome.apart, outcome.named)
    guards = CallGuards(  # made last: passes may ask about sizes
        outcome.facts, leaves, spec, outcome.checks, state, outcome.bound, sources, outcome.random, capture,
        outcome.identity,
    )
    last = executables[-1]
    assert last is not None
    components = (graph, capture, sources, guards, inputs, last, effects, outputs, seconds)
    if not steps:
        return Entry(*components)
    reads_after = _reads_after(split.parts)
    boundaries = [
        Boundary(number, part, executable, step, reads_after[number], _is_next_of_table(steps, number))
        for number, (part, executable, step) in enumerate(zip(split.parts, executables, steps, strict=False))
    ]
    return CallingEntry(*components, owner=owner, split=split, boundaries=boundaries, switches=assumptions.switches)


def _refuse_values_of_blocks(graph: Graph, has_loops: bool) -> None:
    """Raises CaptureError where a value that a branch or a loop body computes is read outside of it: Python kept it
    (an attribute, a list, a variable of an outer function), but whether, and how often, the block runs is known only
    when the program runs.

    has_loops: whether loops of Python's were recorded as loops, which may have taken a node back that others know of:
    Restart then.
    """
    if any([node.blocks for node in graph.nodes]):
        for value in graph.block.free_values():
            if has_loops:
                raise Restart(unrolled=True)
            where = value.node.where if value.node is not None else None
            raise CaptureError(
                f"{f'{where}: ' if where else ''}a branch of weft.cond, or the body of a loop, keeps a value that it "
                "computes for later (in an attribute, a list or a variable outside): return it from the branch or "
                "body, and keep what weft.cond, weft.scan or weft.while_loop returns"
            )


# ---- calls of Python
def _split(outcome: Outcome, graph: Graph, table: ValueNumbers, kept: frozenset[int]) -> Parts:
    calls, inputs, symbols = outcome.capture.calls.recorded, _inputs(outcome, table), _symbols(outcome, table)
    return parts_of(graph, calls, table, inputs, symbols, kept)


def _inputs(outcome: Outcome, table: ValueNumbers) -> list[int]:
    """What each parameter is, by a number that is the same in every program of the function."""
    numbers: dict[int, None] = {}
    for source in outcome.sources:
        number = table.of_key((type(source), *_origin(source, table)))
        while number in numbers:  # another parameter of the same origin
            number = table.of_key((type(source), number, "again"))
        numbers[number] = None
    return list(numbers)


def _origin(source: Any, table: ValueNumbers) -> tuple[Any, ...]:
    """Where a parameter comes from: an argument by its place, all else by what it is."""
    if type(source) is NumberSource:
        return (source.number.place,)
    if type(source) is StateSource:
        slot = source.slot
        return (table.of_object(slot.storage),) if slot.leaf is None else ("leaf", slot.leaf)
    if type(source) is ArgumentSource:
        return (source.leaf,)
    return (table.of_object(source.tensor),) if source.leaf is None else ("leaf", source.leaf)


def _symbols(outcome: Outcome, table: ValueNumbers) -> dict[str, int]:
    """What each symbol is, in the same way: a size or stride of an argument, a number, or where a generator stood."""
    symbols: dict[str, int] = {}
    for source in outcome.sources:
        if type(source) is ArgumentSource:
            for kind, dims in ((ArgumentSource, source.dims), (Geometry, source.strides or ())):
                for axis, dim in enumerate(dims):
                    if type(dim) is Expr and dim.is_symbol:
                        symbols.setdefault(str(dim), table.of_key((kind, source.leaf, axis)))
    for number in outcome.capture.python_state.numbers:
        symbols.setdefault(number.key, table.of_key((NumberSource, number.place)))
    for state in outcome.random:
        generator = table.of_object(state.generator)
        for i, symbol in enumerate((state.key, state.offset)):
            symbols.setdefault(symbol, table.of_key((RandomState, generator, i)))
    return symbols


def _reads_after(parts: Sequence[ProgramPart]) -> list[set[Place]]:
    """For each call, the places that are read after it."""
    places: list[set[Place]] = [set()]
    for part in parts[:0:-1]:
        places.append(places[-1] | part.places_read())
    return places[:0:-1]


def _is_next_of_table(steps: Sequence[PythonStep], number: int) -> bool:
    """Whether a call is of the next hook of the same tensor."""
    return number > 0 and steps[number].call.table is steps[number - 1].call.table


def _steps(outcome: Outcome, memory: Memory) -> tuple[list[PythonStep], dict[int, tuple[Any, int]]]:
    """The calls of Python in the program's order, and by how much it raises versions after the last one."""
    done: dict[int, int] = {}
    steps = []
    for call, (guards, check) in zip(outcome.capture.calls.recorded, outcome.after_calls, strict=True):
        raised = _raised_since(call.raised, done)
        done = {key: by for key, (_, by) in call.raised.items()}
        resolved = [_effect(outcome, slot, param) for slot, param in call.grads]
        zeroed = [_effect(outcome, slot, None) for slot in call.zeroed]
        current = [_effect(outcome, slot, param) for slot, param in call.known]
        effects = Effects(list(enumerate(call.written)), outcome.sources, resolved, [], call.random, raised, memory)
        saved = [tensor for storage in call.saved if (tensor := _outside(outcome, storage)) is not None]
        steps.append(PythonStep(call, effects, guards, check, _arguments(outcome, call), zeroed, current, saved))
    return steps, _raised_since(outcome.raised, done)


def _raised_since(raised: dict[int, tuple[Any, int]], done: dict[int, int]) -> dict[int, tuple[Any, int]]:
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
    for i, leaf in enumerate(call.arguments):
        at = outcome.leaf_of(outcome.capture.leaf_gradients.real(leaf)) if isinstance(leaf, Tensor) else None
        if at is not None:
            arguments[i] = at
    return arguments


def _memory(outcome: Outcome) -> Memory:
    """Where the state lies that the program depends on."""
    arguments = {id(leaf) for leaf in outcome.leaves}
    met = [leaf for leaf in outcome.met if id(leaf) not in arguments]
    return Memory(outcome.capture.outside.states.values(), outcome.named - arguments, met)
