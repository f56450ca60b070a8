"""Branches: two recorded blocks as one prim::If, with its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.autograd.node import Edge
from weft.ir.graph import Block, Operand, map_operand
from weft.ir.structure import IF
from weft.record.blocks.memory import Memory, end_of, joined, write_back
from weft.record.blocks.recorded import ControlBackward, Recorded, record, tensor_of
from weft.support.locations import Location
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.functionalizer.storage import Order
    from weft.record.capture import Capture


def choose(
    capture: Capture, condition: Any, branches: tuple[Recorded, Recorded], orders: Sequence[Order | None] | None = None,
    where: Location | None = None,
) -> list[Tensor]:
    """The results of one of two recorded blocks, as the condition says when the program runs."""
    asked = len(branches[0].results)
    branches = _with_memory(capture, branches)
    types = tuple([r.type for r in branches[0].results])
    test = capture.tensors.operand(condition)
    node = capture.recorder.builder.emit_raw(IF, (test,), types, tuple([b.block for b in branches]), where)
    outputs = [
        capture.tensors.fresh(v, o)
        for v, o in zip(node.outputs, (*(orders or (None,) * asked), *(None,) * (len(types) - asked)), strict=True)
    ]
    border = {**branches[0].border(), **branches[1].border()}
    if border:
        flows = [any(b.ends[i] is not None for b in branches) for i in range(len(types))]
        CondBackward(capture, tuple(border), test, branches).attach(outputs, flows)
        capture.recorder.histories.of.update([(b.block, tuple([e is None for e in b.ends])) for b in branches])
    write_back([b.memory for b in branches], outputs[asked:])
    return outputs[:asked]


def _with_memory(capture: Capture, branches: tuple[Recorded, Recorded]) -> tuple[Recorded, Recorded]:
    """Both blocks also yield the outer tensors that one of them writes."""
    true, false = joined(capture.tensors, [b.memory for b in branches])
    if not true.tensors:
        return branches
    bases = [base for base, _, _ in true.tensors.values()]
    before = [end_of(base) for base in bases]

    def yielding(branch: Recorded, memory: Memory) -> Recorded:
        left = [(value, edge) for _, value, edge in memory.tensors.values()]
        ends = [edge if is_new else None for (_, edge), is_new in zip(left, changes, strict=True)]
        block = Block(branch.block.params, branch.block.nodes, (*branch.results, *(value for value, _ in left)))
        return replace(branch, block=block, ends=(*branch.ends, *ends), memory=memory)

    changes = [
        any(m.tensors[id(base)][2] != edge for m in (true, false)) for base, edge in zip(bases, before, strict=True)
    ]
    return yielding(branches[0], true), yielding(branches[1], false)


class CondBackward(ControlBackward):
    """The history of weft.cond."""

    def __init__(
        self, capture: Capture, edges: tuple[Edge, ...], condition: Operand, branches: tuple[Recorded, Recorded]
    ) -> None:
        super().__init__(capture, edges)
        self.condition, self.branches = condition, branches

    @property
    def blocks(self) -> Sequence[Recorded]:
        return self.branches

    def pull_back(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> Sequence[Tensor]:
        capture = self.capture
        wanted = [e for e, is_wanted in zip(self.edges, needs, strict=True) if e is not None and is_wanted]

        def backward(branch: Recorded) -> Recorded:
            return record(capture, lambda _: branch.pull_back(capture, (), grads, wanted), branch)

        condition = tensor_of(capture, map_operand(self.condition, capture.recorder.values))
        return choose(capture, condition, (backward(self.branches[0]), backward(self.branches[1])))
