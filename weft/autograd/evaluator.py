"""How a backward walk computes: the engine runs what a compiler installs in place of this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.autograd.node import Edge, InputMetadata, Node
from weft.autograd.validate import validate
from weft.ops.packet import aten

_ADD = aten.add.calls


class Evaluator:
    """How a walk computes. A compiler overrides these to record."""

    def run(self, node: Node, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """The gradients of a node's edges."""
        return node.apply(grads, needs)

    def stepper(
        self, step: Callable[[Node], Node | None], roots: Sequence[Edge], wanted: Sequence[Edge] | None
    ) -> Callable[[Node], Node | None]:
        """How one backward call takes its steps, each of which may tell the next one. roots: where it begins;
        wanted: the edges that were asked for, if some were."""
        return step

    def validate(self, node: Node, index: int, gradient: Any, metadata: InputMetadata) -> Any:
        """The gradient made to fit the tensor it belongs to (`index` is the edge's number)."""
        return validate(node.name(), index, gradient, metadata, node.is_users)

    def add(self, a: Any, b: Any) -> Any:
        """The sum of two contributions to one slot."""
        found = _ADD.plain.get((type(a), type(b)))
        return aten.add(a, b) if found is None else found[2](found[0], (a, b, *found[1]))  # no public call
