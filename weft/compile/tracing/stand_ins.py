"""Stand-ins for the arguments of a call: a parameter for each tensor, or state where its memory is reached otherwise
too.
"""

from __future__ import annotations

import functools
from typing import Any

from weft.autograd.hooks import NO_HOOKS, hooks_on
from weft.compile.assumptions import Recording
from weft.compile.tracing.outcome import Outcome
from weft.compile.tracing.sharing import groups_of
from weft.ops.geometry import Geometry
from weft.programs.arguments import (
    TensorFacts,
    facts_of,
    strides_of,
    symbolic_dims,
)
from weft.programs.program_io import (
    ArgumentSource,
)
from weft.record.capture import Capture
from weft.record.older_histories import Given
from weft.record.wrappers import UnwrapBackward
from weft.tensor.tensor import Tensor, tensor_around


# ---- arguments
def stand_ins_of(recording: Recording, outcome: Outcome, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
    capture, assumptions = outcome.capture, recording.assumptions
    as_they_lie = assumptions.as_they_lie
    sharing = frozenset([outcome.bound.key_of(i) for group in groups_of(leaves) for i in group])
    recording.apart = sharing - as_they_lie
    facts: list[Any] = []
    stand_ins: list[Any] = []
    by_id: dict[int, Tensor] = {}
    static = {id(leaf) for i, leaf in enumerate(leaves) if outcome.bound.key_of(i) in as_they_lie}
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            is_static = leaf._is_param or id(leaf) in static or hooks_on(leaf) != NO_HOOKS
            facts.append(facts_of(leaf, is_static))
            if is_static:
                stand_ins.append(leaf)
                _bind_argument_state(capture, leaf, i, outcome.bound.key_of(i) in assumptions.static)
            else:
                if id(leaf) not in by_id:
                    by_id[id(leaf)] = _stand_in(outcome, leaf, i, facts[-1])
                stand_ins.append(by_id[id(leaf)])
        elif ("leaf", outcome.bound.key_of(i)) in assumptions.lifted and type(leaf) in (int, float):
            facts.append(type(leaf))
            stand_ins.append(capture.python_state.lift_number(
                f"arg{i}", functools.partial(leaves.__getitem__, i), leaf, type(leaf) is float, (i, None), i
            ))
        else:
            facts.append(None)
            stand_ins.append(leaf)
    return stand_ins, facts


def _bind_argument_state(capture: Capture, leaf: Tensor, i: int, is_fixed: bool) -> None:
    """An argument whose memory is shared (with another argument, or with state) is an input by storage."""
    fixed = {id(s): s.is_fixed for s in capture.outside.states.values()}
    slot = capture.tensors.payload_of(leaf).storage.slot
    slot.is_fixed = fixed.get(id(slot), slot.is_fixed)  # meeting another argument over the same storage fixes nothing
    if slot.leaf is None:
        slot.leaf, slot.is_fixed = i, is_fixed
    slot.own.add(id(leaf))


def _stand_in(outcome: Outcome, leaf: Tensor, i: int, fact: TensorFacts) -> Tensor:
    capture = outcome.capture
    dims = symbolic_dims(capture, leaf._data.shape)
    taken = tuple([1 if axis in fact.expanded else d for axis, d in enumerate(dims)])
    strides = symbolic_dims(capture, strides_of(leaf._data)) if fact.strided is not None else None
    geometry = None if strides is None else Geometry(taken, strides)
    out = capture.tensors.symbolic_argument(
        leaf, f"arg{i}", taken, fact.permutation, geometry, dims if fact.expanded else None
    )
    at = len(capture.recorder.builder.params) - 1
    capture.outside.argument_keys[at] = outcome.bound.key_of(i)
    capture.outside.argument_leaves[at] = i, leaf
    outcome.put_source(at, ArgumentSource(i, dims, fact.permutation, strides, False, expanded=fact.expanded))
    if fact.requires_grad:
        if fact.is_leaf or type(leaf._node) is UnwrapBackward:
            out._state().requires_grad = True
        else:
            _give_history(capture, leaf, out, i < outcome.bound.given)
    vars(out).update(vars(leaf))
    return out


def _give_history(capture: Capture, leaf: Tensor, stand_in: Tensor, is_argument: bool) -> None:
    """Let the stand-in of a tensor with a history have one: where it ends stands for the caller's tensor as it is when
    the call begins."""
    ancestor = tensor_around(stand_in._data)
    ancestor._storage = stand_in._storage
    ancestor._state().requires_grad = True
    capture.outside.stand_ins[id(ancestor)] = leaf
    capture.python_state.keep(ancestor)
    Given.before(ancestor, stand_in, is_argument)
