"""How a backward walk computes: the engine runs what a compiler installs in place of this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.autograd.node import Edge, InputMetadata, Node
from weft.autograd.run_hooks import run_on_nothing, run_post_hooks, run_pre_hooks, run_tensor_hooks
from weft.autograd.validate import validate
from weft.ops.packet import aten

_ADD = aten.add.calls
Step = Callable[[Node], "Node | None"]
Steps = Callable[[Step], None]


class Evaluator:
    """How a walk computes, and calls hooks. A compiler overrides these to record."""

    computes = True  # gradients are tensors, whose numbers may be looked at

    def seed(self, node: Node, index: int, seed: Any, metadata: InputMetadata | None) -> Any:
        """A gradient that the call begins with, made to fit."""
        return seed if metadata is None else validate("root", index, seed, metadata)

    def run(self, node: Node, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """The gradients of a node's edges."""
        return node.apply(grads, needs)

    def walk(self, steps: Steps, step: Step, roots: Sequence[Edge], wanted: Sequence[Edge] | None) -> None:
        """Take the steps of one backward call: `steps(step)` takes them all, each of which may tell the next one.
        roots: where it begins; wanted: the edges that were asked for, if some were."""
        steps(step)

    def validate(self, node: Node, index: int, gradient: Any, metadata: InputMetadata) -> Any:
        """The gradient made to fit the tensor it belongs to (`index` is the edge's number)."""
        return validate(node.name(), index, gradient, metadata, node.is_users)

    def add(self, a: Any, b: Any) -> Any:
        """The sum of two contributions to one slot."""
        planned = _ADD.plain.get((type(a), type(b)))
        return aten.add(a, b) if planned is None else planned[2](planned[0], (a, b, *planned[1]))  # no public call

    def handed_out(self, gradient: Any) -> Any:
        """A gradient that the call was asked for (or None), as its caller sees it."""
        return gradient

    def tensor_hooks(self, node: Node, grads: list[Any], walk: Any) -> None:
        """Hooks on the tensors that a node made, then gradients that are kept. Changes `grads`."""
        if node.tensor_hooks or node.retain_hooks:
            run_tensor_hooks(node, grads, walk)

    def pre_hooks(self, node: Node, grads: list[Any]) -> None:
        """Hooks of a node before it runs. Changes `grads`."""
        if node.pre_hooks:
            run_pre_hooks(node, grads)

    def post_hooks(self, node: Node, out: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """What hooks of a node after it ran make of its gradients."""
        return run_post_hooks(node, out, grads) if node.post_hooks else out

    def run_on_nothing(self, node: Node, grads: list[Any]) -> tuple[Any, ...]:
        """What is left of a node's step where nothing flows into it."""
        return run_on_nothing(node, grads)
