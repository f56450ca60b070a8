"""From a call to a program: stand-ins in, the function run once under a capture, a graph with its sources and effects
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from operator import is_
from types import FunctionType
from typing import Any

from weft import guards
from weft.autograd.saved import only_captured_hooks
from weft.compile.assumptions import Recording
from weft.compile.caches import empty_caches
from weft.compile.object_arguments import ObjectCounts
from weft.compile.program.bound_state import BoundState
from weft.compile.program.call_leaves import objects_of
from weft.compile.program.container_identity import (
    IdentityGuard,
    built,
    containers_of,
    is_empty_tuple,
    paths_of,
    pattern_of,
)
from weft.compile.program.entry import Entry
from weft.compile.program.owner import Owner
from weft.compile.tracing.assemble import assemble
from weft.compile.tracing.assignments import assigned_values, assignments
from weft.compile.tracing.earlier_errors import inputs_of, raise_earlier
from weft.compile.tracing.effects import (
    assigned_gradients,
    fill_sources,
    gradient_effects,
    number_writes_of,
    state_writes,
)
from weft.compile.tracing.outcome import Outcome
from weft.compile.tracing.python_state import (
    OptimizerGroups,
    kinds,
    refuse_changed_groups,
    refuse_inference,
    settings_kept,
    substitution_of,
)
from weft.compile.tracing.replaced_logs import followed
from weft.compile.tracing.results import bind_late, bind_sizes, note_returns
from weft.compile.tracing.returned_containers import Before, containers_in, with_older
from weft.compile.tracing.sharing import restart_for_sharing, tensors_in
from weft.compile.tracing.stand_ins import stand_ins_of
from weft.guards import switches
from weft.guards.rewrite import original
from weft.ops.overrides import override_classes
from weft.programs.argument_histories import changed_histories
from weft.programs.arguments import TensorFacts, with_given
from weft.programs.joint_record import JointRecord, is_spent, made_leaves, record_backward, unfinished
from weft.programs.program_io import ReturnConstant, ReturnView
from weft.record.capture import Capture
from weft.record.numbers.lifted_math import lifted_in
from weft.record.numbers.random_state import marks, symbolic_generators
from weft.record.numbers.value_reads import ValueReads
from weft.record.python_call import FailsLater
from weft.record.repeats.calls import RepeatedCalls
from weft.record.restart import Restart
from weft.record.tracer_leaks import leads_to
from weft.record.wrappers import WrapperMemo, desugar, refuse_changed_attributes, resugar
from weft.record.writes import ArgumentChange
from weft.support import pytree
from weft.support.asides import aside
from weft.support.errors import CaptureError, Unsupported
from weft.support.handlers import outermost
from weft.support.interrupts import to_the_end
from weft.support.knobs import knobs
from weft.support.progress import progress
from weft.tensor import autocast
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import wrapper_classes

Bound = list[tuple[guards.Slot, Any]]  # places in Python state, and what stands for their values


class SameContainer(ArgumentChange):
    """Whether a container is one that the program holds on to may be asked of Python. Such a call runs as it is
    written."""


def trace_program(
    recording: Recording, owner: Owner, leaves: list[Any], spec: pytree.TreeSpec, backend: str | None
) -> Entry:
    """Record a function on the leaves of its arguments, and make a program of it.

    Raises Restart where what the recording goes by is refuted: it must be tried again.
    """
    capture, assumptions = Capture(recording.name), recording.assumptions
    recording.hooks, recording.rules = capture.evaluator.hooks, capture.evaluator.rules
    capture.leaf_gradients.knows_gradients = assumptions.knows_gradients
    capture.changing_sizes = assumptions.changing_sizes
    if knobs.fold != "off" and not assumptions.unrolled:
        capture.repeats = RepeatedCalls(capture, follows_sizes=not assumptions.counted)
        capture.loops_of_one_length = list(assumptions.loops)
    calls = capture.calls
    calls.codes, calls.missing, calls.switches = assumptions.called, assumptions.missing, assumptions.switches
    calls.gone, calls.functions.forwards = assumptions.without_gradient, assumptions.forwards
    capture.python_state.lifted_codes = assumptions.symbolic_codes
    if assumptions.reads_values:
        reads = ValueReads(capture.recorder, capture.python_state, lambda: inputs_of(outcome))
        capture.recorder.reads, capture.env.answers = reads, reads
    progress().stage("recording", growing=capture.recorder.builder.nodes)
    del leaves[spec.size :]
    outcome = Outcome(capture, leaves, BoundState(assumptions.bound_slots, leaves))
    outcome.containers = containers_of(leaves, outcome.bound)
    outcome.pattern = pattern_of(outcome.containers)
    outcome.stand_ins, outcome.facts = stand_ins_of(recording, outcome, leaves)
    outcome.attributes = {id(leaf): dict(vars(leaf)) for leaf in leaves if isinstance(leaf, Tensor)}
    # hooks of a checkpoint around the call get what the program saves
    try:
        with (
            _attributes_kept(outcome), only_captured_hooks(), capture.active(), settings_kept(outcome),
            symbolic_generators(capture.tensors, capture.random, capture.refuse, capture.random_state_of),
        ):
            outcome.random = capture.random
            try:
                _run(recording, outcome, spec)
            except Exception:
                capture.python_state.settle_taken()
                raise
    except Exception as error:
        raise_earlier(outcome, error)
        raise
    _refuse_kept_stand_ins(outcome)
    outcome.raised = capture.writes.raised()
    capture.restore()
    fill_sources(outcome)
    entry = assemble(owner, assumptions, outcome, spec, backend)
    capture.outside.let_arguments_go()
    return entry


@contextmanager
def _attributes_kept(outcome: Outcome) -> Iterator[None]:
    """Behind the block tensors that are their own stand-ins have the attributes of the user's that they had before."""
    try:
        yield
    finally:
        for leaf in outcome.leaves:
            if isinstance(leaf, Tensor) and not _has_attributes(leaf, outcome.attributes[id(leaf)]):
                vars(leaf).clear()
                vars(leaf).update(outcome.attributes[id(leaf)])


def _has_attributes(tensor: Tensor, attributes: dict[str, Any]) -> bool:
    held = vars(tensor)
    return held.keys() == attributes.keys() and all(map(is_, held.values(), map(attributes.__getitem__, held)))


def _run(recording: Recording, outcome: Outcome, spec: pytree.TreeSpec) -> None:
    """Run the function, and note what it did before Python's state is put back."""
    (args, kwargs), *values = built(
        outcome.stand_ins, [spec, *[place.spec for place in outcome.bound.places]],
        outcome.pattern if recording.assumptions.same_containers else (),
    )
    bound = [(place.slot, value) for place, value in zip(outcome.bound.places, values, strict=True)]
    earlier = {id(c): slot.key for slot, _ in bound for c in containers_in(slot.get())}
    has_wrappers = bool(wrapper_classes or override_classes)
    memo = WrapperMemo()
    if has_wrappers:
        rebuilt: dict[int, Any] = {}
        args, kwargs = resugar((args, kwargs), memo, rebuilt)
        bound = [(slot, resugar(value, memo, rebuilt)) for slot, value in bound]
        outcome.capture.outside.note_assembled(memo.wrappers)
    outcome.capture.outside.note_histories((*outcome.stand_ins, *memo.wrappers))
    objects = objects_of(outcome.leaves)
    arguments = list(paths_of((args, kwargs), stand_ins=objects))  # as the call finds them
    held = [(slot, *each) for slot, value in bound for each in paths_of(value, stand_ins=objects)]
    # while Python's state is put back too: it holds the stand-ins
    with (
        lifted_in(recording.function, recording.assumptions.symbolic_codes),
        substitution_of(recording.assumptions, outcome.capture, bound) as substitution, OptimizerGroups() as groups,
        switches.before(recording.assumptions.switches),
    ):
        result, seen = guards.observe(
            recording.function, args, kwargs, kinds=kinds(outcome.leaves, outcome.capture), substitution=substitution,
            at_end=empty_caches, tell=(outcome.capture.calls.begin, groups.begin), step_aside=aside,
            is_strict=recording.assumptions.reads_values,
        )
        try:
            outcome.capture.repeats.finish()
            # what follows asks about the program, and not about this call
            outcome.capture.recorder.reads = outcome.capture.env.answers = None
            outcome.capture.recorder.raise_swallowed()
            outcome.capture.python_state.settle_taken()
            numbers: dict[Any, int] = {}
            # (what was put together for the call stands for the caller's, also where its parts are the caller's own)
            assembled = {id(wrapper) for wrapper in memo.wrappers}
            before = Before(
                arguments, held, lambda value: id(value) not in assembled and seen.is_older(value), objects
            )
            _restart_for_types(recording, seen)
            returned = with_older(result, before, numbers)
            outer = [c for c, _ in arguments] + [c for _, c, _ in held]
            logs = _take_guards(recording, outcome, seen, bound, outer, result)
            outcome.capture.outside.refuse_assigned([write.target.holder for write in seen.writes])
            outcome.assigned = assignments(seen.writes, recording, arguments, held, earlier, objects, logs)
            if outcome.identity is None and _may_write_into(outer, seen.writes):
                _guard_identity(recording, outcome)
            outcome.assigned += assigned_gradients(outcome)
            outcome.capture.writes.refuse_histories()
            outcome.capture.outside.refuse_hooks()
            if outcome.bound.places:
                outcome.capture.calls.refuse_calls("tensors of Python's state are inputs")
            refuse_changed_groups(outcome.capture, groups)
            outcome.number_writes = number_writes_of(outcome, seen)
            _note_results(outcome, returned, numbers, before, memo)
            restart_for_sharing(recording, outcome, seen)  # with what only the results show
        finally:
            try:
                outcome.capture.calls.end()
            finally:
                to_the_end(seen.rollback)
    outcome.met = [leaf for leaf in seen.leaves if isinstance(leaf, Tensor)]
    _complete_facts(outcome, seen)


def _complete_facts(outcome: Outcome, seen: guards.Observation) -> None:
    """The facts of arguments that count for what the function did with them: attributes that it looked up, and that
    there are no hooks where it asked for a gradient."""
    if seen.names_of_leaves:
        pairs = zip(outcome.facts, outcome.leaves, strict=True)
        outcome.facts = [with_given(f, v, seen.names_of_leaves) if type(f) is TensorFacts else f for f, v in pairs]
    for tensor in outcome.capture.outside.unheard:
        at = outcome.leaf_of(tensor)
        if at is not None and type(outcome.facts[at]) is TensorFacts:
            outcome.facts[at] = replace(outcome.facts[at], is_unheard=True)


def _restart_for_types(recording: Recording, seen: guards.Observation) -> None:
    """Raises Restart for code that asks for types, which of a symbol are those of the number that it stands for."""
    root = getattr(recording.function, "__func__", recording.function)
    known_codes = {id(code) for code in recording.assumptions.symbolic_codes}
    if type(root) is FunctionType:
        known_codes.add(id(original(root.__code__)))
    codes = [original(code) for code in seen.codes_asking_types]
    others = tuple([code for code in codes if id(code) not in known_codes])
    if others:
        raise Restart(lifted=others)


def _refuse_kept_stand_ins(outcome: Outcome) -> None:
    """Raises ObjectCounts where the program gives or writes something that holds the stand-in of an object, and in
    which no call puts its own (a key of a dict, an object of the user's)."""
    objects = objects_of(outcome.leaves)
    if not objects:
        return
    constants = [returned.value for returned, _ in outcome.returns if type(returned) is ReturnConstant]
    names = [write.target.name for write in outcome.assigned]
    if any(leads_to(value, objects) for value in (*constants, *names, *_keys(outcome.spec))):
        raise ObjectCounts("the function keeps an argument in an object, or as the key of a dict")


def _keys(spec: pytree.TreeSpec) -> Iterator[Any]:
    """What the containers of a structure have beside their children."""
    yield spec.meta
    for child in spec.children:
        yield from _keys(child)


def _take_guards(
    recording: Recording, outcome: Outcome, seen: guards.Observation, bound: Bound, outer: list[Any], result: Any
) -> Mapping[int, guards.Slot]:
    """The guards on Python state. outer: containers that arguments and bound places held, which are no state. Returned:
    the places of logs that may be replaced. Raises Restart where an argument turns out to be reached otherwise too."""
    outcome.capture.leaf_gradients.read_zeroed()
    outcome.checks = seen.guards
    held = {slot.key for slot, value in bound if pytree.is_node(value)}
    if held and seen.asks_id:  # perhaps for that of one of them, for which another one stands
        raise Restart(identical=held)
    if bound or seen.writes:
        containers = [container for container in outer if pytree.is_node(container)]
        outcome.checks = seen.guards.without([slot for slot, _ in bound], containers)
    logs: Mapping[int, guards.Slot] = {}
    calls_python = outcome.capture.calls.recorded or recording.hooks or recording.rules  # what these hold, nobody tells
    if not seen.asks_id and not calls_python:
        outcome.checks, logs = followed(outcome.checks, seen.writes, result, outer, kinds())
    if seen.asks_id and objects_of(outcome.leaves):
        raise ObjectCounts(f"{recording.name} calls id() or hash()")
    if seen.asks_identity and outcome.pattern:
        _guard_identity(recording, outcome)
    before = recording.assumptions.switches
    outcome.after_calls = [
        switches.after(outcome.checks, before, i) for i, _ in enumerate(outcome.capture.calls.recorded)
    ]
    outcome.checks = switches.at_the_start(outcome.checks, before, kinds(outcome.leaves, outcome.capture))
    outcome.named = tensors_in(outcome.checks.holds_on_to())
    restart_for_sharing(recording, outcome, seen)
    return logs


def _may_write_into(outer: list[Any], writes: list[guards.Write]) -> bool:
    """Whether the function writes into a container that could be one of those that arguments and bound places hold: in
    this call, or in a later one that is given what the function reaches otherwise too."""
    types = {type(write.target.holder) for write in writes if pytree.is_node(write.target.holder)}
    return any([type(container) in types for container in outer if not is_empty_tuple(container)])


def _guard_identity(recording: Recording, outcome: Outcome) -> None:
    """Which containers of the call are one object counts. Raises Restart where some are, or a bound place holds one
    that the function reaches otherwise too; SameContainer where an argument is one."""
    held = [c for value in outcome.checks.holds_on_to() for c in containers_in(value) if not is_empty_tuple(c)]
    ids = set(map(id, held))
    arguments, *places = [not ids.isdisjoint(map(id, own)) for own in outcome.containers]
    if any(places):
        bound = outcome.bound.places
        raise Restart(identical={p.slot.key for p, is_held in zip(bound, places, strict=True) if is_held})
    if arguments:
        raise SameContainer(
            f"{recording.name} compares objects by identity, or writes into a list or dict that it is given or that "
            "it finds, and reaches an argument otherwise too"
        )
    if outcome.pattern != tuple(range(len(outcome.pattern))) and not recording.assumptions.same_containers:
        raise Restart(same_containers=True)
    outcome.identity = IdentityGuard(outcome.pattern, held)


def _note_results(
    outcome: Outcome, result: Any, numbers: dict[Any, int], before: Before, memo: WrapperMemo
) -> None:
    """What becomes of the result and of what was assigned, the memory that was written, gradients, and the backward
    that callers may run.
    """
    capture, tree = outcome.capture, result
    if outcome.assigned:
        tree = (result, assigned_values(outcome.assigned, numbers, before, kinds()))
    refuse_changed_attributes(memo)
    tree = desugar(tree, memo, capture.outside.is_of_made_class)
    outcome.changes = changed_histories(outcome.stand_ins, outcome.leaves, capture.outside)
    if outcome.changes.flags:
        capture.calls.refuse_calls("requires_grad of a tensor changes")
    if outcome.changes.reshaped:
        capture.calls.refuse_calls("an argument gets other strides")
    note_returns(outcome, tree)
    refuse_inference(outcome)
    if outcome.assigned:
        first, last = outcome.spec.children[0].size, outcome.spec.size
        shown = {r.root for r, _ in outcome.returns[first:last] if isinstance(r, ReturnView)}
        places = sorted({*range(first, last), *shown})
        outcome.spent = [i for i in places if is_spent(capture, outcome.carriers[i])]
    state_writes(outcome, outcome.stand_ins)
    outcome.grad_effects = gradient_effects(outcome)
    offsets = [state.stream.left() for state in outcome.random]
    bind_late(outcome, [r for r, _ in outcome.returns], outcome.number_writes, offsets)
    outcome.made_leaves = made_leaves(capture, outcome.carriers)
    outcome.joint = _joint(outcome, outcome.carriers)


def _joint(outcome: Outcome, carriers: list[Any]) -> tuple[JointRecord, int, list[int]] | None:
    """The backward of returned tensors (or of what they are views of) that require grad, recorded behind the forward.

    None when there are none.
    """
    outputs = unfinished(outcome.capture, carriers)
    if not outputs:
        return None
    outcome.capture.calls.refuse_calls("a result has a history")
    fixed = len(outcome.results)
    before = marks(outcome.random)
    (record, gradients), seen = guards.observe(
        lambda: _recorded(outcome, outputs, carriers), kinds=kinds(outcome.leaves, outcome.capture), step_aside=aside
    )
    if marks(outcome.random) != before:
        raise FailsLater(
            "a backward through what is returned draws random numbers: they come from where the generators stand when "
            "it is run"
        )
    if seen.writes:
        _refuse_writes(seen)
    if outcome.capture.evaluator.hooks or outcome.capture.evaluator.rules:
        outcome.checks = outcome.checks.joined(seen.guards.without([p.slot for p in outcome.bound.places]))
    outcome.results.extend(gradients)
    if outcome.capture.env.has_unbacked:
        fixed += bind_sizes(outcome, fixed, record)
    positions = [next(i for i, carrier in enumerate(carriers) if carrier is out) for out in outputs]
    return record, fixed, positions


def _recorded(outcome: Outcome, outputs: list[Tensor], carriers: list[Any]) -> Any:
    """What `record_backward` gives: as it is outside of a block of autocast, where backward() belongs, wherever the
    function was called. Raises FailsLater where a hook or a custom Function raises, or a saved tensor was written
    since."""
    outcome.capture.evaluator.is_for_callers = True
    try:
        with autocast.within(None):
            return record_backward(outcome.capture, outputs, outcome.leaves, carriers, outcome.spec.size)
    except (CaptureError, Unsupported, Restart):
        raise
    except Exception as error:
        raise FailsLater(f"a backward through what is returned raises {type(error).__name__}: {error}") from error


def _refuse_writes(seen: guards.Observation) -> None:
    """Hooks and custom Functions in a backward that callers may run later, often or never must leave nothing behind.
    Raises SideEffectError."""
    to_the_end(seen.rollback)
    write = seen.writes[0]
    raise guards.SideEffectError(
        write.where, f"writes {write.target.text} in a backward that is recorded now and run later",
        "Write it in the function itself, or compile the whole step, the function that calls backward.",
    )


outermost.add(trace_program.__code__)
