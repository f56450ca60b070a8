"""WEFT_NAN: a program that runs node by node and stops where the first NaN comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.ir.graph import Graph, Node
from weft.ir.interpreter import Symbols, Values, interpret, run_node
from weft.support.errors import StateError


def interpret_watching(graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
    """As `interpret` does. Raises StateError, with the user's line, at the first node that makes a NaN of operands
    that have none."""
    return interpret(graph, inputs, symbols, _run_watched)


def _run_watched(node: Node, values: Values, symbols: Symbols) -> None:
    was_clean = not any(_has_nan(values.get(v)) for v in node.reads())
    run_node(node, values, symbols)
    if was_clean and any(_has_nan(values[v]) for v in node.outputs):
        raise StateError(_text(node))


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
