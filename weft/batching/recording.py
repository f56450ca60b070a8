"""The steps of a batched program under a capture: which examples take which way stays open until it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.batching.captured import of_open
from weft.batching.entries import ROW_ENTRIES
from weft.batching.values import differs
from weft.ir.graph import Node
from weft.jit.interpreter.code import Code
from weft.jit.interpreter.recording.code import RecordingCode, at_its_line
from weft.jit.interpreter.recording.operators import recorded
from weft.jit.interpreter.steps import Step


class RecordedBatches(RecordingCode):
    """The steps of a program that the pass made, recorded."""

    may_widen = True  # what all examples share is each one's own after a step

    def calling(self, node: Node, function: Callable[..., Any]) -> Step:
        op = node.op
        if op in ROW_ENTRIES:
            return at_its_line(Code.calling(self, node, function), node.where)

        def for_all(shared: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *args: of_open(op, function, args) if differs(args) else shared(*args)

        return at_its_line(Code.calling(self, node, recorded(op, function, for_all)), node.where)
