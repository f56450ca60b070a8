"""The interpreter: runs a graph on NumPy arrays, node by node, If and Loop included. The reference for native code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ir.kinds import has_many_results
from weft.ir.structure import IF, LOOP
from weft.ops import compute
from weft.support.errors import WeftError
from weft.types import dims
from weft.types.dims import Expr
from weft.types.tensor_type import ListType

Values = dict[Value, Any]
Symbols = dict[str, int]
Run = Callable[[Node, Values, Symbols], None]


def interpret(
    graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int] | None = None, run: Run | None = None
) -> list[Any]:
    """The graph's results for `inputs` (ndarrays and numbers, in the order of its parameters); inputs are not changed.

    symbols: values of the graph's symbols; those that are bare dims of a parameter are taken from the inputs
    when missing. Results may share memory with inputs where the program only looks at them.
    A value is let go after its last use. run: what runs each node, in place of `run_node`.
    """
    values: Values = dict(zip(graph.params, inputs, strict=True))
    known = dict(symbols or {})
    for p, x in zip(graph.params, inputs, strict=True):
        bind_symbols(p, x, known)
    run_block(graph.block, values, known, run)
    return [resolve(r, values, known) for r in graph.results]


def bind_symbols(value: Value, array: Any, known: Symbols) -> None:
    """Learn the symbols that are dims of a value from the array or tensor that it is. Sizes that a run finds are found
    anew by a block that runs again."""
    declared = getattr(value.type, "dims", None) or ()
    for d, n in zip(declared, getattr(array, "shape", ()), strict=False):
        name = d.symbol_name if type(d) is Expr else None
        if name is not None and (name[0] == "u" or name not in known):
            known[name] = n


def run_block(block: Block, values: Values, symbols: Symbols, run: Run | None = None) -> None:
    """Run a block's nodes; `values` gains what is still needed of their results."""
    for node, finished in zip(block.nodes, last_uses(block), strict=True):
        (run or run_node)(node, values, symbols)
        for value in finished:
            del values[value]


def last_uses(block: Block) -> list[list[Value]]:
    """For each node of a block, the block's own values that nobody reads afterwards."""
    kept = {v for r in block.results for v in values_in(r)}
    mine = {v for node in block.nodes for v in node.outputs}
    last: dict[Value, int] = {}
    for i, node in enumerate(block.nodes):
        for value in node.outputs:
            last[value] = i
        for value in node.reads():
            if value in mine:
                last[value] = i
    found: list[list[Value]] = [[] for _ in block.nodes]
    for value, i in last.items():
        if value not in kept:
            found[i].append(value)
    return found


def run_node(node: Node, values: Values, symbols: Symbols) -> None:
    """Run one node."""
    if node.op is IF:
        outputs = _run_if(node, values, symbols)
    elif node.op is LOOP:
        outputs = _run_loop(node, values, symbols)
    else:
        outputs = _results(node, _evaluate(node, tuple(resolve(a, values, symbols) for a in node.args)))
    for value, result in zip(node.outputs, outputs, strict=True):
        values[value] = result
        bind_symbols(value, result, symbols)


def _evaluate(node: Node, args: tuple[Any, ...]) -> Any:
    try:
        if node.op.host:
            return node.op.kernel(*args)  # type: ignore[misc]
        if node.outputs and not hasattr(node.outputs[0].type, "dtype"):
            return evaluate_number(node, args)
        return compute.evaluate(node.op, compute.laid_out(node.op, args))
    except WeftError as error:
        if node.where is not None and not str(error).startswith(str(node.where)):
            raise type(error)(f"{node.where}: {error}") from None
        raise


def evaluate_number(node: Node, args: tuple[Any, ...]) -> Any:
    """A node on Python numbers: the same entry, on 0-dim float64 (or int64, bool) values."""
    value = compute.evaluate(node.op, args)
    return value.item() if isinstance(value, np.ndarray) else value


def _results(node: Node, value: Any) -> tuple[Any, ...]:
    if node.op.host and not has_many_results(node.op):
        return (value,) * len(node.outputs)
    if len(node.outputs) == 1 and isinstance(node.outputs[0].type, ListType):
        return (list(value),)
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def resolve(operand: Operand, values: Values, symbols: Mapping[str, int]) -> Any:
    """An operand's value: Values looked up, symbolic integers evaluated."""
    kind = type(operand)
    if kind is Value:
        return values[operand]
    if kind is tuple:
        return tuple([resolve(o, values, symbols) for o in operand])
    if kind is Expr:
        return dims.evaluate(operand, symbols)
    return operand


def _truth(value: Any) -> bool:
    return bool(value.item() if isinstance(value, np.ndarray) else value)


def _run_if(node: Node, values: Values, symbols: Symbols) -> tuple[Any, ...]:
    block = node.blocks[0] if _truth(resolve(node.args[0], values, symbols)) else node.blocks[1]
    run_block(block, values, symbols)
    return tuple(resolve(r, values, symbols) for r in block.results)


def _run_loop(node: Node, values: Values, symbols: Symbols) -> tuple[Any, ...]:
    trip, condition, carried, xs, reverse = (resolve(a, values, symbols) for a in node.args)
    trip = int(trip.item() if isinstance(trip, np.ndarray) else trip)
    going = _truth(condition)
    block = node.blocks[0]
    count = len(carried)
    stacked: list[list[Any]] = [[] for _ in range(len(block.results) - 1 - count)]
    step = 0
    while step < trip and going:
        at = trip - 1 - step if reverse else step
        values.update(zip(block.params, (at, *carried, *(x[at, ...] for x in xs)), strict=True))
        run_block(block, values, symbols)
        going_value, *rest = (resolve(r, values, symbols) for r in block.results)
        going, carried = _truth(going_value), tuple(rest[:count])
        for rows, y in zip(stacked, rest[count:], strict=True):
            rows.append(y)
        step += 1
    return (*carried, *(_stack(node, count + i, rows, trip, reverse, symbols) for i, rows in enumerate(stacked)))


def _stack(node: Node, i: int, rows: list[Any], trip: int, reverse: bool, symbols: Symbols) -> Any:
    """The rows in the order of the index, as long as `trip` says; the rows of steps that a false condition
    left out are zeros."""
    declared: Any = node.outputs[i].type
    if not rows:
        shape = tuple(dims.evaluate(d, symbols) if isinstance(d, Expr) else d for d in declared.dims[1:])
        return np.zeros((max(trip, 0), *shape), declared.dtype.numpy)
    made = np.zeros((trip, *np.shape(rows[0])), np.asarray(rows[0]).dtype)
    for step, row in enumerate(rows):
        made[trip - 1 - step if reverse else step] = row
    return made
