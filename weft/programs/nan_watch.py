"""WEFT_NAN: a program that runs node by node and stops where the first NaN comes from."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ir.evaluate import ArrayEvaluator, Values
from weft.ir.graph import Node
from weft.support.errors import StateError


class NanWatch(ArrayEvaluator):
    """Raises StateError, with the user's line, at the first node that makes a NaN of operands that have none."""

    def evaluate_node(self, node: Node, values: Values) -> None:
        """Add a node's results to `values`, and look at them."""
        was_clean = not any(_has_nan(values.get(v)) for v in node.reads())
        super().evaluate_node(node, values)
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
