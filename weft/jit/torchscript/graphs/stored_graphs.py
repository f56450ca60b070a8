"""Graphs that people stored as TorchScript's text, read into weft's.

    graph(%x : Tensor, %n : int):
      %one : int = prim::Constant[value=1]()
      %y : Tensor = aten::add(%x, %n, %one)
      %c : bool = aten::gt(%n, %one)
      %z : Tensor = prim::If(%c)
        block0():
          -> (%y)
        block1():
          -> (%x)
      return (%z)

Operators on numbers and containers are the language's here (`prim::add`), constants stand among the arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from weft.ir.graph import Block, Operand, Value
from weft.ir.verifier import first_fault
from weft.jit.errors import CompileError
from weft.jit.program import Program
from weft.jit.script.frontend.compile import Linker, compile_python, names_in
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.definitions import finished_graph
from weft.jit.script.frontend.matching import call_any
from weft.jit.script.frontend.values import Simple, TupleValue, constant
from weft.jit.script.source import Source
from weft.jit.torchscript.graphs.calls import call_by_name, make_tensor, spread
from weft.jit.torchscript.graphs.stored_text import Line, Text
from weft.ops.op import PACKETS
from weft.support.errors import ArgumentError, ParseError
from weft.types import tensor_type as tt
from weft.types.tensor_type import ListType, TensorType, Type

Scope = dict[str, Simple]


def read_stored_graph(text: str) -> Program:
    """The program of a graph in TorchScript's notation. Raises ParseError with line and column."""
    source = Text(text)
    program = Program("stored")
    ctx = Context(
        "stored", Source("<graph>", text), lambda name, node: None, Linker(program, names_in({}), compile_python)
    )
    ctx.folds = False
    try:
        program = _Reader(source, ctx).whole(program)
    except CompileError as refused:
        raise ParseError(str(refused)) from None
    assert program.graph is not None
    fault = first_fault(program.graph)
    if fault is not None:
        problem, node = fault
        source.fail(problem, node.where.line if node is not None and node.where is not None else None)
    return program


class _Reader:
    """One reading of one text."""

    def __init__(self, text: Text, ctx: Context) -> None:
        self.text, self.ctx = text, ctx
        self.at: ast.AST = ast.Pass(lineno=1, col_offset=0)

    def whole(self, program: Program) -> Program:
        """The graph's parameters, nodes and results."""
        ctx = self.ctx
        scope: Scope = {}
        self._params(self.text.header(), scope, program)
        self._nodes(scope, self.text.indent_of_next())
        results = [self._value(scope, name) for name in self.text.returned()]
        self.text.expect_end()
        left = results[0] if len(results) == 1 else TupleValue(results).as_value(ctx, self.at)
        program.returns = left.type
        program.graph = finished_graph(ctx, left)
        return program

    def _params(self, declared: list[tuple[str, Type]], scope: Scope, program: Program | None = None) -> None:
        from weft.jit.program import Parameter

        for name, kind in declared:
            self._define(scope, name, Simple(self.ctx.builder.param(kind, _user_name(name)), kind))
            if program is not None:
                program.parameters += (Parameter(_user_name(name) or f"x{name}", kind),)

    def _define(self, scope: Scope, name: str, value: Simple) -> None:
        if name in scope:
            self.text.fail(f"%{name} is defined twice")
        scope[name] = value

    def _value(self, scope: Scope, name: str) -> Simple:
        value = scope.get(name)
        if value is None:
            self.text.fail(f"%{name} is not defined before this line")
        return value

    # ---- nodes
    def _nodes(self, scope: Scope, indent: int) -> None:
        while self.text.sees_node(indent):
            line = self.text.node()
            self.at = ast.Pass(lineno=line.number, col_offset=line.column)
            self._node(line, scope, indent)

    def _node(self, line: Line, scope: Scope, indent: int) -> None:
        args = [self._value(scope, name) for name in line.args]
        special = _SPECIAL.get(line.kind)
        if special is not None:
            results: list[Simple] = special(self, line, args, scope, indent)
        else:
            try:
                results = call_by_name(self.ctx, self.at, line.kind, args)
            except ArgumentError as problem:
                self.text.fail(str(problem))
        if not results and len(line.outputs) == 1:  # there, what writes to a list gives it back
            results = args[:1]
        if len(results) != len(line.outputs):
            self.text.fail(f"{line.kind} has {len(results)} results, not {len(line.outputs)}")
        for (name, kind), value in zip(line.outputs, results, strict=True):
            self._named(name, kind, value)
            self._define(scope, name, value)

    def _named(self, name: str, kind: Type, value: Simple) -> None:
        if isinstance(value.operand, Value) and not value.operand.name:
            value.operand.name = _user_name(name)
        agree = value.type.is_subtype_of(kind) or kind.is_subtype_of(value.type) or kind is tt.NUMBER
        agree = agree or (kind is tt.INT and value.type is tt.DTYPE)  # there, dtypes are numbers
        if not agree and not (isinstance(kind, TensorType) and isinstance(value.type, TensorType)):
            self.text.fail(f"%{name} is said to be of type {kind}, and is of type {value.type}")

    # ---- blocks
    def block(self, scope: Scope, indent: int, params: list[tuple[str, Type]], count: int) -> Block:
        """The block that stands next: its nodes and results. `params` are declared by it."""
        inner_scope = dict(scope)
        with self.ctx.block() as builder:
            self._params(params, inner_scope)
            self._nodes(inner_scope, self.text.indent_of_next())
            names = self.text.yielded()
            if len(names) != count:
                self.text.fail(f"the block yields {len(names)} values, should yield {count}")
            return builder.block([self._value(inner_scope, n).operand for n in names])


def _user_name(name: str) -> str:
    return "" if name.replace(".", "").isdigit() else name


# ---- prim
def _constant(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    kind = line.outputs[0][1]
    if "value" not in line.attributes:
        return [constant(None, tt.NONE)]
    value = line.attributes["value"]
    if isinstance(value, list):
        constructed = reader.ctx.tables.new_list(
            reader.ctx, reader.at, [constant(v, _plain(v)) for v in value], kind if isinstance(kind, ListType) else None
        )
        return [constructed]
    if isinstance(kind, TensorType):
        reader.text.fail("a tensor constant is not in the text; pass it as an argument")
    if kind is tt.BOOL:
        value = bool(value)
    return [constant(float(value) if kind is tt.FLOAT else value, _plain(value) if kind in (tt.NUMBER,) else kind)]


def _plain(value: Any) -> Type:
    return {bool: tt.BOOL, int: tt.INT, float: tt.FLOAT, str: tt.STR}[type(value)]


def _if(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    ctx, at, types = reader.ctx, reader.at, tuple(kind for _, kind in line.outputs)
    blocks = []
    for number in (0, 1):
        params = reader.text.block_header(number)
        if params:
            reader.text.fail("a block of prim::If has no parameters")
        blocks.append(reader.block(scope, indent, [], len(types)))
    conditional = ctx.append(ctx.op("prim::If"), (args[0].operand,), types, at, (blocks[0], blocks[1]))
    return [Simple(v, v.type) for v in conditional.outputs]


def _loop(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    ctx, at, types = reader.ctx, reader.at, tuple(kind for _, kind in line.outputs)
    params = reader.text.block_header(0)
    if len(params) != 1 + len(types) or len(args) != 2 + len(types):
        reader.text.fail(
            f"prim::Loop with {len(types)} results needs as many carried values, and an index, as parameters of its "
            f"block"
        )
    block = reader.block(scope, indent, params, 1 + len(types))
    trip, going, *carried = (a.operand for a in args)
    operands: tuple[Operand, ...] = (trip, going, tuple(carried), (), False)
    loop = ctx.append(ctx.op("prim::Loop"), operands, types, at, (block,))
    return [Simple(v, v.type) for v in loop.outputs]


def _construct(name: str) -> Callable[..., list[Simple]]:
    def make(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
        ctx, kind = reader.ctx, line.outputs[0][1]
        text = str(kind) if isinstance(kind, ListType) else ""
        constructed = ctx.emit(ctx.op(f"prim::{name}"), (tuple(a.operand for a in args), text), reader.at)
        return [Simple(constructed.operand, kind if text else constructed.type)]

    return make


def _dict(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    ctx, kind = reader.ctx, line.outputs[0][1]
    keys, values = (tuple(a.operand for a in args[i::2]) for i in (0, 1))
    constructed = ctx.emit(ctx.op("prim::DictConstruct"), (keys, values, str(kind)), reader.at)
    return [Simple(constructed.operand, kind)]


def _unpack(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    elements = args[0].elements(reader.ctx, reader.at, len(line.outputs))
    return [f.as_value(reader.ctx, reader.at) for f in elements]


def _print(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    reader.ctx.emit(reader.ctx.op("prim::Print"), (tuple(a.operand for a in args), " ", "\n"), reader.at, ())
    return []


def _raise(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    reader.ctx.prim("RaiseException", reader.at, args[0])
    return []


def _cast(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    kind = line.outputs[0][1]
    cast = reader.ctx.emit(reader.ctx.op("prim::unchecked_cast"), (args[0].operand, str(kind)), reader.at)
    return [Simple(cast.operand, kind)]


def _uninitialized(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    kind = line.outputs[0][1]
    placeholder = reader.ctx.emit(reader.ctx.op("prim::Uninitialized"), (str(kind),), reader.at)
    return [Simple(placeholder.operand, kind)]


def _tensor(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    if len(args) != 4:
        reader.text.fail("aten::tensor takes 4 arguments: data, dtype, device and requires_grad")
    return [make_tensor(reader.ctx, reader.at, args)]


def _warn(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    reader.ctx.prim("warn", reader.at, args[0])
    return []


def _to_tensor(reader: _Reader, line: Line, args: list[Simple], scope: Scope, indent: int) -> list[Simple]:
    return spread(
        reader.ctx,
        reader.at,
        call_any(reader.ctx, reader.at, "scalar_tensor", PACKETS["aten::scalar_tensor"], args, {}),
    )


_SPECIAL: dict[str, Callable[..., list[Simple]]] = {
    "prim::Constant": _constant, "prim::If": _if, "prim::Loop": _loop, "prim::ListConstruct":
    _construct("ListConstruct"),
    "prim::TupleConstruct": _construct("TupleConstruct"), "prim::DictConstruct": _dict, "prim::TupleUnpack":
    _unpack, "prim::ListUnpack": _unpack,
    "prim::Print": _print, "prim::RaiseException": _raise, "prim::unchecked_cast": _cast, "prim::Uninitialized":
    _uninitialized,
    "prim::NumToTensor": _to_tensor, "aten::tensor": _tensor, "aten::warn": _warn,
}  # fmt: skip
