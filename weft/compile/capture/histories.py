"""Which operands had no history when a node was recorded. A graph knows values, and a value may be seen with its
history and without (detach, no_grad): where it is computed again to be differentiated, no gradient may flow through
the latter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.autograd.node import OpNode
from weft.ir.graph import Block, Node
from weft.passes.stop_gradients import Without
from weft.tensor.tensor import Tensor


class Histories:
    """of: for the nodes whose calls had a history, and for calls of backward nodes, which operands had none; for blocks
    of such nodes, which results."""

    def __init__(self) -> None:
        self.of: dict[Node | Block, Without] = {}
        self._expected: tuple[Any, Without] | None = None

    def expect(self, args: tuple[Any, ...], node: OpNode) -> None:
        """A call with a history is about to be recorded: its arguments, and its node of autograd."""
        lacking: list[Any] = [False] * len(args)
        at = 0
        for position, count in zip(node.plan.differentiable, node.argument_counts, strict=False):
            edges = node.edges[at : at + count]
            at += count
            given = args[position]
            if type(given) is tuple:
                lacking[position] = tuple([e is None for e in edges])
            elif isinstance(given, Tensor):
                lacking[position] = edges[0] is None
        self._expected = (args, tuple(lacking))

    def expected(self, args: tuple[Any, ...]) -> Without | None:
        """What was said of the call with these arguments, if it is the one."""
        found, self._expected = self._expected, None
        return None if found is None or found[0] is not args else found[1]

    def taken(self) -> Mapping[Node | Block, Without]:
        """What was noted, which is kept here no longer."""
        found, self.of = self.of, {}
        return found

    def note_saved(self, node: Node, saved: Sequence[Any]) -> None:
        """Note of the call of a backward node what it was given of the forward."""
        self.of[node] = (False, False, lacking(saved))

    def note_loop(self, node: Node, carried: Sequence[Any], xs: Sequence[Any], results: Without) -> None:
        """Note of a loop with a history what it carries, what it goes over, and what of a step's results had none."""
        self.of[node] = (False, False, lacking(carried), lacking(xs), False)
        self.of[node.blocks[0]] = results

    def note_copy(self, copy: Node | Block, of: Node | Block) -> None:
        """What is made once more had the same operands with a history."""
        if of in self.of:
            self.of[copy] = self.of[of]


def lacking(values: Sequence[Any]) -> Without:
    """Which of some values are tensors that have no history where they could have one."""
    return tuple([isinstance(v, Tensor) and v.dtype.is_differentiable and not v.requires_grad for v in values])
