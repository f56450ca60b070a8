"""What a pass must not change: both graphs run in the interpreter on inputs drawn for them (WEFT_CHECK=2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ir.differences import difference
from weft.ir.evaluate import interpret
from weft.ir.graph import Graph, Node, Value
from weft.ir.structure import LOOP
from weft.support.errors import VerifyError, WeftError
from weft.types import dims
from weft.types.dtype import DType
from weft.types.tensor_type import BOOL, FLOAT, INT, TensorType, Type

_NUMBERS: dict[Type, Any] = {INT: 2, FLOAT: 0.5, BOOL: True}


def check_values(name: str, before: Graph, after: Graph) -> None:
    """Raises VerifyError if a pass changed a value. Says nothing of graphs that cannot run on drawn inputs:
    sizes that only a run tells, loops that may not end."""
    inputs = drawn_inputs(before)
    if inputs is None or any(map(_may_not_end, before.walk())):
        return
    try:
        expected = _run(before, inputs)
    except (WeftError, KeyError):  # an index out of bounds, a size that no input has
        return
    actual = _run(after, inputs)
    for i, (x, y) in enumerate(zip(actual, expected, strict=True)):
        if difference(x, y, scale=1.0) is not None:
            raise VerifyError(
                f"graph @{before.name}: the pass {name} changes result {i}:\n{x}\ninstead of\n{y}\n\nbefore:\n"
                f"{before}\n\nafter:\n{after}"
            )


def _may_not_end(node: Node) -> bool:
    """A loop that asks its values whether to go on: on drawn ones it may go on for ever."""
    return node.op is LOOP and node.blocks[0].results[0] is not True


def drawn_inputs(graph: Graph) -> list[Any] | None:
    """An input for each parameter, of the example sizes; None where a parameter is of a kind that cannot be drawn."""
    rng = np.random.default_rng(0)
    inputs = [_drawn(p, graph.env.examples, rng) for p in graph.params]
    return None if any(x is None for x in inputs) else inputs


def _drawn(param: Value, examples: dict[str, int], rng: np.random.Generator) -> Any:
    if not isinstance(param.type, TensorType):
        return _NUMBERS.get(param.type)
    if not param.type.is_complete or any(s not in examples for d in param.type.shape for s in dims.symbols(d)):
        return None
    assert param.type.dtype is not None
    return _array(param.type.dtype, tuple(dims.evaluate(d, examples) for d in param.type.shape), rng)


def _array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if dtype.is_differentiable:
        return np.asarray(rng.uniform(0.1, 0.9, shape)).astype(dtype.numpy)
    return np.asarray(rng.integers(0, 2, shape)).astype(dtype.numpy)  # indices: the first two are in bounds most often


def _run(graph: Graph, inputs: list[Any]) -> list[Any]:
    return interpret(graph, [x.copy() if isinstance(x, np.ndarray) else x for x in inputs], graph.env.examples)
