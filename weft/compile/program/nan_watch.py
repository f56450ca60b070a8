"""WEFT_NAN: a program that runs node by node and stops where the first NaN comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.ir.graph import Graph, Node, Value
from weft.ir.interpreter import bind_symbols, last_uses, resolve, run_node
from weft.support.errors import StateError


def interpret_watching(graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
    """As `interpret` does. Raises StateError, with the user's line, at the first node that makes a NaN of operands
    that have none."""
    values: dict[Value, Any] = dict(zip(graph.params, inputs, strict=True))
    known = dict(symbols)
    for param, x in values.items():
        bind_symbols(param, x, known)
    for node, finished in zip(graph.nodes, last_uses(graph.block), strict=True):
        was_clean = not any(_has_nan(values.get(v)) for v in node.reads())
        run_node(node, values, known)
        if was_clean and any(_has_nan(values[v]) for v in node.outputs):
            raise StateError(_text(node))
        for value in finished:
            del values[value]
    return [resolve(r, values, known) for r in graph.results]


def _text(node: Node) -> str:
    line = "" if node.where is None else f"{node.where}: "
    return f"{line}{node.op.name} gives NaN, and none of its operands has one (WEFT_NAN)"


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return value != value
    return (
        isinstance(value, np.ndarray) and (value.dtype.kind in "fc" or value.dtype.name == "bfloat16")
        and bool(np.isnan(value).any())
    )
