"""Differentiating the backward of a compiled forward again: the joint graph, run with the tensors of the call, so that
its gradients have histories.

The native halves know values only. What they were captured from is a graph of operators on the call's own tensors:
running that graph by the ordinary layers gives gradients that are differentiable to any order, at the price of
computing the forward again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.compile.program.on_tensors import run_on_tensors
from weft.compile.program.program_io import ArgumentSource, NumberSource, StateSource
from weft.ir.graph import Block, Graph
from weft.passes.dce import dce
from weft.support.errors import StateError, VersionError
from weft.tensor.tensor import Tensor


class Retrace:
    """The gradients of a joint graph as a graph of its own, and how a call's tensors become its inputs."""

    def __init__(self, joint: Graph, results: int, tangents: int) -> None:
        gradients = Block(joint.params, joint.nodes, joint.results[results:])
        self.graph = dce(Graph(f"{joint.name}_gradients", gradients, joint.env))
        self.tangents = tangents
        self.read = {v for node in self.graph.walk() for v in node.reads()}

    def run(
        self, sources: Sequence[Any], leaves: Sequence[Any], symbols: dict[str, Any], tangents: Sequence[Tensor]
    ) -> list[Tensor]:
        """The gradients for a call's arguments and the tangents of its results."""
        primals = self.graph.params[: len(self.graph.params) - self.tangents]
        inputs = [
            _input(source, leaves, symbols) if param in self.read else None
            for param, source in zip(primals, sources, strict=True)
        ]
        return run_on_tensors(self.graph, [*inputs, *tangents], symbols)


def stamp(sources: Sequence[Any], leaves: Sequence[Any]) -> int:
    """A number that grows with every write to a tensor that a program takes."""
    total = 0
    for source in sources:
        if type(source) is StateSource:
            total += source.slot.storage.version
        elif type(source) is ArgumentSource:
            storage = leaves[source.leaf]._storage
            total += 0 if storage is None else storage.version
    return total


def written_since() -> VersionError:
    """The error for a program whose inputs are no longer what they were."""
    return VersionError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor that "
        "a compiled function read was written before its backward ran with create_graph=True"
    )


def _input(source: Any, leaves: Sequence[Any], symbols: dict[str, Any]) -> Any:
    """What the graph takes of one source, as a tensor with its history."""
    if type(source) is ArgumentSource and source.strides is None and not source.written:
        return _as_taken(leaves[source.leaf], source)
    if type(source) is NumberSource:
        return float(symbols[source.number.key])
    if type(source) is StateSource:
        slot = source.slot
        tensor = slot.tensor if slot.leaf is None else leaves[slot.leaf]
        is_whole = tensor._data.shape == slot.array.shape and tensor._data.flags.c_contiguous
        if not slot.is_flat and not slot.written and is_whole:
            return tensor
    raise StateError(
        "create_graph=True through the backward of a compiled forward that writes what it reads, or reads a part of a "
        "tensor's memory: compile the whole step, "
        "the function that calls backward or autograd.grad, instead of the model alone"
    )


def _as_taken(tensor: Tensor, source: ArgumentSource) -> Tensor:
    """An argument as the program's parameter shows it: once where it repeats elements, its dims in memory order."""
    for axis in source.expanded:
        tensor = tensor.narrow(axis, 0, 1)
    if source.permutation is not None:
        tensor = tensor.permute(sorted(range(tensor.ndim), key=source.permutation.__getitem__))
    return tensor
