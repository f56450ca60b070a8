"""The code that meets one node of a live graph where an earlier walk met one (recall.py): what is expected of the node
stands in its lines, and what stands beside its steps is collected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.function import FunctionNode
from weft.autograd.saved import SavedTensor
from weft.compiled_autograd.records import (
    A_FLOAT,
    A_SIZE,
    ABSENT,
    ANEW,
    CALLED,
    DIMS,
    FORMULA,
    LEAF,
    PASSED,
    SAME,
    TENSOR,
    UNREAD,
    Record,
    Slot,
)
from weft.support.generated import FunctionWriter


class Mismatch(Exception):
    """A live graph is of another structure."""


# What meets a node: of the match, the live nodes by place, and the number of the node before. Gives the number of this
# one. Raises Mismatch.
Meet = Callable[[Any, list[Any], int], int]


def meeting(record: Record, place: int) -> Meet:
    """What meets the node at a place."""
    return _Meeting(record, place).function()


class _Meeting:
    """The lines for one node."""

    def __init__(self, record: Record, place: int) -> None:
        self.record, self.place = record, place
        self.code = FunctionWriter("match", "meet(match, live, latest)", Mismatch=Mismatch, SavedTensor=SavedTensor)

    def function(self) -> Meet:
        record, kind = self.record, self.record.kind
        self._add(f"node = live[{self._name(self.place)}]")
        self._unless(f"len(node.metadata_of_inputs) == {self._name(record.inputs)}")
        if kind == CALLED:
            self._unless(f"isinstance(node, {self._name(FunctionNode)})")
        elif kind != ANEW:
            self._unless(f"type(node) is {self._name(record.type)}")
        if kind != ANEW:
            self._hooks()
        if kind == LEAF:
            self._add(f"match.leaf(node, {self._name(record)})", "return latest")
            return self.code.function()
        self._order()
        if kind == FORMULA:
            self._saved()
        elif kind == CALLED:
            self._add("match.out.objects.append(node)")
        elif kind == ANEW:
            self._add(f"match.anew(node, {self._name(record)})")
        self._edges()
        self._add("return latest")
        return self.code.function()

    def _name(self, constant: Any) -> str:
        return self.code.name(constant)

    def _add(self, *lines: str) -> None:
        self.code.lines += lines

    def _unless(self, condition: str) -> None:
        self._add(f"if not ({condition}): raise Mismatch")

    def _hooks(self) -> None:
        """Hooks on the tensors that the node made, as many as there were, and no others."""
        record = self.record
        if not record.hooks:
            self._add("if node.hook_tables is not None: match.without_hooks(node)")
            return
        self._add(
            "tables = node.hook_tables",
            "if tables is None: raise Mismatch",
            "if len(tables) != 1: match.only_on_tensors(node)",
            "registered = tables.get('tensor_hooks') or {}",
        )
        self._unless(f"len(registered) == {len(record.hooks)}")
        if len(record.hooks) > 1:
            self._unless(f"tuple(registered) == {self._name(tuple([index for index, _ in record.hooks]))}")
        step = record.visit.first
        for turn, (index, count) in enumerate(record.hooks):
            found = f"h{turn}"
            taken = f"tuple(registered.get({self._name(index)}, {{}}).values())"
            self._add(f"{found} = {taken}")
            self._unless(f"len({found}) == {count}")
            if count:
                self._add(
                    f"match.hooks[node, {self._name(index)}] = ({self._name(step)}, {found})",
                    f"match.out.objects += {found}",
                )
                step += count

    def _order(self) -> None:
        """The latest node first. (A leaf's turn is whenever it is ready.)"""
        by_number = ["if node.sequence >= latest: raise Mismatch", "latest = node.sequence"]
        if self.record.kind == ANEW:
            self._add(f"if type(node) is not {self._name(AccumulateGrad)}:", *[f"    {line}" for line in by_number])
        elif self.record.type is not AccumulateGrad:
            self._add(*by_number)
        elif self.record.kind == PASSED:
            self._add("match.without_calls(node)")

    def _saved(self) -> None:
        self._add("saved = node.saved_values")
        self._unless(f"saved is not None and node.argument_counts == {self._name(self.record.counts)}")
        for slot in self.record.slots:
            self._slot(slot)

    def _slot(self, slot: Slot) -> None:
        kind, i, expected = slot
        self._add(f"value = saved[{i}]")
        if kind == TENSOR:
            self._unless("type(value) is SavedTensor and value.unpack_hook is None")
            self._add(f"match.tensor(value, node, {self._name(expected)})")
        elif kind == DIMS:
            self._unless(f"type(value) is tuple and len(value) == {expected}")
            self._add("match.out.sizes += value")
        elif kind == SAME:
            self._unless(f"type(value) is {self._name(type(expected))} and value == {self._name(expected)}")
        elif kind == ABSENT:
            self._unless("value is None")
        elif kind == UNREAD:
            self._add("match.unread(value, node)")
        else:
            self._unless(f"type(value) is {'float' if kind == A_FLOAT else 'int'}")
            if expected is not None:
                self._add(f"if {self._name(expected)}(value): raise Mismatch")
            target = "floats" if kind == A_FLOAT else "sizes" if kind == A_SIZE else "ints"
            self._add(f"match.out.{target}.append(value)")

    def _edges(self) -> None:
        edges = self.record.edges
        self._add("edges = node.edges")
        self._unless(f"len(edges) == {len(edges)}")
        for i, edge in enumerate(edges):
            if edge is None:
                self._unless(f"edges[{i}] is None")
                continue
            at, slot, rank, dtype = edge
            place = self._name(at)
            self._add(f"edge = edges[{i}]", "if edge is None: raise Mismatch", "target = edge[0]")
            if self.record.is_part:
                self._unless(f"(target in match.walk.dependencies) is {at >= 0}")
            if at >= 0:
                self._add(
                    f"if live[{place}] is not target:",
                    f"    if live[{place}] is not None: raise Mismatch",
                    f"    live[{place}] = target",
                )
            self._unless(f"edge[1] == {slot}")
            if rank >= 0 and self.record.kind != ANEW:
                self._add(f"metadata = target.metadata_of_inputs[{slot}]")
                self._unless(
                    f"metadata is not None and metadata.dtype is {self._name(dtype)} and len(metadata.dims) == {rank}"
                )
                self._add("match.out.sizes += metadata.dims")
                if self.record.kind == CALLED:
                    self._add("match.out.objects.append(node)", f"match.out.ints.append({i})")
