"""The inputs of a compiled forward as tensors with histories, for its backward to be differentiated again.

The native halves know values only. The joint graph is a function of the call's own tensors, a TensorProgram,
whose gradients have histories, at the price of computing the forward again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.compile.program.program_io import ArgumentSource, NumberSource, StateSource
from weft.support.errors import StateError
from weft.tensor.tensor import Tensor


def version_of(source: Any, leaves: Sequence[Any]) -> int:
    """How often the tensor of one source was written."""
    if type(source) is StateSource:
        return int(source.slot.storage.version)
    storage = leaves[source.leaf]._storage if type(source) is ArgumentSource else None
    return 0 if storage is None else int(storage.version)


def input_of(source: Any, leaves: Sequence[Any], symbols: Mapping[str, Any]) -> Any:
    """What the graph takes of one source, as a tensor with its history."""
    if type(source) is ArgumentSource and not source.written:
        return _as_taken(leaves[source.leaf], source)
    if type(source) is NumberSource:
        return float(symbols[source.number.key])
    if type(source) is StateSource:
        slot = source.slot
        tensor = slot.tensor if slot.leaf is None else leaves[slot.leaf]
        is_whole = tensor._data.shape == slot.array.shape and tensor._data.flags.c_contiguous
        if not slot.is_flat and not slot.written and is_whole:
            return tensor
        if not slot.written and not tensor.requires_grad and slot.leaf is None:
            return Tensor(slot.array)
    raise StateError(
        "create_graph=True through the backward of a compiled forward that writes what it reads, or reads a part of a "
        "tensor's memory: compile the whole step, "
        "the function that calls backward or autograd.grad, instead of the model alone"
    )


def _as_taken(tensor: Tensor, source: ArgumentSource) -> Tensor:
    """An argument as the program's parameter shows it: once where it repeats elements, its dims in memory order,
    without the gaps that it may have there.
    """
    for axis in source.expanded:
        tensor = tensor.narrow(axis, 0, 1)
    if source.permutation is not None:
        tensor = tensor.permute(sorted(range(tensor.ndim), key=source.permutation.__getitem__))
    return tensor if source.strides is None else tensor.contiguous()
