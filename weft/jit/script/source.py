"""Source: the text of a function or of a program, its syntax tree, and places in it as errors show them."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from weft.jit.errors import CompileError
from weft.support.locations import Location


@dataclass(frozen=True)
class Source:
    """A piece of source: where it comes from, its first line there, and how far to the right it stands (which is not
    shown).
    """

    file: str
    text: str
    first_line: int = 1
    indent: int = 0

    def location(self, node: ast.AST) -> Location:
        """Where a piece of syntax starts."""
        return Location(
            self.file,
            getattr(node, "lineno", 1) + self.first_line - 1,
            getattr(node, "col_offset", 0) + 1,
        )

    def fail(self, node: ast.AST, problem: str) -> NoReturn:
        """Raises CompileError that shows the line and marks the place."""
        raise CompileError(f"{problem}\n{self.shown(node)}")

    def shown(self, node: ast.AST) -> str:
        """The place, and the line with a caret below."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        lines = self.text.split("\n")
        shown = lines[line - 1] if 0 < line <= len(lines) else ""
        column = len(shown.encode()[:column].decode(errors="ignore"))
        end = getattr(node, "end_col_offset", None) if getattr(node, "end_lineno", line) == line else len(shown)
        width = max(1, min((end or column + 1), len(shown)) - column)
        where = self.location(node)
        cut = min(self.indent, len(shown) - len(shown.lstrip()), column)
        shown, column = shown[cut:], column - cut
        place = f'  File "{where.file}", line {where.line}, column {where.column}'
        return f"{place}\n    {shown}\n    {' ' * column}^{'~' * (width - 1)}"


def refuse_class(cls: type, problem: str) -> NoReturn:
    """Raises CompileError that shows where a class is defined."""
    try:
        lines, first = inspect.getsourcelines(cls)
        file = inspect.getsourcefile(cls) or "<unknown>"
    except (OSError, TypeError):
        raise CompileError(problem) from None
    at = next((i for i, line in enumerate(lines) if line.lstrip().startswith("class ")), 0)
    indent = len(lines[at]) - len(lines[at].lstrip())
    source = Source(file, "".join(lines), first or 1)
    end = len(lines[at].rstrip())
    source.fail(ast.Pass(lineno=at + 1, col_offset=indent, end_lineno=at + 1, end_col_offset=end), problem)


def function_source(function: Callable[..., Any]) -> tuple[ast.FunctionDef, Source]:
    """The definition of a Python function. Raises CompileError if there is no source for it."""
    function = inspect.unwrap(function)
    name = getattr(function, "__qualname__", repr(function))
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "<unknown>"
    except (OSError, TypeError):
        raise CompileError(
            f"weft.jit.script: there is no source for {name}; define it in a file, or give its source as text"
        ) from None
    source = Source(file, "".join(lines), first or 1, _indent(lines))
    own = getattr(getattr(function, "__code__", None), "co_name", None)
    definition = next((n for n in _parsed(source) if isinstance(n, ast.FunctionDef) and n.name == own), None)
    if definition is None:
        raise CompileError(
            f"weft.jit.script: {name} is no function with a `def`; lambdas, generators and async functions cannot "
            f"be compiled"
        )
    return definition, source


def text_source(text: str, file: str = "<string>") -> tuple[list[ast.FunctionDef], Source]:
    """The functions that a text defines. Raises CompileError for anything else in it."""
    source = Source(file, text, 1, _indent(text.split("\n")))
    functions: list[ast.FunctionDef] = []
    _check(source)
    for node in _parsed(source):
        if not isinstance(node, ast.FunctionDef):
            source.fail(node, "a program consists of functions; write `def name(...):`")
        functions.append(node)
    return functions, source


def by_use(definitions: Sequence[ast.FunctionDef]) -> list[ast.FunctionDef]:
    """The functions of a text, those that another one names in front of it."""
    by_name = {d.name: d for d in definitions}
    order: dict[int, ast.FunctionDef] = {}
    seen: set[int] = set()

    def put(definition: ast.FunctionDef) -> None:
        if id(definition) in seen:
            return
        seen.add(id(definition))
        for node in ast.walk(definition):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name in by_name:
                put(by_name[name])
        order[id(definition)] = definition

    for definition in definitions:
        put(definition)
    return list(order.values())


def _check(source: Source) -> None:
    """What Python's own compiler finds wrong in a text that can be parsed: `break` outside of a loop."""
    tree = ast.Module(_parsed(source), [])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # (Python's remarks on style)
            compile(tree, source.file, "exec", dont_inherit=True)
    except SyntaxError as problem:
        place = ast.Pass(lineno=problem.lineno or 1, col_offset=max((problem.offset or 1) - 1, 0))
        source.fail(place, problem.msg)


def _indent(lines: Sequence[str]) -> int:
    """How far to the right the first statement stands."""
    codes = (line for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return next((len(line) - len(line.lstrip()) for line in codes), 0)


def _parsed(source: Source) -> list[ast.stmt]:
    """The statements. What stands to the right is parsed as the body of a branch: to move it would change texts of
    several lines.
    """
    head = "if 1:\n" if source.indent else ""
    try:
        try:
            tree = ast.parse(head + source.text, type_comments=True)
        except SyntaxError:
            tree = ast.parse(head + source.text)  # a comment that only looks like one of types
    except SyntaxError as problem:
        line = max((problem.lineno or 1) - bool(head), 1)
        place = ast.Pass(lineno=line, col_offset=max((problem.offset or 1) - 1, 0))
        raise CompileError(f"{problem.msg}\n{source.shown(place)}") from None
    if not head:
        return tree.body
    (branch,) = tree.body
    assert isinstance(branch, ast.If)
    ast.increment_lineno(branch, -1)
    return branch.body
