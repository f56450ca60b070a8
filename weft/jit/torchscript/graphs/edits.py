"""Changes to a graph in place: nodes made, put in, taken out and exchanged.

They keep no rule of the graph language but those of lists and uses: `graph.lint()` says whether the result is a
program.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence

from weft.ir import graph as core
from weft.ir.structure import IF, LOOP
from weft.jit.errors import CompileError
from weft.jit.program import Program
from weft.jit.script.frontend.compile import Linker, compile_python, names_in
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.values import Simple
from weft.jit.script.source import Source
from weft.jit.torchscript.graphs.calls import call_by_name
from weft.jit.torchscript.matching import type_of_operand
from weft.ops.op import Op
from weft.support.errors import ArgumentError, StateError
from weft.types.tensor_type import INT, TENSOR, Type, unify

WITH_BLOCKS = {str(op.name): op for op in (IF, LOOP)}
WANTED = {IF: "a condition", LOOP: "a number of steps, a condition, and the carried values"}


def new_nodes(
    kind: str, args: Sequence[core.Operand], outputs: int = 1
) -> tuple[list[core.Node], list[core.Operand]]:
    """The nodes that call an operator (one, or several where it gives several results), with what they result in.

    Raises ArgumentError for an operator that there is not, and for arguments that it does not take.
    """
    if kind in WITH_BLOCKS:
        node = with_blocks(WITH_BLOCKS[kind], args, outputs)
        return [node], list(node.outputs)
    program = Program("created")
    linker = Linker(program, names_in({}), compile_python)
    ctx = Context("created", Source("<graph>", kind), lambda name, node: None, linker)
    ctx.folds = False
    simple = [Simple(a, type_of_operand(a)) for a in args]
    try:
        results = call_by_name(ctx, ast.Pass(lineno=1, col_offset=0), kind, simple)
    except CompileError as problem:
        raise ArgumentError(f"create: {str(problem).splitlines()[0]}") from None
    except ArgumentError as problem:
        raise ArgumentError(f"create: {problem}") from None
    return ctx.builder.nodes, [r.operand for r in results]


def with_blocks(op: Op, args: Sequence[core.Operand], outputs: int) -> core.Node:
    """A node prim::If or prim::Loop that has no block yet; of a loop the carried values say what it results in. Raises
    ArgumentError for another number of inputs.
    """
    least = 1 if op is IF else 2
    if len(args) < least or (op is IF and len(args) > 1):
        raise ArgumentError(f"create: {op.name} takes {WANTED[op]}, {len(args)} inputs were given")
    if op is IF:
        return core.Node(op, tuple(args), (TENSOR,) * outputs)
    carried = tuple(args[2:])
    return core.Node(op, (args[0], args[1], carried, (), False), tuple(map(type_of_operand, carried)))


def type_of_param(owner: core.Node, at: int) -> Type:
    """The type of a new parameter of a node's block."""
    if owner.op is not LOOP:
        return TENSOR
    carried = owner.args[2]
    return INT if at == 0 else type_of_operand(carried[at - 1]) if at <= len(carried) else TENSOR


def settle_results(owner: core.Node) -> None:
    """Give the results of prim::If the types of what its blocks yield so far, those of prim::Loop the types of the
    carried values.
    """
    sources = [b.results for b in owner.blocks] if owner.op is IF else [owner.args[2]] if owner.op is LOOP else []
    for i, value in enumerate(owner.outputs):
        kinds = [type_of_operand(source[i]) for source in sources if i < len(source)]
        if kinds:
            value.type = functools.reduce(unify, kinds)


def add_input(node: core.Node, operand: core.Operand) -> None:
    """Put an operand at the end of the list that a node takes. Raises ArgumentError for a node that takes none."""
    at = next((i for i, a in enumerate(node.args) if isinstance(a, tuple)), None)
    if at is None:
        raise ArgumentError(f"addInput: {node.op.name} takes no list; create it with all of its inputs")
    node.take((*node.args[:at], (*node.args[at], operand), *node.args[at + 1 :]))


def take_out_result(graph: core.Graph, node: core.Node, at: int) -> None:
    """Take a result of a node away. Raises StateError if something uses it."""
    if next(uses_of(graph, node.outputs[at]), None) is not None:
        raise StateError(f"eraseOutput: result {at} of {node.op.name} is used; replaceAllUsesWith first")
    node.outputs = (*node.outputs[:at], *node.outputs[at + 1 :])
    for i, value in enumerate(node.outputs):
        value.index = i


def blocks_of(block: core.Block) -> Iterator[core.Block]:
    """A block, and those of its nodes."""
    yield block
    for node in block.nodes:
        for inner in node.blocks:
            yield from blocks_of(inner)


def place_of(graph: core.Graph, node: core.Node) -> tuple[core.Block, int]:
    """The block that a node stands in, and where. Raises StateError for a node that stands nowhere."""
    for block in blocks_of(graph.block):
        for i, candidate in enumerate(block.nodes):
            if candidate is node:
                return block, i
    raise StateError(f"{node.op.name} is no node of this graph; insert it first")


def put(block: core.Block, at: int, nodes: Sequence[core.Node]) -> None:
    """Put nodes before the one at this place of a block."""
    block.nodes = (*block.nodes[:at], *nodes, *block.nodes[at:])


def take_out(graph: core.Graph, node: core.Node) -> None:
    """Take a node out. Raises StateError if something still uses a result of it."""
    block, at = place_of(graph, node)
    for value in node.outputs:
        user = next(uses_of(graph, value), None)
        if user is not None:
            what = "the results of a block" if user[0] is None else user[0].op.name
            raise StateError(f"destroy: {what} still uses a result of {node.op.name}; replaceAllUsesWith first")
    block.nodes = (*block.nodes[:at], *block.nodes[at + 1 :])


def uses_of(graph: core.Graph, value: core.Value) -> Iterator[tuple[core.Node | None, int]]:
    """The nodes that take a value, with the place among their inputs; None stands for the results of a block."""
    for block in blocks_of(graph.block):
        for node in block.nodes:
            yield from ((node, i) for i, v in enumerate(flat(node.args)) if v is value)
        yield from ((None, i) for i, v in enumerate(block.results) if v is value)


def is_spread(operand: core.Operand) -> bool:
    """Whether an argument is a list that is written out, whose elements are inputs of their own."""
    return isinstance(operand, tuple) and bool(core.values_in(operand))


def flat(args: Sequence[core.Operand]) -> list[core.Operand]:
    """The inputs of a node: one for each argument, and one for each element of a list that is written out."""
    inputs: list[core.Operand] = []
    for operand in args:
        inputs += operand if is_spread(operand) else (operand,)
    return inputs


def replace_uses(graph: core.Graph, old: core.Value, new: core.Operand) -> None:
    """Let everything that takes one value take another operand."""
    for block in blocks_of(graph.block):
        for node in block.nodes:
            if old in node.inputs():
                node.take(tuple(core.map_operand(a, {old: new}) for a in node.args))
        block.results = tuple(core.map_operand(r, {old: new}) for r in block.results)


def replace_input(node: core.Node, at: int, new: core.Operand) -> None:
    """Exchange one of the inputs, counted as `flat` counts them. Raises ArgumentError for a place that there is not."""
    if not 0 <= at < len(flat(node.args)):
        raise ArgumentError(f"replaceInput: {node.op.name} has inputs 0 to {len(flat(node.args)) - 1}, not {at}")
    args: list[core.Operand] = []
    for operand in node.args:
        width = len(flat((operand,)))
        if 0 <= at < width:
            operand = (*operand[:at], new, *operand[at + 1 :]) if is_spread(operand) else new
        args.append(operand)
        at -= width
    node.take(tuple(args))
