"""Arguments that share memory, with each other or with state. A program takes each as a parameter of its own, as if the
memory were its own, where nothing in it shows that it is not; else as one memory, as they lie in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.compile.assumptions import Recording
from weft.compile.tracing.outcome import Outcome
from weft.guards import Observation
from weft.programs.memory import shows_a_gradient
from weft.programs.program_io import ArgumentSource
from weft.record.capture import Capture
from weft.record.restart import Restart
from weft.runtime.storage import root_of
from weft.tensor.dense import is_dense
from weft.tensor.tensor import Tensor

# what tensors answer that tells them from others with the same values in memory of their own
_TELLING = ("storage", "untyped_storage", "is_set_to", "_base", "_is_view", "detach_")


def groups_of(leaves: Sequence[Any]) -> list[list[int]]:
    """The places of the arguments that share memory, for each memory that several different tensors show."""
    places: dict[int, list[int]] = {}
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and is_dense(leaf) and leaf._data.size:
            places.setdefault(id(root_of(leaf._data)), []).append(i)
    return [group for group in places.values() if any(leaves[i] is not leaves[group[0]] for i in group)]


def restart_for_sharing(recording: Recording, outcome: Outcome, seen: Observation) -> None:
    """Raises Restart where arguments share memory, with each other or with state, and the program shows it; and where
    as_strided looks at an argument's memory, or the function reaches an argument otherwise too.
    """
    leaves, states = outcome.leaves, outcome.capture.outside.states.values()
    outcome.apart = _apart(recording, outcome, seen)
    static = {
        source.leaf for source in map(outcome.sources.__getitem__, outcome.capture.recorder.by_memory)
        if isinstance(source, ArgumentSource)
    }
    static |= {i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and id(leaf) in outcome.named}
    static |= _shown_by_state(outcome)
    keys = {outcome.bound.key_of(i) for i in static} - recording.assumptions.static
    for group in groups_of(leaves):
        if not outcome.apart.issuperset(group) or not static.isdisjoint(group):
            keys |= {outcome.bound.key_of(i) for i in group} & recording.apart
    if keys:
        raise Restart(static=keys)
    added_to = [(real, outcome.leaf_of(real)) for real in (
        outcome.capture.leaf_gradients.real(g.tensor)
        for g in outcome.capture.leaf_gradients.slots.values() if g.has is not None
    )]
    if shows_a_gradient(added_to, leaves, {id(root_of(slot.array)) for slot in states}):
        raise Restart(knows_gradients=True)


def _apart(recording: Recording, outcome: Outcome, seen: Observation) -> set[int]:
    """The arguments of which nothing shows whether other tensors have their memory too: the function neither writes
    them nor asks them where they lie. Python that it calls when it runs may write them, as it may write any memory, and
    behind it all memory is read again."""
    if seen.may_call(_TELLING):
        return set()
    as_they_lie = recording.assumptions.as_they_lie
    return {
        i for i, stand_in in enumerate(outcome.stand_ins)
        if isinstance(stand_in, Tensor) and outcome.bound.key_of(i) not in as_they_lie
        and _is_apart(outcome.capture, stand_in)
    }


def _is_apart(capture: Capture, stand_in: Tensor) -> bool:
    storage = capture.tensors.payload_of(stand_in).storage
    if storage.slot is not None:
        return not storage.slot.written and len(storage.slot.own) == 1
    is_looked_at = storage.param in capture.recorder.by_memory or storage in capture.recorder.copied
    return not (storage.is_written or is_looked_at)


def _shown_by_state(outcome: Outcome) -> set[int]:
    """The arguments that share memory with state of the function, where that shows."""
    states = [slot for slot in outcome.capture.outside.states.values() if slot.leaf is None]
    roots = {id(root_of(slot.array)) for slot in states}
    written = {id(root_of(slot.array)) for slot in states if slot.written}
    return {
        i for i, leaf in enumerate(outcome.leaves) if isinstance(leaf, Tensor) and leaf._data.size
        and id(root_of(leaf._data)) in (roots if i not in outcome.apart or leaf.requires_grad else written)
    }


def tensors_in(values: Iterable[Any]) -> set[int]:
    """The ids of the tensors among these values, and in tuples among them."""
    ids: set[int] = set()
    for value in values:
        if issubclass(type(value), Tensor):  # (a dead proxy is asked nothing)
            ids.add(id(value))
        elif issubclass(type(value), tuple):
            ids |= tensors_in(value)
    return ids
