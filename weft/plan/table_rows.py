"""Rows that loops write by tables of addresses: which may be written over what else an iteration reads."""

from __future__ import annotations

from weft.ir.graph import Operand, Value
from weft.loops.kernel import KernelCall
from weft.plan.items import BlockItem
from weft.plan.lives import Lives


class TableRows:
    """The rows of all tables. Positions are those of flat events."""

    def __init__(self, lives: Lives) -> None:
        self.lives = lives
        # by row: the loop, what it stacks, and the iteration; by row and start of a loop: what its block reads it as
        self._written: dict[Value, tuple[int, int, BlockItem, Operand, int]] = {}
        self._read: dict[tuple[Value, int], list[tuple[Value, int]]] = {}
        self._whole: dict[int, set[Value]] = {}  # by start of a loop: what it goes over that is no table
        for start, end, block in lives.loops:
            count = len(block.carried)
            self._whole[start] = {lives.owner(v) for v in block.sliced if v not in block.tables}
            for param, source in zip(block.params[1 + count :], block.sliced, strict=True):
                for t, row in enumerate(block.tables.get(source, ())):
                    self._read.setdefault((lives.owner(row), start), []).append((param, t))
            for result, output in zip(block.results[1 + count :], block.node.outputs[count:], strict=True):
                for t, row in enumerate(block.tables.get(output, ())):
                    self._written[row] = start, end, block, result, t

    def may_lie_in(self, row: Value, target: Value) -> bool:
        """Whether a loop may write a row over a parameter: nothing reads that from then on, but its own iteration
        before."""
        if row not in self._written:
            return False
        start, end, block, result, iteration = self._written[row]
        if any(at > start for at in self.lives.readers.get(target, ())) or target in self._whole[start]:
            return False
        assert isinstance(result, Value)  # (else Python runs the loop)
        written, at = self.lives.owner(result), self._written_at(block, result, start, end)
        for param, t in self._read.get((target, start), ()):
            reads = [i for i in self.lives.readers.get(self.lives.owner(param), ()) if i >= at]
            is_over = reads == [at] and at < end and self.lives.overwrites(at, written, param)
            if t != iteration or (reads and not is_over):
                return False
        return True

    def _written_at(self, block: BlockItem, result: Value, start: int, end: int) -> int:
        """Where a row is written: by a kernel of the block, or behind its last one."""
        at = self.lives.producer.get(self.lives.owner(result), -1)
        is_direct = start < at < end and isinstance(self.lives.events[at], KernelCall)
        return at if is_direct and self.lives.is_of_body(block, at) else end
