"""Definitions in the code of a TorchScript archive, and the types that it writes.

The text is parsed and never run. Types are read here, piece by piece, and put back into the syntax tree as names that
stand for them, so that the front end evaluates nothing of the file's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from weft.jit.errors import CompileError
from weft.jit.script.source import Source
from weft.support.errors import ParseError
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type

_PLAIN: dict[str, Type] = {
    "Tensor": tt.TENSOR, "int": tt.INT, "float": tt.FLOAT, "bool": tt.BOOL, "str": tt.STR, "complex": tt.COMPLEX,
    "NoneType": tt.NONE, "None": tt.NONE, "Any": tt.ANY, "number": tt.NUMBER, "Device": tt.DEVICE,
    "Generator": tt.GENERATOR, "AnyListType": tt.ANY, "AnyTupleType": tt.ANY, "AnyClassType": tt.ANY,
}  # fmt: skip
_COMPOUND: dict[str, Callable[..., Type]] = {
    "List": tt.list_of, "Dict": tt.dict_of, "Optional": tt.optional, "Tuple": lambda *parts: tt.tuple_of(*parts),
    "Union": lambda *parts: tt.union_of(*parts), "Final": lambda kind: kind,
    "Future": lambda kind: tt.named_tuple_of("Future", {"value": kind}),
}  # fmt: skip
_WITH_TYPES = ("annotate", "uninitialized", "unchecked_cast", "isinstance")  # functions that take a type


@dataclass(frozen=True)
class Definition:
    """A class or function of the code, with the text that it stands in."""

    name: str
    syntax: ast.ClassDef | ast.FunctionDef
    source: Source

    @property
    def kind(self) -> str:
        """`function`, or what a class is: `Module`, `NamedTuple`, `Enum`, `Interface`, or `object`."""
        if isinstance(self.syntax, ast.FunctionDef):
            return "function"
        base = self.syntax.bases[0] if self.syntax.bases else None
        return base.id.removeprefix("Module") or "Module" if isinstance(base, ast.Name) else "object"

    @property
    def own_name(self) -> str:
        """The name without those of the files that it stands in."""
        return self.syntax.name

    def methods(self) -> dict[str, ast.FunctionDef]:
        """The methods of a class."""
        body = self.syntax.body if isinstance(self.syntax, ast.ClassDef) else []
        return {n.name: n for n in body if isinstance(n, ast.FunctionDef)}

    def attributes(self) -> dict[str, ast.expr]:
        """The types of a class's attributes, as they are written."""
        written: dict[str, ast.expr] = {}
        for node in self.syntax.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                written[node.target.id] = node.annotation
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                key = node.targets[0].slice  # `__annotations__["0"] = T`, of a name that is none of Python's
                if isinstance(key, ast.Constant):
                    written[str(key.value)] = node.value
        return written

    def constants(self) -> dict[str, Any]:
        """The values that a class's body assigns: lists of names, members of an enumeration, constants."""
        values: dict[str, Any] = {}
        for node in self.syntax.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    values[target.id] = literal(node.value, self.source)
        return values


class Code:
    """The code of an archive. `constants` are its tensors; `named` gives the type of a class by its full name."""

    def __init__(self, texts: Mapping[str, str], constants: tuple[Any, ...], named: Callable[[str], Type]) -> None:
        self._texts, self.constants, self._named = texts, constants, named
        self._files: dict[str, dict[str, Definition]] = {}
        self.bound: dict[str, Any] = {}  # types and values that stand in the syntax, by the names put in their place

    def find(self, name: str) -> Definition | None:
        """The definition of a full name: `__torch__.models.Net` is Net in the file `__torch__/models.py`."""
        path, _, own = name.rpartition(".")
        return self._file(f"{path.replace('.', '/')}.py").get(own)

    def _file(self, path: str) -> dict[str, Definition]:
        if path not in self._files:
            source = Source(f"code/{path}", self._texts.get(path, ""))
            space = path.removesuffix(".py").replace("/", ".")
            self._files[path] = {
                node.name: Definition(f"{space}.{node.name}", node, source)
                for node in _parsed(source) if isinstance(node, (ast.ClassDef, ast.FunctionDef))
            }  # fmt: skip
        return self._files[path]

    def type_of(self, node: ast.expr, source: Source) -> Type:
        """The type that a piece of syntax writes. Raises CompileError."""
        if isinstance(node, ast.Constant):
            if node.value is None:
                return tt.NONE
            if isinstance(node.value, str):
                return self.type_of(_expression(node.value, source, node), source)
        if isinstance(node, ast.Name) and node.id in _PLAIN:
            return _PLAIN[node.id]
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in _COMPOUND:
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            parts = [self.type_of(part, source) for part in inner]
            try:
                return _COMPOUND[node.value.id](*parts)
            except TypeError:
                source.fail(node, f"{node.value.id} does not take {len(parts)} types")
        name = dotted(node)
        if name is not None and name.startswith("__torch__."):
            return self._named(name)
        source.fail(node, f"{ast.unparse(node)[:80]} is no type that weft has")

    def prepared(self, function: ast.FunctionDef, source: Source) -> ast.FunctionDef:
        """A definition in which names stand for the types and for the default values of parameters."""
        return _Binding(self, source).visit(function)  # type: ignore[no-any-return]

    def bind(self, value: Any, at: ast.AST) -> ast.Name:
        """A name that stands for a value, at a piece of syntax."""
        name = f"<{len(self.bound)}>"  # no name that a program could write
        self.bound[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), at)


@dataclass
class _Binding(ast.NodeTransformer):
    """Puts names in the places of types and defaults."""

    code: Code
    source: Source

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The types of parameters and of the result, but for the object of a method, which the front end knows."""
        for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if arg.annotation is not None:
                written = dotted(arg.annotation) or ""
                definition = self.code.find(written) if written.startswith("__torch__.") else None
                is_module = definition is not None and definition.kind == "Module"
                arg.annotation = None if is_module else self._type(arg.annotation)
        node.args.defaults = [self._value(d) for d in node.args.defaults]
        node.args.kw_defaults = [None if d is None else self._value(d) for d in node.args.kw_defaults]
        node.returns = None if node.returns is None else self._type(node.returns)
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """`x : T = value`."""
        node.annotation = self._type(node.annotation)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`annotate(T, value)` and the like."""
        if isinstance(node.func, ast.Name) and node.func.id in _WITH_TYPES and node.args:
            at = 1 if node.func.id == "isinstance" else 0
            if at < len(node.args):
                node.args[at] = self._types(node.args[at])
        return self.generic_visit(node)

    def _types(self, node: ast.expr) -> ast.expr:
        if isinstance(node, (ast.List, ast.Tuple)):
            return ast.copy_location(ast.Tuple([self._type(part) for part in node.elts], ast.Load()), node)
        return self._type(node)

    def _type(self, node: ast.expr) -> ast.Name:
        return self.code.bind(self.code.type_of(node, self.source), node)

    def _value(self, node: ast.expr) -> ast.expr:
        name = dotted(node) or ""
        if name.startswith("CONSTANTS."):
            return self.code.bind(constant_of(self.code.constants, name.partition(".")[2], node, self.source), node)
        return node if isinstance(node, ast.Constant) else self.code.bind(literal(node, self.source), node)


def constant_of(constants: tuple[Any, ...], name: str, node: ast.AST, source: Source) -> Any:
    """The tensor `c3` of an archive. Raises CompileError."""
    if not name.removeprefix("c").isdigit() or int(name[1:]) >= len(constants):
        source.fail(node, f"the archive has no constant {name}")
    return constants[int(name[1:])]


NUMBERS = {"inf": float("inf"), "nan": float("nan"), "infj": complex(0, float("inf")), "nanj": complex(0, float("nan"))}


def literal(node: ast.expr, source: Source) -> Any:
    """The value of numbers, texts, None and containers of them, as they are written. Raises CompileError."""
    if isinstance(node, ast.Name) and node.id in NUMBERS:
        return NUMBERS[node.id]
    if isinstance(node, ast.Call) and dotted(node.func) in ("annotate", "torch.device") and node.args:
        return literal(node.args[-1], source)
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [literal(part, source) for part in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -literal(node.operand, source)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        source.fail(node, "a constant value is expected here")


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as text; None for other syntax."""
    if isinstance(node, ast.Name):
        return node.id
    inner = dotted(node.value) if isinstance(node, ast.Attribute) else None
    return None if inner is None else f"{inner}.{node.attr}"  # type: ignore[attr-defined]


def _parsed(source: Source) -> list[ast.stmt]:
    try:
        return ast.parse(source.text).body
    except (SyntaxError, ValueError, RecursionError) as problem:
        raise ParseError(f"weft.jit.load: {source.file} of the archive does not parse: {problem}") from None


def _expression(text: str, source: Source, at: ast.AST) -> ast.expr:
    try:
        return ast.copy_location(ast.parse(text, mode="eval").body, at)
    except SyntaxError:
        source.fail(at, f"{text!r} is no type")


def refuse(problem: str) -> NoReturn:
    """Raises CompileError for what the archive holds and weft cannot have."""
    raise CompileError(f"weft.jit.load: {problem}")
