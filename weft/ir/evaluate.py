"""Evaluation of a graph node by node: one order of work, for whatever its values are.

An `Evaluator` resolves operands, binds the sizes that a run finds, runs branches and loops, and drops a value after its
last use. A subclass says what an operator does: `ArrayEvaluator` computes with NumPy (the reference for native code);
others call operators with tensors or record them again with symbolic values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ir.kinds import has_many_results
from weft.ir.structure import IF, LOOP
from weft.ops import compute
from weft.support.errors import WeftError
from weft.types import dims
from weft.types.dims import Expr
from weft.types.dtype import DType
from weft.types.tensor_type import ListType

Values = dict[Value, Any]
Symbols = dict[str, int]


class Evaluator(ABC):
    """Evaluates graphs.

    symbols: the sizes known so far, by name; those that are dims of a value are added on the way.
    """

    def __init__(self, symbols: Mapping[str, int] | None = None) -> None:
        self.symbols: Symbols = dict(symbols or {})
        self._last_uses: dict[Block, list[list[Value]]] = {}

    @abstractmethod
    def operator(self, node: Node, args: tuple[Any, ...]) -> Sequence[Any]:
        """The results of a node without blocks, for the values of its arguments."""

    def evaluate(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """The graph's results for `inputs`, in the order of its parameters."""
        for parameter, value in zip(graph.params, inputs, strict=True):
            self.bind(parameter, value)
        return self.evaluate_block(graph.block, inputs, {})

    def evaluate_block(self, block: Block, arguments: Sequence[Any], values: Values) -> list[Any]:
        """A block's results. values: those from around the block that it reads; gains the block's own."""
        values.update(zip(block.params, arguments, strict=True))
        if block not in self._last_uses:
            self._last_uses[block] = last_uses(block)
        for node, finished in zip(block.nodes, self._last_uses[block], strict=True):
            self.evaluate_node(node, values)
            for value in finished:
                del values[value]
        return [self.operand(r, values) for r in block.results]

    def evaluate_node(self, node: Node, values: Values) -> None:
        """Add a node's results to `values`."""
        for value, result in zip(node.outputs, self.results(node, values), strict=True):
            values[value] = result
            self.bind(value, result)

    def results(self, node: Node, values: Values) -> Sequence[Any]:
        """The results of a node."""
        if node.op is IF:
            return self.branch(node, values)
        if node.op is LOOP:
            return self.loop(node, values)
        return self.operator(node, tuple([self.operand(a, values) for a in node.args]))

    def operand(self, operand: Operand, values: Mapping[Value, Any]) -> Any:
        """What an operand stands for."""
        return resolve(operand, values, self.symbols)

    def bind(self, value: Value, result: Any) -> None:
        """Learn the symbols that are dims of a value from what it turned out to be. Sizes that a run finds (`u0`) are
        found anew by a block that runs again."""
        declared = getattr(value.type, "dims", None) or ()
        for dim, length in zip(declared, getattr(result, "shape", ()), strict=False):
            name = dim.symbol_name if type(dim) is Expr else None
            if name is not None and (name[0] == "u" or name not in self.symbols):
                self.symbols[name] = length

    def branch(self, node: Node, values: Values) -> Sequence[Any]:
        """The results of an If whose condition is known now."""
        return self.evaluate_block(node.blocks[0 if self.operand(node.args[0], values) else 1], (), values)

    def loop(self, node: Node, values: Values) -> Sequence[Any]:
        """The results of a Loop whose steps are known now: the carried values at the end, and what each step gave
        stacked by its index, zeros for steps that the condition left out."""
        trip, going, carried, xs, reverse = (self.operand(a, values) for a in node.args)
        steps = range(int(trip))  # 2**62 where only the condition ends it
        rows: dict[int, list[Any]] = {}
        stacked: list[Any] = []
        for index in reversed(steps) if reverse else steps:
            if not going:
                break
            arguments = (index, *carried, *(x[index, ...] for x in xs))
            going, *rest = self.evaluate_block(node.blocks[0], arguments, values)
            carried, rows[index] = rest[: len(carried)], rest[len(carried) :]
        for i in range(len(node.outputs) - len(carried)):
            stacked.append(self._stacked(node, i, [(at, row[i]) for at, row in rows.items()], len(steps), values))
        return [*carried, *stacked]

    def _stacked(self, node: Node, i: int, rows: list[tuple[int, Any]], count: int, values: Values) -> Any:
        """Stacked result number i of a loop."""
        if rows:
            return self.stack(rows, count)
        shape, dtype = self.row_type(node, i, values)
        return self.zeros((count, *shape), dtype)

    def row_type(self, node: Node, i: int, values: Values) -> tuple[tuple[int, ...], DType]:
        """The shape and dtype of a row of a loop's stacked result number i, when no step has given one."""
        stacked = node.outputs[len(node.args[2]) + i].tensor_type
        assert stacked.dtype is not None
        return resolve(stacked.shape[1:], {}, self.symbols), stacked.dtype

    def stack(self, rows: list[tuple[int, Any]], count: int) -> Any:
        """`count` rows as one value: those given with their indices, zeros elsewhere."""
        raise NotImplementedError

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """A value of zeros."""
        raise NotImplementedError


class ArrayEvaluator(Evaluator):
    """Computes a graph on ndarrays and Python numbers."""

    def operator(self, node: Node, args: tuple[Any, ...]) -> Sequence[Any]:
        """The results of a node. An error begins with the user's line."""
        op = node.op
        try:
            if op.host:
                value = op.kernel(*args)  # type: ignore[misc]
            elif node.outputs and not hasattr(node.outputs[0].type, "dtype"):
                value = compute.evaluate(op, args)  # on 0-dim float64, int64 or bool
                value = value.item() if isinstance(value, np.ndarray) else value
            else:
                value = compute.evaluate_in_program(op, args)
        except WeftError as error:
            if node.where is not None and not str(error).startswith(str(node.where)):
                raise type(error)(f"{node.where}: {error}") from None
            raise
        if op.host and not has_many_results(op):
            return (value,) * len(node.outputs)
        if len(node.outputs) == 1 and isinstance(node.outputs[0].type, ListType):
            return (list(value),)
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)

    def stack(self, rows: list[tuple[int, Any]], count: int) -> Any:
        """`count` rows as one array."""
        first = np.asarray(rows[0][1])
        stacked = self.zeros((count, *first.shape), first.dtype)
        for index, row in rows:
            stacked[index] = row
        return stacked

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array of zeros."""
        return np.zeros(shape, dtype.numpy if isinstance(dtype, DType) else dtype)


def interpret(graph: Graph, inputs: Sequence[Any], symbols: Mapping[str, int] | None = None) -> list[Any]:
    """The graph's results for `inputs` (ndarrays and numbers, in the order of its parameters); inputs are not changed.

    symbols: values of the graph's symbols; those that are bare dims of a parameter are taken from the inputs
    when missing. Results may share memory with inputs where the program only looks at them.
    """
    return ArrayEvaluator(symbols).evaluate(graph, inputs)


def resolve(operand: Operand, values: Mapping[Value, Any], symbols: Mapping[str, int]) -> Any:
    """An operand with its values looked up and its symbolic integers computed."""
    kind = type(operand)
    if kind is Value:
        return values[operand]
    if kind is tuple:
        return tuple([resolve(o, values, symbols) for o in operand])
    return dims.evaluate(operand, symbols) if kind is Expr else operand


def last_uses(block: Block) -> list[list[Value]]:
    """For each node of a block, the block's own values that nobody reads afterwards."""
    kept = {v for r in block.results for v in values_in(r)}
    own = {v for node in block.nodes for v in node.outputs}
    last: dict[Value, int] = {}
    for i, node in enumerate(block.nodes):
        last.update(dict.fromkeys(node.outputs, i))
        last.update((v, i) for v in node.reads() if v in own)
    finished: list[list[Value]] = [[] for _ in block.nodes]
    for value, i in last.items():
        if value not in kept:
            finished[i].append(value)
    return finished
