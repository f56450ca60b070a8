"""Custom Functions in graphs that are differentiated: gradients flow as their backward had it, which a graph says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from weft.autograd.engine import current_walk
from weft.autograd.node import Edge, InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.ir.graph import Graph
from weft.ir.opaque import WHERE_REACHED
from weft.ops.packet import aten
from weft.ops.route import call
from weft.passes.stop_gradients import Rule
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

Run = Callable[[Graph, Sequence[Any]], list[Any]]


def called_function(
    run: Run, outputs: Sequence[Tensor], inputs: Sequence[Any], read: Sequence[Any], rule: Rule
) -> list[Tensor]:
    """The outputs of a call with the history that its rule says. run: the results of a graph for its parameters."""
    edges = tuple([gradient_edge(x) if isinstance(x, Tensor) and x.requires_grad else None for x in inputs])
    if not modes.grad or not any(edges):
        return list(outputs)
    node = RuleBackward(edges, rule, [x.detach() for x in outputs], read, run)
    return node.outputs()


class RuleBackward(Node):
    """The history of what a custom Function gave in a graph."""

    def __init__(
        self, edges: tuple[Edge | None, ...], rule: Rule, values: Sequence[Tensor], read: Sequence[Any], run: Run
    ) -> None:
        super().__init__(edges)
        self.rule, self.values, self.read, self.run = rule, values, read, run
        self.metadata_of_inputs = tuple([InputMetadata(x.dims, x.dtype) for x in values])

    def outputs(self) -> list[Tensor]:
        """The outputs, with this history."""
        outputs = [x.detach() for x in self.values]
        for i, x in enumerate(outputs):
            if x.dtype.is_differentiable:
                x._autograd = AutogradState(False, self, i)
        return outputs

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        gradients = [aten.zeros_like(x) if g is None else g for g, x in zip(grads, self.values, strict=True)]
        after, walk = self.rule.after, current_walk()
        if after is None:
            results = tuple(self.run(self.rule.graph, [*gradients, *self.outputs(), *self.read]))
            self.rule.arrived = None if walk is None else ref(walk), results
            return results
        (begun, arrived), after.arrived = after.arrived, (None, ())
        if begun is None or begun() is not walk:
            return grads
        waited = [g for g in arrived if g is not None]
        results = tuple(self.run(self.rule.graph, [*gradients, *self.outputs(), *waited, *self.read]))
        return tuple([
            g if g is None or was is None else call(WHERE_REACHED, (g, was, tuple(waited)))
            for g, was in zip(results, grads, strict=True)
        ])
