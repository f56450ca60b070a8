"""prim::If as If of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ir.graph import Node
from weft.onnx.blocks import (
    UNSET,
    NotAsNode,
    Raised,
    State,
    Written,
    changed,
    element_of,
    empty,
    kind,
    leaving,
    leaving_list,
    lose,
    nested,
    places,
    put,
)
from weft.onnx.dependency import helper
from weft.onnx.lists import Listed
from weft.onnx.nodes import KINDS, value_info
from weft.onnx.outputs import Number, Output
from weft.support.errors import Unsupported


def write_if(exporter: Any, node: Node, condition: Output) -> Sequence[Any]:
    """A choice that the model makes. A branch that raises is left out."""
    branches: list[Written | None] = []
    for block in node.blocks:
        try:
            branches.append(nested(exporter, block, []))
        except Raised:
            branches.append(None)
        except NotAsNode as problem:
            raise Unsupported(f"a branch that hangs on a tensor: {problem}") from None
    if None in branches:
        kept = [i for i, b in enumerate(branches) if b is not None]
        if not kept:
            raise Raised("both branches raise")
        return exporter.block(node.blocks[kept[0]], [])  # type: ignore[no-any-return]
    return _Choice(exporter, condition, branches).write()


class _Choice:
    """The results of both branches, side by side."""

    def __init__(self, exporter: Any, condition: Output, branches: Sequence[Any]) -> None:
        self.exporter, self.condition, self.branches = exporter, condition, branches
        self.outputs: tuple[list[Any], list[Any]] = ([], [])
        self.made: list[Any] = []
        self.twins: list[tuple[Output, tuple[Output, ...]]] = []

    def write(self) -> list[Any]:
        """One If, and what each result of the branches is behind it."""
        first, second = self.branches
        results = [self.merge(a, b) for a, b in zip(first.results, second.results, strict=True)]
        written = []
        for outer in {**first.writes, **second.writes}:
            written.append((outer, self.merge(first.writes.get(outer, outer), second.writes.get(outer, outer))))
        containers = [(c, self.merge_states(c, a, b)) for c, a, b in changed(first, second)]
        if self.made:
            self._append()
        for outer, value in written:
            self.exporter.rebind(outer, value)
        for container, state in containers:
            if isinstance(state, Listed):
                self.exporter.lists[id(container)] = (container, state)
            else:
                put(container, state)
        for output, twins in self.twins:
            output.twins = twins
        lose((*first.lost, *second.lost))
        return results

    def _append(self) -> None:
        graphs = [
            helper.make_graph(b.scope.nodes, name, [], infos)
            for b, name, infos in zip(self.branches, ("then", "otherwise"), self.outputs, strict=True)
        ]
        names = [o.name for o in self.made]
        node = helper.make_node("If", [self.condition.name], names, then_branch=graphs[0], else_branch=graphs[1])
        self.exporter.writer.append(node)

    def merge(self, a: Any, b: Any) -> Any:
        """One value for two."""
        if isinstance(a, list) and isinstance(b, list):
            state = self.merge_states(None, *(w.state(x) for w, x in zip(self.branches, (a, b), strict=True)))
            merged: list[Any] = [] if isinstance(state, Listed) else state
            if isinstance(state, Listed):
                self.exporter.lists[id(merged)] = (merged, state)
            return merged
        if isinstance(a, tuple) and type(a) is type(b) and len(a) == len(b):
            return type(a)(self.merge(x, y) for x, y in zip(a, b, strict=True))
        if a is b:
            return a
        if a is UNSET or b is UNSET:  # never read where it is unset: any value does
            a, b = (empty(self.exporter, b), b) if a is UNSET else (a, empty(self.exporter, a))
            return self.merge(a, b)
        if not isinstance(a, Output) and not isinstance(b, Output) and type(a) is type(b) and a == b:
            return a
        both = (a, b)
        if not all(isinstance(v, (Output, *KINDS)) for v in both):
            raise Unsupported(f"the branches give {kind(a)} and {kind(b)}, of which ONNX makes no one value")
        dtypes = [self.exporter.writer.dtype(v) for v in both]
        if dtypes[0] is not dtypes[1]:
            raise Unsupported(f"the branches give tensors of {dtypes[0]} and of {dtypes[1]}")
        return self._output(a, b, dtypes[0])

    def merge_states(self, container: Any, a: State, b: State) -> State:
        """One state of a list or dict for two: element by element where both have as many, else a sequence."""
        around = self.exporter.listed(container)
        now = container if around is None else around
        a, b = now if a is None else a, now if b is None else b
        if not isinstance(a, Listed) and not isinstance(b, Listed) and places(a) == places(b):
            merged = [self.merge(a[k], b[k]) for k in places(a)]
            return dict(zip(a, merged, strict=True)) if isinstance(a, dict) else merged
        if isinstance(a, dict):
            raise Unsupported("a branch that hangs on a tensor puts new keys into a dict")
        element, ends = element_of(self.exporter, a, b), []
        for branch, infos, state in zip(self.branches, self.outputs, (a, b), strict=True):
            if not isinstance(state, Listed):
                state = [branch.now(v) for v in state]
            ends.append(leaving_list(self.exporter, branch.scope, state, element))
            infos.append(ends[-1].info())
        assert element is not None
        sequence = Listed(self.exporter.writer.name("if"), max(ends, key=lambda e: len(e.items)).items, element)
        self.made.append(sequence)
        return sequence

    def _output(self, a: Any, b: Any, dtype: Any) -> Output:
        writer, ends = self.exporter.writer, []
        for branch, infos, value in zip(self.branches, self.outputs, (a, b), strict=True):
            end = leaving(self.exporter, branch.scope, branch.now(value), dtype)
            infos.append(value_info(end))
            ends.append(end)
        same = [a if a == b else None for a, b in zip(ends[0].sizes, ends[1].sizes, strict=False)]
        numbers = not any(writer.is_tensor(v) for v in (a, b))
        output = (Number if numbers else Output)(writer, writer.name("if"), ends[0].example, same)
        self.made.append(output)
        if not numbers:
            around = [t for w, v in zip(self.branches, (a, b), strict=True) for t in w.from_around(v)]
            self.twins.append((output, tuple(around)))
        return output
