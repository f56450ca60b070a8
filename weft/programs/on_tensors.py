"""Graphs evaluated with tensors, so that results have histories: for what no native program serves, branches, loops and
sizes that are found on the way included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.ir.evaluate import Evaluator, Values
from weft.ir.graph import Graph, Node
from weft.ir.opaque import ACCUMULATE, CALL_FUNCTION, STOP_GRADIENT, VALIDATE, plan_of_opaque
from weft.layers.transforms.level import constants
from weft.ops.backward import flat_gradients
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.record.blocks.function_rules import called_function
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

Results = tuple[Any, ...]


def run_on_tensors(graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
    """The graph's results for tensors and numbers in the order of its parameters."""
    return TensorEvaluator(symbols).evaluate(graph, inputs)


def evaluate_op(op: Op, args: tuple[Any, ...]) -> Results:
    """The results of a node: opaque calls by their formulas, others as they are."""
    if op is STOP_GRADIENT and isinstance(args[0], Tensor):
        return (args[0].detach(),)
    plan = plan_of_opaque(op)
    if plan is not None:
        with constants(args):  # as the node itself would compute it
            return flat_gradients(plan, *args)
    out = op.decompose(*args) if op is VALIDATE or op is ACCUMULATE else call(op, args)  # type: ignore[misc]
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)  # (a named tuple is one)


class TensorEvaluator(Evaluator):
    """Calls a graph's operators with tensors and Python numbers."""

    def operator(self, node: Node, args: tuple[Any, ...]) -> Sequence[Any]:
        """The results of a node."""
        if node.op is CALL_FUNCTION:
            return called_function(lambda graph, inputs: run_on_tensors(graph, inputs, self.symbols), *args)
        return evaluate_op(node.op, args)

    def stack(self, rows: list[tuple[int, Any]], count: int) -> Tensor:
        """`count` rows as one tensor."""
        zeros, by_index = aten.zeros_like(rows[0][1]), dict(rows)
        return aten.stack([by_index.get(index, zeros) for index in range(count)], 0)  # type: ignore[no-any-return]

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Tensor:
        """A tensor of zeros."""
        return aten.zeros(shape, dtype=dtype)  # type: ignore[no-any-return]

    def row_type(self, node: Node, i: int, values: Values) -> tuple[tuple[int, ...], DType]:
        """As the loop says, or what its block gives for tensors without values."""
        carried = len(node.args[2])
        if node.outputs[carried + i].tensor_type.dims is not None:
            return super().row_type(node, i, values)
        (block,) = node.blocks
        _, _, states, xs, _ = (self.operand(a, values) for a in node.args)
        slices = [aten.new_empty(x, tuple(x.shape[1:])) for x in xs]
        arguments = [_without_values(x) for x in (0, *states, *slices)]
        around = {v: _without_values(x) for v, x in values.items()}
        row = self.evaluate_block(block, arguments, around)[1 + carried + i]
        return tuple(row.shape), row.dtype


def _without_values(x: Any) -> Any:
    return x.to("meta") if isinstance(x, Tensor) else x
