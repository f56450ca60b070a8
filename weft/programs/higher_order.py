"""The inputs of a compiled forward as tensors with histories, for its backward to be differentiated again.

The native halves know values only. The joint graph is a function of the call's own tensors, a TensorProgram,
whose gradients have histories, at the price of computing the forward again. What the forward wrote was copied before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.autograd.node import Edge
from weft.autograd.record import gradient_edge
from weft.ops.packet import aten
from weft.programs.arguments import strides_of
from weft.programs.program_io import ArgumentSource, NumberSource, StateSource
from weft.record.state import StateSlot, base_like
from weft.support.errors import StateError
from weft.tensor.history import AutogradState
from weft.tensor.tensor import Tensor, tensor_around

_SHARED = (
    "create_graph=True through the backward of a compiled forward that reads one memory through several tensors which "
    "require grad: compile the whole step, the function that calls backward or autograd.grad, instead of the model "
    "alone"
)


def is_written(source: Any) -> bool:
    """Whether the program writes the input of a source."""
    if type(source) is StateSource:
        return source.slot.written
    return type(source) is ArgumentSource and source.written


def version_of(source: Any, leaves: Sequence[Any]) -> int:
    """How often the tensor of one source was written."""
    if type(source) is StateSource:
        return int(source.slot.storage.version)
    storage = leaves[source.leaf]._storage if type(source) is ArgumentSource else None
    return 0 if storage is None else int(storage.version)


def input_of(source: Any, leaves: Sequence[Any], symbols: Mapping[str, Any], was: Any) -> Any:
    """What the graph takes of one source, as a tensor with its history. was: the same before the program wrote it, if
    it did (see as_it_was). Raises StateError for memory that tensors with histories share."""
    if type(source) is NumberSource:
        return float(symbols[source.number.key])
    if type(source) is not ArgumentSource:
        return _whole(source.slot, leaves, was)
    return _as_taken(leaves[source.leaf] if was is None else was, source)


def as_it_was(source: Any, leaves: Sequence[Any], array: Any) -> Any:
    """A copy of what an input holds that the program is about to write: an argument with its history, or bytes."""
    if type(source) is not ArgumentSource:
        return array.copy()
    argument = tensor_around(array.copy())
    if source.permutation is not None:
        argument = argument.permute(source.permutation)
    return _flowing(argument, gradient_edge(leaves[source.leaf]))


def _as_taken(tensor: Tensor, source: ArgumentSource) -> Tensor:
    """An argument as the program's parameter shows it: once where it repeats elements, its dims in memory order,
    without the gaps that it may have there.
    """
    for axis in source.expanded:
        tensor = tensor.narrow(axis, 0, 1)
    if source.permutation is not None:
        tensor = tensor.permute(sorted(range(tensor.ndim), key=source.permutation.__getitem__))
    return tensor if source.strides is None else tensor.contiguous()


def _whole(slot: StateSlot, leaves: Sequence[Any], was: Any) -> Tensor:
    """All of a storage, as a tensor whose gradient flows into the tensor that shows it or a part of it."""
    members = [tensor for tensor, _ in slot.members.values()] if slot.leaf is None else [leaves[slot.leaf]]
    # (what hooks of saved tensors, or a checkpoint, give in the place of a leaf is that leaf)
    flowing = list({gradient_edge(t): t for t in reversed(members) if t.requires_grad}.values())
    if len(flowing) > 1 or (flowing and len(slot.own) > 1):
        raise StateError(_SHARED)
    memory = slot.array if slot.leaf is None else base_like(members[0], slot)
    if not flowing:
        return tensor_around(memory if was is None else was)
    (tensor,) = flowing
    is_whole = tensor._data.shape == slot.array.shape and tensor._data.flags.c_contiguous
    if is_whole:
        return tensor if was is None else _flowing(tensor_around(was), gradient_edge(tensor))
    place = tuple(tensor.shape), strides_of(tensor._data), tensor.storage().offset_of(tensor._data)
    whole = tensor_around(memory if was is None else was)
    part = tensor if was is None else _flowing(whole.as_strided(*place), gradient_edge(tensor))
    return aten.as_strided_scatter(whole, part, *place)  # type: ignore[no-any-return]


def _flowing(value: Tensor, edge: Edge | None) -> Tensor:
    """The value, its gradient flowing into an edge."""
    out = tensor_around(value._data)
    if edge is not None:
        out._autograd = AutogradState(False, *edge)
    return out
