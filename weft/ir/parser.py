"""The parser: graphs from text (the form is described in printer.py).
Emission is raw, so that text round-trips exactly."""

from __future__ import annotations

import re
from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.opaque import find_opaque
from weft.ir.verifier import first_fault
from weft.ir.writing import find_writing
from weft.ops.op import OPS, PACKETS, Op
from weft.ops.schema import Argument
from weft.support.locations import Location
from weft.types import dtype as dt
from weft.types.dims import Expr
from weft.types.parse import is_symbol, read_dim, read_type
from weft.types.relation import Relation, ShapeGuard
from weft.types.scanner import Scanner, Token
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import Type

_LOCATION = re.compile(r"([^:]+):(\d+)\Z")
_CONSTANTS: dict[str, Any] = {"True": True, "False": False, "None": None, "inf": float("inf"), "nan": float("nan")}


def parse_graph(text: str) -> Graph:
    """The graph that a text describes. Raises ParseError with line, column and the line itself."""
    parser = _Parser(text)
    graph = parser.whole_graph()
    parser.scanner.expect_end()
    return graph


def parse_verified(text: str) -> Graph:
    """The graph that a text describes, which keeps every rule. Raises ParseError at the node that breaks one."""
    parser = _Parser(text)
    graph = parser.whole_graph()
    parser.scanner.expect_end()
    fault = first_fault(graph)
    if fault is not None:
        problem, node = fault
        parser.scanner.fail(problem, parser.begin if node is None else parser.starts[node])
    return graph


def parse_graphs(text: str) -> list[Graph]:
    """All graphs of a text, one after another."""
    parser = _Parser(text)
    graphs = []
    while parser.scanner.next.kind != "end":
        graphs.append(parser.whole_graph())
    return graphs


Scope = dict[str, Value]


class _Parser:
    """One reading of one text."""

    def __init__(self, text: str) -> None:
        self.scanner = Scanner(text)
        self.env = ShapeEnv()
        self.begin = self.scanner.next
        self.starts: dict[Node, Token] = {}  # where each node stands

    # ---- graphs
    def whole_graph(self) -> Graph:
        """One graph. Raises ParseError, also for brackets and blocks in each other by the hundreds."""
        try:
            return self.graph()
        except RecursionError:
            self.scanner.fail("nested too deeply")

    def graph(self) -> Graph:
        scanner = self.scanner
        self.env = ShapeEnv()
        scanner.expect("graph")
        token = scanner.expect_kind("graph", "the graph's name, such as @step")
        builder = Builder(scanner.unquoted(token, 1) if token.text[1] == '"' else token.text[1:], self.env)
        scope: Scope = {}
        scanner.expect("(")
        self._params(builder, scope)
        scanner.expect("{")
        self._symbols()
        self._nodes(builder, scope)
        scanner.expect("return")
        results, writes = self._results(scope, builder.params)
        scanner.expect("}")
        self._count_symbols()
        return builder.graph(results, writes)

    def _params(self, builder: Builder, scope: Scope) -> None:
        scanner = self.scanner
        while not scanner.take(")"):
            token, type = self._declaration()
            self._bind(scope, token, builder.param(type, _user_name(token)))
            if not scanner.sees(")"):
                scanner.expect(",")

    def _declaration(self) -> tuple[Token, Type]:
        token = self.scanner.expect_kind("value", "a value, such as %x")
        self.scanner.expect(":")
        return token, read_type(self.scanner)

    def _bind(self, scope: Scope, token: Token, value: Value) -> None:
        if token.text in scope:
            self.scanner.fail(f"{token.text} is defined twice", token)
        scope[token.text] = value

    def _results(self, scope: Scope, params: list[Value]) -> tuple[list[Operand], list[tuple[int, int]]]:
        results: list[Operand] = []
        writes: list[tuple[int, int]] = []
        if self.scanner.sees("}"):
            return results, writes
        while True:
            results.append(self._operand(scope))
            while self.scanner.take("->"):
                token = self.scanner.next
                target = self._value(scope)
                if target not in params:
                    self.scanner.fail(
                        f"{token.text} is no parameter of the graph; only the storage of a parameter can be written",
                        token,
                    )
                writes.append((len(results) - 1, params.index(target)))
            if not self.scanner.take(","):
                return results, writes

    # ---- symbols
    def _symbols(self) -> None:
        while self.scanner.sees("example") or self.scanner.sees("guard"):
            if self.scanner.read().text == "guard":
                self._guard()
                continue
            while True:
                name = self.scanner.expect_kind("word", "a symbol, such as s0").text
                self.scanner.expect("=")
                sign = -1 if self.scanner.take("-") else 1
                self.env.examples[name] = sign * self.scanner.read_int()
                if not self.scanner.take(","):
                    break

    def _guard(self) -> None:
        left = read_dim(self.scanner)
        sign = self.scanner.read()
        if sign.text not in ("==", "!=", "<", ">="):
            self.scanner.fail("expected ==, !=, < or >=", sign)
        difference = left - read_dim(self.scanner)
        if not isinstance(difference, Expr):
            self.scanner.fail("a guard must hang on a symbol", sign)
        relation = Relation("==" if sign.text in ("==", "!=") else "<", difference)
        self.env.guards[relation] = ShapeGuard(relation, sign.text in ("==", "<"), self._where())

    def _count_symbols(self) -> None:
        """New symbols of later passes must not repeat a name of the text."""
        for word in re.findall(r"\b[siu]\d+\b", self.scanner.text):
            if is_symbol(word):
                self.env.counts[word[0]] = max(self.env.counts.get(word[0], 0), int(word[1:]) + 1)

    # ---- blocks and nodes
    def _block(self, parent: Builder, outer: Scope) -> Block:
        scope = dict(outer)
        with parent.inner() as builder:
            if self.scanner.take("("):
                self._params(builder, scope)
            self.scanner.expect("{")
            self._nodes(builder, scope)
            self.scanner.expect("yield")
            results, _ = self._results(scope, [])
            self.scanner.expect("}")
            return builder.block(results)

    def _nodes(self, builder: Builder, scope: Scope) -> None:
        while self.scanner.next.kind in ("value", "operator"):
            self._node(builder, scope)

    def _node(self, builder: Builder, scope: Scope) -> None:
        scanner, start = self.scanner, self.scanner.next
        outputs: list[tuple[Token, Type]] = []
        while scanner.next.kind == "value":
            outputs.append(self._declaration())
            if not scanner.take(","):
                break
        if outputs:
            scanner.expect("=")
        op = self._op()
        args = self._arguments(op, scope)
        where = self._where()
        blocks: list[Block] = []
        while scanner.sees("{") or scanner.sees("(") or (blocks and scanner.take("else")):
            blocks.append(self._block(builder, scope))
        node = builder.emit_raw(op, args, tuple(t for _, t in outputs), tuple(blocks), where)
        self.starts[node] = start
        for (token, _), value in zip(outputs, node.outputs, strict=True):
            value.name = _user_name(token)
            self._bind(scope, token, value)

    def _where(self) -> Location | None:
        return _location(self.scanner.comments.get(self.scanner.last_line))

    def _op(self) -> Op:
        token = self.scanner.expect_kind("operator", "an operator, such as aten::add.Tensor")
        op = (
            OPS.get(token.text) or find_writing(token.text)
            or (find_opaque(token.text) if token.text.startswith("autograd::") else None)
        )
        if op is None:
            overloads = [o.name for o in PACKETS.get(token.text.split(".")[0], ())]
            hint = f"; there are {', '.join(overloads)}" if overloads else ""
            self.scanner.fail(f"no operator {token.text}{hint}", token)
        return op

    def _arguments(self, op: Op, scope: Scope) -> tuple[Operand, ...]:
        scanner, schema = self.scanner, op.schema.arguments
        operands: dict[str, Operand] = {}
        start = scanner.expect("(")
        named = False
        while not scanner.take(")"):
            token = scanner.next
            if token.kind == "word" and scanner.after_next().text == "=":
                named = True
                name = scanner.read().text
                scanner.expect("=")
            elif named:
                scanner.fail(f"an argument without name behind a named one: {op.schema}", token)
            elif len(operands) < len(schema):
                name = schema[len(operands)].name
            else:
                scanner.fail(f"{op.name} takes {len(schema)} arguments: {op.schema}", token)
            if name in operands or name not in [a.name for a in schema]:
                scanner.fail(
                    f"{op.name} {'got two of' if name in operands else 'has no'} argument {name!r}: {op.schema}", token
                )
            operands[name] = self._operand(scope)
            if not scanner.sees(")"):
                scanner.expect(",")
        return tuple(operands[a.name] if a.name in operands else self._default(op, a, start) for a in schema)

    def _default(self, op: Op, argument: Argument, start: Token) -> Operand:
        if not argument.has_default:
            self.scanner.fail(f"{op.name} needs argument {argument.name!r}: {op.schema}", start)
        return argument.default

    # ---- operands
    def _value(self, scope: Scope) -> Value:
        token = self.scanner.expect_kind("value", "a value, such as %x")
        if token.text not in scope:
            self.scanner.fail(f"{token.text} is not defined before this line", token)
        return scope[token.text]

    def _operand(self, scope: Scope) -> Operand:
        scanner = self.scanner
        token = scanner.next
        if token.kind == "value":
            return self._value(scope)
        if token.kind == "string":
            return scanner.read_string()
        if scanner.take("["):
            return self._list(scope)
        return self._immediate()

    def _list(self, scope: Scope) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        while not self.scanner.take("]"):
            operands.append(self._operand(scope))
            if not self.scanner.sees("]"):
                self.scanner.expect(",")
        return tuple(operands)

    def _immediate(self) -> Operand:
        scanner = self.scanner
        token, following = scanner.next, scanner.after_next()
        if token.text == "-" and (following.kind == "float" or following.text in ("inf", "nan")):
            scanner.read()
            return -self._immediate()
        if token.kind == "float":
            return float(scanner.read().text)
        if token.kind == "word":
            if token.text in _CONSTANTS:
                return _CONSTANTS[scanner.read().text]
            if token.text == "complex":
                return self._complex()
            dtype = dt.by_short(token.text)
            if dtype is not None:
                scanner.read()
                return dtype
            if not is_symbol(token.text) and token.text not in ("max", "min"):
                scanner.fail(f"{token.text!r} is no literal; values are written %{token.text}, words in double quotes")
        return read_dim(self.scanner)

    def _complex(self) -> complex:
        self.scanner.read()
        self.scanner.expect("(")
        real = self._part()
        self.scanner.expect(",")
        imaginary = self._part()
        self.scanner.expect(")")
        return complex(real, imaginary)

    def _part(self) -> float:
        token = self.scanner.next
        part = self._immediate()
        if not isinstance(part, (int, float)):
            self.scanner.fail(f"a part of a complex number must be a number, is {token.text!r}", token)
        return float(part)


def _location(comment: str | None) -> Location | None:
    match = _LOCATION.match(comment) if comment else None
    return Location(match[1], int(match[2])) if match else None


def _user_name(token: Token) -> str:
    """The name behind `%x`; numbers are the printer's."""
    name = token.text[1:]
    return "" if name.isdigit() else name
