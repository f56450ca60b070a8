"""A graph run with tensors, node by node, so that its results have histories: the interpreter of what no native program
serves, branches, loops and sizes that are found on the way included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.compile.blocks.function_rules import called_function
from weft.ir.graph import Block, Graph, Node, Value
from weft.ir.interpreter import Symbols, Values, bind_symbols, resolve
from weft.ir.opaque import ACCUMULATE, CALL_FUNCTION, STOP_GRADIENT, VALIDATE, plan_of_opaque
from weft.ir.structure import IF
from weft.ops.backward import flat_gradients
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.tensor.tensor import Tensor
from weft.types import dims
from weft.types.dims import Expr
from weft.types.tensor_type import TensorType, tensor_type

Results = tuple[Any, ...]


def run_on_tensors(graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
    """The graph's results for tensors and numbers in the order of its parameters."""
    return _run(graph.block, dict(zip(graph.params, inputs, strict=True)), dict(symbols))


def evaluate_op(op: Op, args: tuple[Any, ...]) -> Results:
    """The results of a node: opaque calls by their formulas, others as they are."""
    if op is STOP_GRADIENT and isinstance(args[0], Tensor):
        return (args[0].detach(),)
    plan = plan_of_opaque(op)
    if plan is not None:
        return flat_gradients(plan, *args)
    out = op.decompose(*args) if op is VALIDATE or op is ACCUMULATE else call(op, args)  # type: ignore[misc]
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)  # (a named tuple is one)


def run_control(node: Node, values: Mapping[Value, Any]) -> Results:
    """The results of a branch or a loop of a graph without symbols. values: at least those that it reads."""
    return tuple(_control(node, {v: values[v] for v in node.needs()}, {}))


def _run(block: Block, values: Values, symbols: Symbols) -> list[Any]:
    for node in block.nodes:
        if node.blocks:
            results: Sequence[Any] = _control(node, values, symbols)
        else:
            args = tuple([resolve(a, values, symbols) for a in node.args])
            results = (
                evaluate_op(node.op, args) if node.op is not CALL_FUNCTION
                else called_function(lambda graph, given: run_on_tensors(graph, given, symbols), *args)
            )
        for value, result in zip(node.outputs, results, strict=True):
            values[value] = result
            bind_symbols(value, result, symbols)
    return [resolve(r, values, symbols) for r in block.results]


def _control(node: Node, values: Values, symbols: Symbols) -> list[Any]:
    return (_branch if node.op is IF else _loop)(node, values, symbols)


def _branch(node: Node, values: Values, symbols: Symbols) -> list[Any]:
    return _run(node.blocks[0 if resolve(node.args[0], values, symbols) else 1], dict(values), symbols)


def _loop(node: Node, values: Values, symbols: Symbols) -> list[Any]:
    """The carried values at the end, and the rows of each step stacked by its index, zeros for steps not made."""
    (block,) = node.blocks
    trip, going, carried, xs, reverse = (resolve(a, values, symbols) for a in node.args)
    steps = range(int(trip))  # 2**62 where only the condition ends it
    rows: dict[int, list[Any]] = {}
    for at in reversed(steps) if reverse else steps:
        if not going:
            break
        given = dict(zip(block.params, (at, *carried, *(x[at] for x in xs)), strict=True))
        going, *rest = _run(block, {**values, **given}, symbols)
        carried, rows[at] = rest[: len(carried)], rest[len(carried) :]
    made = [
        [rows[at][i] if at in rows else None for at in steps] for i in range(len(node.outputs) - len(carried))
    ]
    stacked = [_stack(found) for found in made]
    return [*carried, *(
        _no_rows(node, i, len(made[i]), values, symbols) if s is None else s for i, s in enumerate(stacked)
    )]


def _stack(rows: list[Any]) -> Tensor | None:
    """Rows as one tensor, zeros for those that are missing; None where all are."""
    known = next((r for r in rows if r is not None), None)
    if known is None:
        return None
    return aten.stack([aten.zeros_like(known) if r is None else r for r in rows], 0)  # type: ignore[no-any-return]


def _no_rows(node: Node, i: int, count: int, values: Values, symbols: Symbols) -> Tensor:
    """The stacked result number i of a loop that made no step."""
    row = _row(node, i, values, symbols)
    return aten.zeros((count, *row.shape), dtype=row.dtype)  # type: ignore[no-any-return]


def _row(node: Node, i: int, values: Values, symbols: Symbols) -> TensorType:
    """The type of a row of a loop's stacked result number i, of which no step has made one: as the loop says, or what
    its block gives for tensors without values."""
    carried = len(node.args[2])
    stacked = node.outputs[carried + i].tensor_type
    if stacked.dims is not None:
        sizes = tuple([dims.evaluate(d, symbols) if type(d) is Expr else d for d in stacked.dims[1:]])
        return tensor_type(stacked.dtype, sizes)
    (block,) = node.blocks
    _, _, states, xs, _ = (resolve(a, values, symbols) for a in node.args)
    slices = [aten.new_empty(x, tuple(x.shape[1:])) for x in xs]
    given = dict(zip(block.params, (0, *states, *slices), strict=True))
    bare = {v: x.to("meta") if isinstance(x, Tensor) else x for v, x in {**values, **given}.items()}
    made = _run(block, bare, symbols)[1 + carried + i]
    return tensor_type(made.dtype, tuple(made.shape))
