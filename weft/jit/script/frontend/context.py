"""Context: the state of one function that is being compiled, and the tables of what each piece of syntax means."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from weft.ir.builder import Builder
from weft.ir.graph import Block, Node, Operand, Value
from weft.ir.kinds import type_of_immediate
from weft.jit.errors import CompileError
from weft.jit.script.annotations import written
from weft.jit.script.frontend.advice import converting, instead_of, undefined
from weft.jit.script.frontend.scope import Scope
from weft.jit.script.frontend.values import Simple, SugaredValue, constant
from weft.jit.script.source import Source
from weft.ops.op import OPS, Op
from weft.support.errors import WeftError
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type

Translate = Callable[["Context", Any], SugaredValue]
EXPRESSIONS: dict[type[ast.AST], Translate] = {}
STATEMENTS: dict[type[ast.AST], Callable[[Context, Any], None]] = {}
_FOLDED = (tt.INT, tt.FLOAT, tt.BOOL, tt.STR, tt.COMPLEX)
_CALLS = frozenset(
    f"prim::{n}"
    for n in ("Uninitialized", "CallFunction", "PythonOp", "CallBuiltin", "Print", "set_grad_enabled", "unchecked_cast")
)


def translates(*kinds: type[ast.AST]) -> Callable[[Translate], Translate]:
    """Decorator: this function gives the meaning of these expressions."""

    def register(function: Translate) -> Translate:
        EXPRESSIONS.update(dict.fromkeys(kinds, function))
        return function

    return register


def executes(*kinds: type[ast.AST]) -> Callable[[Callable[[Context, Any], None]], Callable[[Context, Any], None]]:
    """Decorator: this function compiles these statements."""

    def register(function: Callable[[Context, Any], None]) -> Callable[[Context, Any], None]:
        STATEMENTS.update(dict.fromkeys(kinds, function))
        return function

    return register


class Tables:
    """What can be done with a value of the graph, by its type. members.py and its neighbours fill it in."""

    attribute: Callable[..., SugaredValue]
    set_attribute: Callable[..., None]
    call: Callable[..., SugaredValue]
    elements: Callable[..., Sequence[SugaredValue]]
    item: Callable[..., SugaredValue]
    new_list: Callable[..., Simple]


TABLES = Tables()


class Context:
    """One function on its way to a graph. `resolve` finds what a name that is no variable stands for; `program`
    collects what the graph refers to.
    """

    def __init__(self, name: str, source: Source, resolve: Callable[[str, ast.AST], Any], program: Any) -> None:
        self.name, self.source, self.resolve, self.program = name, source, resolve, program
        self.builder = Builder(name)
        self.scope = Scope()
        self.tables = TABLES
        self.returned: list[tuple[Type, ast.AST]] = []
        self.return_type: Type | None = None
        self.pending: list[Value] = []  # values of the function's result, whose type is known at the end
        self.blank: Node | None = None  # stands for the result where there is none yet
        self.top = self.builder
        self.folds = True  # whether what is known while compiling is computed then
        self.paused = 0  # a recorder that is told of nothing now
        self.loops = 0  # how many loops stand around the statement
        self.expected: Type | None = None
        self.open_types: dict[str, Type] = {}  # parameters that may be None, or of several types

    def widest(self, name: str) -> Type | None:
        """The type that a variable may have anywhere: what the user wrote for it. None where nothing is written."""
        return self.scope.declared.get(name) or self.open_types.get(name)

    # ---- syntax
    def expression(self, node: ast.AST, expected: Type | None = None) -> SugaredValue:
        """What an expression stands for. `expected` is the type that its surroundings want, for literals that could
        have several.
        """
        translate = EXPRESSIONS.get(type(node))
        if translate is None:
            self.fail(node, instead_of(node))
        before, self.expected = self.expected, expected
        try:
            return translate(self, node)
        finally:
            self.expected = before

    def value(self, node: ast.AST, expected: Type | None = None) -> Simple:
        """The value of an expression."""
        return self.expression(node, expected).as_value(self, node, expected)

    def fail(self, node: ast.AST, problem: str) -> NoReturn:
        """Raises CompileError at a piece of syntax."""
        self.source.fail(node, problem)

    # ---- names
    def lookup(self, name: str, node: ast.AST) -> SugaredValue:
        """What a name stands for. Raises CompileError for one that is not defined."""
        meaning = self.scope.find(name)
        if meaning is None:
            meaning = self.resolve(name, node)
        if meaning is None:
            self.fail(node, undefined(name, self.scope.names()))
        return meaning

    # ---- nodes
    @staticmethod
    def op(name: str) -> Op:
        """An operator by its full name."""
        return OPS[name]

    def emit(self, op: Op, args: tuple[Operand, ...], node: ast.AST, types: tuple[Type, ...] | None = None) -> Simple:
        """Append a node with at most one result, or find the result where every operand is known."""
        if types is None:
            try:
                types = self.builder.infer(op, args)
            except WeftError as error:
                if isinstance(error, CompileError):
                    raise
                self.fail(node, str(error))
        folded = self._folded(op, args, types) if self.folds else None
        if folded is not None:
            return folded
        emitted = self.append(op, args, types, node)
        return Simple(emitted.outputs[0], types[0]) if emitted.outputs else constant(None, tt.NONE)

    def append(
        self, op: Op, args: tuple[Operand, ...], types: tuple[Type, ...], node: ast.AST, blocks: tuple[Block, ...] = ()
    ) -> Node:
        """Append a node as it stands."""
        return self.builder.emit_raw(op, args, types, blocks, self.source.location(node))

    def _folded(self, op: Op, args: tuple[Operand, ...], types: tuple[Type, ...]) -> Simple | None:
        if not op.host or len(types) != 1 or types[0] not in _FOLDED or op.effect == "python" or str(op.name) in _CALLS:
            return None
        if any(isinstance(a, (Value, tuple)) for a in args):
            return None
        try:
            assert op.kernel is not None
            result = op.kernel(*args)
        except Exception:  # it will be raised when the program comes there
            return None
        return constant(result, types[0]) if type_of_immediate(result) is types[0] else None

    def prim(self, name: str, node: ast.AST, *args: Simple) -> Simple:
        """Append `prim::name`; a tensor where a number is wanted is converted. Raises CompileError for wrong types."""
        op = OPS[f"prim::{name}"]
        defaults = tuple(a.default for a in op.schema.arguments[len(args) :])
        return self.emit(op, (*(a.operand for a in args), *defaults), node)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """What happens within is not recorded."""
        self.paused += 1
        try:
            yield
        finally:
            self.paused -= 1

    @contextmanager
    def block(self) -> Iterator[Builder]:
        """Statements and expressions within go into a block of their own, with names of its own."""
        builder, scope = self.builder, self.scope
        with builder.inner() as inner:
            self.builder, self.scope = inner, Scope(scope)
            try:
                yield inner
            finally:
                self.builder, self.scope = builder, scope

    # ---- types
    @staticmethod
    def converts(actual: Type, wanted: Type) -> bool:
        """Whether `coerced` takes a value of this type."""
        inner = wanted.inner if isinstance(wanted, tt.OptionalType) else wanted
        return (
            actual.is_subtype_of(wanted)
            or (
                isinstance(actual, tt.TupleType)
                and isinstance(inner, tt.ListType)
                and all(Context.converts(e, inner.element) for e in actual.elements)
            )
            or (tt.TENSOR if isinstance(actual, tt.TensorType) else actual, inner) in _CONVERSIONS
        )

    def implements(self, value: Simple, wanted: Type, node: ast.AST) -> bool:
        """Whether a value is an object that may stand for the interface that is wanted. Raises CompileError."""
        inner = wanted.inner if isinstance(wanted, tt.OptionalType) else wanted
        return isinstance(inner, tt.ClassType) and self.program.implements(self, node, value, inner)

    def promised(self, value: Simple, wanted: Type, node: ast.AST, what: str) -> Simple:
        """The value for a name whose type is annotated: no tensor becomes a number, and no number one of another type.
        Raises CompileError.
        """
        inner = wanted.inner if isinstance(wanted, tt.OptionalType) else wanted
        actual = tt.TENSOR if isinstance(value.type, tt.TensorType) else value.type
        if (actual, inner) in _CONVERSIONS and actual is not tt.NUMBER and not value.type.is_subtype_of(wanted):
            self.fail(
                node,
                f"{what} is of type {written(value.type)}, not of type {written(wanted)}; convert it: `{inner}(...)`, "
                "or change the annotation",
            )
        return self.coerced(value, wanted, node, what)

    def coerced(self, value: Simple, wanted: Type | None, node: ast.AST, what: str = "") -> Simple:
        """The value as one of the wanted type: what is one already, an int for a float, a tensor with one element for a
        number. Raises CompileError.
        """
        if wanted is None or value.type is wanted:
            return value
        if value.type.is_subtype_of(wanted):
            return Simple(value.operand, value.type if isinstance(wanted, tt.TensorType) else wanted)
        inner = wanted.inner if isinstance(wanted, tt.OptionalType) else wanted
        if self.implements(value, wanted, node):
            cast = self.builder.emit_raw(self.op("prim::unchecked_cast"), (value.operand, str(wanted)), (wanted,))
            return Simple(cast.output, wanted)
        if isinstance(value.type, tt.TupleType) and isinstance(inner, tt.ListType) and self.converts(value.type, inner):
            return Simple(self.tables.new_list(self, node, value.elements(self, node), inner).operand, wanted)
        convert = _CONVERSIONS.get((tt.TENSOR if isinstance(value.type, tt.TensorType) else value.type, inner))
        if convert is None:
            self.fail(
                node,
                f"{what or 'the value'} is of type {written(value.type)}, not of type "
                f"{written(wanted)}{converting(value.type, wanted)}",
            )
        return Simple(self.prim(convert, node, value).operand, wanted)

    def stored(self, value: Simple, wanted: Type | None, node: ast.AST, what: str) -> Simple:
        """The value as an element of a list or dict: a tensor does not become a number on its way in, where it would
        lose its gradient. Raises CompileError.
        """
        inner = wanted.inner if isinstance(wanted, tt.OptionalType) else wanted
        if isinstance(value.type, tt.TensorType) and inner in (tt.INT, tt.FLOAT, tt.BOOL, tt.COMPLEX, tt.NUMBER):
            self.fail(
                node,
                f"{what} is of type Tensor, not of type {written(inner)}; convert it: `{inner}(...)`, or annotate the "
                "type",
            )
        return self.coerced(value, wanted, node, what)


_CONVERSIONS: dict[tuple[Type, Type], str] = {
    (tt.INT, tt.FLOAT): "float",
    (tt.BOOL, tt.INT): "int",
    (tt.BOOL, tt.FLOAT): "float",
    (tt.INT, tt.COMPLEX): "complex",
    (tt.FLOAT, tt.COMPLEX): "complex",
    (tt.NUMBER, tt.FLOAT): "float",
    (tt.NUMBER, tt.INT): "int",
    (tt.TENSOR, tt.FLOAT): "float",
    (tt.TENSOR, tt.INT): "int",
    (tt.TENSOR, tt.BOOL): "bool",
}
