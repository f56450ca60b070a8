"""The pass: a program for one example becomes a program for many.

A value of the new graph is what all examples have: the same for all, or a value for each. Operators stay as they are;
they compute for all examples at once. Where examples may take different ways, the ways become rows of examples: a
branch runs each block for the examples that take it, and a loop runs its body for those that go on. What a block reads,
it takes for its rows, and what it gives is put where its rows were, so that nothing is computed for an example that
does not ask for it: no error is raised for it, and no NaN comes to be.
"""

from __future__ import annotations

import linecache
from typing import NoReturn

from weft.batching import entries
from weft.batching.analysis import Analysis, fills_container, writes_tensor
from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value, map_operand
from weft.ir.structure import IF, LOOP
from weft.jit.errors import CompileError
from weft.ops.op import OPS
from weft.support.locations import Location
from weft.types.tensor_type import ANY, BOOL, INT, Type, list_of

Values = dict[Value, Operand]
_SET, _NOTHING = OPS["prim::SetAttr"], OPS["prim::Uninitialized"]
_SHARED = (
    "batch: every example would write into {what}; write into one that is made within the program, or use an "
    "operation that makes a new one"
)


def batched(graph: Graph, parameters: frozenset[int], batch_size: int | None) -> Graph:
    """The program for many examples; its first parameter is their rows.

    graph: without calls of other programs. parameters: positions of those that differ from example to example. Raises
    CompileError with the line of what cannot be done for each example on its own.
    """
    return _Batching(graph, Analysis(graph, parameters), batch_size).graph()


class _Batching:
    def __init__(self, graph: Graph, analysis: Analysis, batch_size: int | None) -> None:
        self.whole, self.analysis, self.batch_size = graph, analysis, batch_size

    def graph(self) -> Graph:
        rows = Value(ANY, "rows")
        block = self._block(self.whole.block, {}, rows, apart=False)
        return Graph(self.whole.name, Block((rows, *block.params), block.nodes, block.results), self.whole.env)

    # ---- blocks
    def _block(self, block: Block, values: Values, rows: Value, apart: bool) -> Block:
        """A block that the same examples run as the block around it."""
        inner, params = dict(values), _copies(block.params)
        inner.update(zip(block.params, params, strict=True))
        out = Builder()
        self._nodes(block, inner, rows, out, apart)
        return Block(params, tuple(out.nodes), tuple(map_operand(r, inner) for r in block.results))

    def _block_of_rows(self, block: Block, values: Values, rows: Value, where: Location | None) -> Block:
        """A branch that only some rows run: it takes what they have."""
        out = Builder()
        out.where = where
        inside = out.emit_raw(entries.INSIDE, (rows,), (ANY,)).output
        inner = self._taking(block, values, rows, out)
        self._nodes(block, inner, inside, out, True)
        return Block((), tuple(out.nodes), tuple(map_operand(r, inner) for r in block.results))

    def _taking(self, block: Block, values: Values, rows: Value, out: Builder) -> Values:
        inner = dict(values)
        for value in block.free_values():
            if value in self.analysis.differ:
                taken = out.emit_raw(entries.TAKE, (inner.get(value, value), rows), (value.type,)).output
                taken.name, inner[value] = value.name, taken
        return inner

    def _nodes(self, block: Block, values: Values, rows: Value, out: Builder, apart: bool) -> None:
        for node in block.nodes:
            out.where = node.where
            if node.op is IF and self.analysis.branches(node):
                self._branch(node, values, rows, out)
            elif node.op is LOOP and self.analysis.branches(node):
                self._loop(node, values, rows, out)
            else:
                self._refuse(node, apart)
                self._node(node, values, rows, out, apart)

    # ---- nodes that every example runs
    def _node(self, node: Node, values: Values, rows: Value, out: Builder, apart: bool) -> None:
        args = tuple(map_operand(a, values) for a in node.args)
        if node.op.effect == "random" and not self.analysis.may_differ(node.args) and node.op.writes is None:
            kind = node.output.type
            new_node = out.emit_raw(entries.DRAW, (node.op.name, args, str(kind), rows), (kind,))
        else:
            if apart and fills_container(node):
                args = (out.emit_raw(entries.OWNED, args[:1], (node.inputs()[0].type,)).output, *args[1:])
            blocks = tuple(self._block(b, values, rows, apart) for b in node.blocks)
            types = tuple(v.type for v in node.outputs)
            new_node = out.emit_raw(node.op, self._resized(node, args, out), tuple(types), blocks)
        separate = self.analysis.separates(node)
        for old, new in zip(node.outputs, new_node.outputs, strict=True):
            new.name = old.name
            values[old] = out.emit_raw(entries.SEPARATE, (new, rows), (old.type,)).output if separate else new

    def _resized(self, node: Node, args: tuple[Operand, ...], out: Builder) -> tuple[Operand, ...]:
        """Sizes of a view that name the batch mean one example."""
        view = node.op.view
        if view is None or not view.keeps_order or not self.batch_size or not self.analysis.may_differ(node.args[:1]):
            return args
        sizes = [i for i, a in enumerate(node.op.schema.arguments) if a.is_list and a.kind == "int"]
        if len(sizes) != 1 or not _may_name(args[sizes[0]], self.batch_size):
            return args
        (at,) = sizes
        example_sizes = out.emit_raw(entries.SIZES, (args[0], args[at], self.batch_size), (list_of(INT),)).output
        return (*args[:at], example_sizes, *args[at + 1:])

    # ---- what examples take different ways through
    def _branch(self, node: Node, values: Values, rows: Value, out: Builder) -> None:
        condition = map_operand(node.args[0], values)
        types = tuple(v.type for v in node.outputs)
        chosen = [out.emit_raw(op, (condition, rows), (ANY,)).output for op in (entries.WHERE, entries.WHERE_NOT)]
        arms: list[tuple[Value, ...]] = []
        for some, block in zip(chosen, node.blocks, strict=True):
            if not block.nodes and not block.results:
                arms.append(())
                continue
            is_run = out.emit_raw(entries.ANY_ROWS, (some,), (BOOL,)).output
            run = self._block_of_rows(block, values, some, node.where)
            arms.append(out.emit_raw(IF, (is_run,), tuple(types), (run, _nothing(types))).outputs)
        for at, value in enumerate(node.outputs):
            merged = out.emit_raw(entries.MERGE, (chosen[0], arms[0][at], chosen[1], arms[1][at]), (value.type,)).output
            merged.name, values[value] = value.name, merged

    def _loop(self, node: Node, values: Values, rows: Value, out: Builder) -> None:
        trip, condition, carried, *rest = (map_operand(a, values) for a in node.args)
        (body,) = node.blocks
        first = out.emit_raw(entries.GOING, (condition, trip, -1, rows), (ANY,)).output
        goes = out.emit_raw(entries.ANY_ROWS, (first,), (BOOL,)).output
        types = tuple(v.type for v in node.outputs)
        steps = self._body(body, values, trip, node)
        loop = out.emit_raw(LOOP, (_MOST, goes, (first, *carried), *rest), (ANY, *types), (steps,))
        for old, new, begin in zip(node.outputs, loop.outputs[1:], node.args[2], strict=True):
            new.name, values[old] = old.name, self._alone(begin, new, out)

    def _alone(self, begin: Operand, value: Value, out: Builder) -> Value:
        """A carried value; that a loop began with a tensor that nobody else has is noted, for it may be written."""
        if begin not in self.analysis.alone:
            return value
        return out.emit_raw(entries.ALONE, (value,), (value.type,)).output

    def _body(self, body: Block, values: Values, trip: Operand, node: Node) -> Block:
        out = Builder()
        out.where = node.where
        index, *carried = _copies(body.params)
        going = Value(ANY, "going")
        inside = out.emit_raw(entries.INSIDE, (going,), (ANY,)).output
        inner = self._taking(body, values, going, out)
        inner[body.params[0]] = index
        owned: list[Value] = []
        for old, new, begin in zip(body.params[1:], carried, node.args[2], strict=True):
            own = self._alone(begin, new, out)
            owned.append(own)
            inner[old] = out.emit_raw(entries.TAKE, (own, going), (old.type,)).output
            inner[old].name = old.name
        self._nodes(body, inner, inside, out, True)
        condition, *after = (map_operand(r, inner) for r in body.results)
        out.where = node.where
        following = out.emit_raw(entries.GOING, (condition, trip, index, going), (ANY,)).output
        results = [
            out.emit_raw(entries.PUT, (old, going, new), (old.type,)).output
            for old, new in zip(owned, after, strict=True)
        ]
        goes = out.emit_raw(entries.ANY_ROWS, (following,), (BOOL,)).output
        return Block((index, going, *carried), tuple(out.nodes), (goes, following, *results))

    # ---- refusals
    def _refuse(self, node: Node, apart: bool) -> None:
        differs = apart or self.analysis.may_differ(node.args)
        if node.op is _SET and differs and not self.analysis.may_differ(node.args[0]):
            _fail(node, f"batch: every example would write its own value into the attribute {node.args[1]!r}; "
                        "return the value instead")
        if writes_tensor(node) and not self.analysis.may_differ(node.args[0]):
            _fail(node, _SHARED.format(what="a tensor that all examples share"))


_MOST = 2**63 - 1


def _copies(params: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple([Value(p.type, p.name) for p in params])


def _nothing(types: tuple[Type, ...]) -> Block:
    nodes = tuple([Node(_NOTHING, (str(kind),), (kind,)) for kind in types])
    return Block((), nodes, tuple([n.output for n in nodes]))


def _may_name(sizes: Operand, batch_size: int) -> bool:
    """Whether the first of a view's sizes may be the number of examples."""
    return isinstance(sizes, Value) or (isinstance(sizes, tuple) and bool(sizes) and (
        isinstance(sizes[0], Value) or sizes[0] == batch_size
    ))


def _fail(node: Node, problem: str) -> NoReturn:
    raise CompileError(problem + shown(node.where))


def shown(where: Location | None) -> str:
    """The place, and its line with a caret below."""
    if where is None:
        return ""
    text = linecache.getline(where.file, where.line).rstrip("\n")
    column = f", column {where.column}" if where.column else ""
    place = f'\n  File "{where.file}", line {where.line}{column}'
    if not text.strip():
        return place
    return f"{place}\n    {text}\n    {' ' * max((where.column or 1) - 1, 0)}^"
