"""What a function leaves behind besides its result: state, arguments and gradients that it wrote, numbers that it
changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft import guards
from weft.compile.program.argument_writes import ArgumentGradient, GradientPlace
from weft.compile.tracing.outcome import Outcome
from weft.programs.joint_record import unfinished
from weft.programs.program_io import (
    ArgumentSource,
    GradBuffer,
    GradEffect,
    GradFlag,
    NumberSource,
    NumberWrite,
    ReturnArgument,
    StateSource,
)
from weft.record.numbers.sym_float import SymFloat, is_live, operand_of
from weft.record.symbolic import SymbolicPayload, SymbolicStorage
from weft.record.writes import ArgumentChange
from weft.support.locations import Location, user_location
from weft.tensor.dense import is_dense
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import is_wrapper


def number_writes_of(outcome: Outcome, recorded: guards.Observation) -> list[NumberWrite]:
    writes = []
    for write in recorded.writes:
        if isinstance(write, guards.ObjectWrite):
            continue
        value = write.value
        position, dim = None, None
        if isinstance(value, SymFloat) and is_live(value):
            position = outcome.result(value.value)
        else:
            dim = operand_of(value)
        writes.append(NumberWrite(write.target.put, position, dim, write.target.key))
    return writes


def state_writes(outcome: Outcome, stand_ins: list[Any]) -> None:
    """Storages whose value changed are written back into their inputs."""
    done: set[int] = set()
    for slot in outcome.capture.outside.states.values():
        if slot.written:
            outcome.writes.append((outcome.result(slot.symbolic.value), slot.param))
    for stand_in in stand_ins:
        if not isinstance(stand_in, Tensor) or type(stand_in._data) is not SymbolicPayload:
            continue
        storage: SymbolicStorage = stand_in._data.storage
        if storage.is_written and id(storage) not in done:
            done.add(id(storage))
            outcome.writes.append((outcome.result(storage.value), _param_of(outcome, storage)))


def _param_of(outcome: Outcome, storage: SymbolicStorage) -> int:
    at = storage.param
    assert at is not None
    source = outcome.sources[at]
    assert isinstance(source, ArgumentSource)
    outcome.sources[at] = replace(source, written=True, counter=id(storage))
    return at


def gradient_effects(outcome: Outcome) -> list[GradEffect]:
    capture = outcome.capture
    effects = []
    for slot in capture.leaf_gradients.slots.values():
        real = capture.leaf_gradients.real(slot.tensor)
        if not slot.is_changed():
            continue
        current, leaf = slot.current, outcome.leaf_of(real)
        if current is None:
            effects.append(GradEffect(slot, real, None, None, leaf))
            continue
        if _is_assigned(outcome, current):
            continue
        if is_dense(current):
            effects.append(GradEffect(slot, real, outcome.earlier_gradient(current) or current, None, leaf))
            continue
        argument = next((i for i, stand_in in enumerate(outcome.stand_ins) if stand_in is current), None)
        if argument is not None and not current.requires_grad:
            effects.append(GradEffect(slot, real, ReturnArgument(argument, None), None, leaf))
            continue
        if unfinished(capture, [current]):
            raise ArgumentChange(
                f"backward(create_graph=True) leaves a gradient with a history in .grad of a tensor of shape "
                f"{list(real.shape)}; a program keeps none. Set .grad to None or to its detach() before the end."
            )
        param = capture.leaf_gradients.buffer_of(slot)
        outcome.writes.append((outcome.result(current._data.read()), param))
        effects.append(GradEffect(slot, real, None, param, leaf))
    return effects


def _is_assigned(outcome: Outcome, gradient: Tensor) -> bool:
    """Whether a gradient is put in its place as an assigned value: no memory of its own is kept for it."""
    data = gradient._data
    if type(data) is not SymbolicPayload:
        return is_wrapper(gradient)
    if gradient.requires_grad or any(stand_in is gradient for stand_in in outcome.stand_ins):
        return False
    return bool(data.path) or data.storage.is_outside


def assigned_gradients(outcome: Outcome) -> list[guards.ObjectWrite]:
    """Gradients that are wrappers, whose inner tensors the program gives, and those that show the memory of others:
    they are made at each call, as what a function assigns to attributes is."""
    gradients = outcome.capture.leaf_gradients
    writes = []
    for slot in gradients.slots.values():
        if slot.is_changed() and slot.current is not None and _is_assigned(outcome, slot.current):
            real = gradients.real(slot.tensor)
            leaf, place = outcome.leaf_of(real), GradientPlace.of(real)
            target = place if leaf is None else ArgumentGradient(leaf, place)
            where = user_location() or Location("", 0)
            writes.append(guards.ObjectWrite(target, None, slot.current, where))
    return writes


def fill_sources(outcome: Outcome) -> None:
    capture = outcome.capture
    for state in capture.outside.states.values():
        outcome.put_source(state.param, StateSource(state))
    for number in capture.python_state.numbers:
        if number.param is not None:
            outcome.put_source(number.param, NumberSource(number))
    met: set[int] = set()
    for slot, param in capture.leaf_gradients.buffers:
        real = capture.leaf_gradients.real(slot.tensor)
        leaf = outcome.leaf_of(real)
        outcome.put_source(param, GradBuffer(slot, real, leaf, id(slot) in met))
        met.add(id(slot))
        if slot.has is not None:
            outcome.put_source(slot.has, GradFlag(slot, real, leaf))
    assert None not in outcome.sources, "a parameter of the graph has no source"
