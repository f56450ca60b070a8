"""WEFT_DEBUG=nan and anomaly mode: a program whose results are not finite says which operator made the first NaN.

The program runs as it is. Only when what it gives is not finite, its graph is evaluated once more node by node, on the
inputs as they were, and nothing that the program has written stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.ir.evaluate import ArrayEvaluator, Values
from weft.ir.graph import Graph, Node
from weft.ir.opaque import forward_nodes, plan_of_opaque
from weft.support.errors import NotFiniteError
from weft.support.warn import warn

_NAN, _INFINITY = "NaN", "an infinity"


def checked_run(executable: Any, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
    """The results of a program, with a look at them. Raises NotFiniteError, with what the program writes as it was
    before, where one of its operators made a NaN or an infinity that a result has."""
    graph: Graph = executable.captured
    written = {param for _, param in graph.writes}
    before = [value.copy() if at in written else value for at, value in enumerate(inputs)]
    results: list[Any] = executable.compute(inputs, symbols)
    if not any(map(trouble, results)):
        return results
    watch = NanWatch(symbols)
    expected = watch.evaluate(graph, before)
    origin = watch.first_of(expected)
    if origin is None or origin.node is None:
        _warn_of_inputs(graph, before, origin)
        return results
    for param in written:
        np.copyto(inputs[param], before[param])
    raise NotFiniteError(origin.message(graph))


def _warn_of_inputs(graph: Graph, inputs: Sequence[Any], origin: Origin | None) -> None:
    if origin is None:
        warn(
            f"{graph.name}: the compiled program gives NaN or infinity where its operators, run one by one, do not; "
            "weft.debug.bisect names what is wrong with it"
        )
    elif origin.kind == _NAN:
        params = [str(p.name) for p, value in zip(graph.params, inputs, strict=True) if trouble(value) == _NAN]
        warn(f"{graph.name}: NaN comes in with {', '.join(params) or 'a constant'}; no operator of the program made it")


@dataclass(eq=False)
class Origin:
    """Where a value stopped to be finite. node: the operator that made it so of finite ones; None for an input or a
    constant. order: of the first, the second, ... such operator of a run. text: what it computed. cause: of an operand
    that was infinite."""

    kind: str
    order: int
    node: Node | None = None
    text: str = ""
    cause: Origin | None = None

    def message(self, graph: Graph) -> str:
        """What to tell the user, beginning with a line."""
        assert self.node is not None
        text = f"{_line(self.node)}{operator_text(graph, self.node)} gives {self.kind}{self.text}"
        if self.cause is not None and self.cause.node is not None:
            node = self.cause.node
            text += f"; infinite since {_line(node)}{operator_text(graph, node)}{self.cause.text}"
        return text


class NanWatch(ArrayEvaluator):
    """Knows where each value stopped to be finite."""

    def __init__(self, symbols: Mapping[str, int] | None = None) -> None:
        super().__init__(symbols)
        self._origins: dict[int, tuple[Any, Origin]] = {}  # by the identity of a value, which stays alive for it
        self._around: list[tuple[list[Origin], int]] = []  # of the operands of blocks' nodes, and the order then
        self._order = 0

    def origin_of(self, value: Any) -> Origin | None:
        """Where a value that is not finite comes from."""
        kind = trouble(value)
        if kind is None:
            return None
        entry = self._origins.get(id(value))
        if entry is not None:
            return entry[1]
        for origins, _ in reversed(self._around):  # a part of what a loop goes over
            for origin in origins:
                return origin
        return Origin(kind, 0)

    def first_of(self, results: Sequence[Any]) -> Origin | None:
        """The first operator that made something of these results; else where one comes from; None if all are finite.
        """
        origins = [origin for origin in map(self.origin_of, results) if origin is not None]
        from_nodes = [origin for origin in origins if origin.node is not None]
        return min(from_nodes or origins, key=lambda origin: origin.order, default=None)

    def evaluate_node(self, node: Node, values: Values) -> None:
        """Add a node's results to `values`, and look at them."""
        operands = [values.get(v) for v in node.reads()]
        origins = [origin for origin in map(self.origin_of, operands) if origin is not None]
        if node.blocks:
            self._around.append((origins, self._order))
        try:
            super().evaluate_node(node, values)
        finally:
            begin = self._around.pop()[1] if node.blocks else self._order
        for output in node.outputs:
            value = values[output]
            if trouble(value) is not None and id(value) not in self._origins:
                self._origins[id(value)] = value, self._judged(node, operands, origins, value, begin)

    def _judged(self, node: Node, operands: list[Any], origins: list[Origin], value: Any, begin: int) -> Origin:
        kind = trouble(value)
        assert kind is not None
        inside = [origin for _, origin in self._origins.values() if node.blocks and origin.order > begin]
        for origin in (*inside, *origins):
            if origin.kind == kind or origin.kind == _NAN:
                return origin
        if kind == _INFINITY and (origins or any(map(_is_infinite, _numbers(node.args)))):
            return Origin(kind, self._order)  # it was asked for
        self._order += 1
        cause = next((origin for origin in origins if origin.node is not None), None)
        return Origin(kind, self._order, node, _place(node, operands, value), cause)


def trouble(value: Any) -> str | None:
    """"NaN" or "an infinity", where a value is not finite."""
    if isinstance(value, float):
        return None if math.isfinite(value) else _NAN if value != value else _INFINITY
    if not isinstance(value, (np.ndarray, np.generic)):
        return None
    if (value.dtype.kind not in "fc" and value.dtype.name != "bfloat16") or bool(np.isfinite(value).all()):
        return None
    return _NAN if bool(np.isnan(value).any()) else _INFINITY


def _numbers(operands: Any) -> Iterator[float]:
    for operand in operands:
        if isinstance(operand, tuple):
            yield from _numbers(operand)
        elif isinstance(operand, float):
            yield operand


def _is_infinite(number: float) -> bool:
    return math.isinf(number)


def _place(node: Node, operands: list[Any], value: Any) -> str:
    """How many elements, the first of them, and the operands there."""
    array = np.asarray(value)
    bad = ~np.isfinite(array)
    if trouble(value) == _NAN:
        bad = np.isnan(array)
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    count = f" in {int(bad.sum())} of {array.size} elements, first at {list(index)}" if array.ndim else ""
    shown = [text for text in (_at(x, array.shape, index) for x in operands) if text]
    return f"{count}: of {', '.join(shown[:3])}" if shown else count


def _at(operand: Any, shape: tuple[int, ...], index: tuple[int, ...]) -> str:
    """An operand's element that goes into one of the result; what it ranges over, where that is no single one."""
    if isinstance(operand, (int, float)):
        return f"{operand:.6g}"
    if not isinstance(operand, np.ndarray) or operand.dtype.kind in "Ob" or not operand.size:
        return ""
    try:
        element = np.broadcast_to(operand, shape)[index]
    except ValueError:
        wide = np.asarray(operand, np.complex128 if operand.dtype.kind == "c" else np.float64)
        return "" if wide.dtype.kind == "c" else f"numbers from {wide.min():.6g} to {wide.max():.6g}"
    return f"{element.item() if element.dtype.kind in 'fiuc' else float(element):.6g}"


def _line(node: Node) -> str:
    return "" if node.where is None else f"{node.where}: "


def operator_text(graph: Graph, node: Node) -> str:
    """`aten::log`, or `the backward of aten::log (train.py:7)`."""
    plan = plan_of_opaque(node.op)
    if plan is None:
        return node.op.name
    forward = forward_nodes(list(graph.walk())).get(node)
    line = "" if forward is None or forward.where in (None, node.where) else f" ({forward.where})"
    return f"the backward of {plan.op.name}{line}"
