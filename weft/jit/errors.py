"""The errors of scripted programs: what cannot be compiled, with the place in the source; what a running program
raises, with the lines that led there.
"""

from __future__ import annotations

import ast
import linecache
from contextlib import suppress
from functools import cache
from typing import Any

from weft.support.errors import WeftError
from weft.support.locations import Location


class CompileError(WeftError, RuntimeError):
    """A function that weft.jit.script cannot compile as it is written. The text shows the place, and says what to write
    instead.
    """


class Error(WeftError, RuntimeError):
    """An exception that a scripted program raised. It also is the exception that Python would have raised there."""


@cache
def _error_class(kind: type[Exception]) -> type[Error]:
    """The class that is both an Error and `kind`; Error alone where the two cannot be one."""
    if issubclass(kind, Error):
        return kind
    try:
        return type(
            f"Script{kind.__name__}",
            (Error, kind),
            {"__str__": lambda self: str(self.args[0]) if self.args else "", "__doc__": kind.__doc__},
        )
    except TypeError:  # their layouts in memory differ
        return Error


class Quoted(Location):
    """A line of a program that was read from a file, with its text."""

    text: str = ""

    @classmethod
    def at(cls, where: Location, text: str) -> Quoted:
        """The line `where`, which reads `text`."""
        quoted = cls(*where)
        quoted.text = text
        return quoted


class Inlined(Quoted):
    """A line of a function whose body stands in place of a call."""

    calls: tuple[Location, ...] = ()  # from the innermost

    @classmethod
    def called(cls, where: Location, call: Location) -> Inlined:
        """The line `where`, called from the line `call`."""
        inlined = cls(*where)
        inlined.text = getattr(where, "text", "")
        inlined.calls = (*getattr(where, "calls", ()), call)
        return inlined


def located(error: Exception, where: Location | None, operator: str = "") -> Exception:
    """The error with one more line of the program in its text: the call, or the operation, at `where`, and the calls
    that it was reached by. operator: the one that raised it.
    """
    for place in (where, *getattr(where, "calls", ())):
        error = _located(error, place, operator)
    return error


def _located(error: Exception, where: Location | None, operator: str) -> Exception:
    if where is None:
        return error
    spoken = f"{operator} " if operator and not isinstance(error, Error) else ""
    column = f", column {where.column}" if where.column else ""
    line = f"\n  {spoken}at {where.file}, line {where.line}{column}{_quoted(where)}"
    if isinstance(error, Error):
        error.args = (f"{error.args[0]}{line}", *error.args[1:])
        return error
    return made(type(error), f"{type(error).__name__}: {error}{line}", error)


def _quoted(where: Location) -> str:
    """The line of the program, if it can be read, and below it a mark under what stands at the column."""
    if isinstance(where, Quoted):
        return f"\n    {where.text}" if where.text else ""
    line = linecache.getline(where.file, where.line).rstrip()
    text = line.lstrip()
    start = (where.column or 0) - 1 - (len(line) - len(text))
    if not text or not 0 <= start < len(text):
        return f"\n    {text}" if text else ""
    return f"\n    {text}\n    {' ' * start}^{'~' * (_width(text, start) - 1)}"


def _width(text: str, start: int) -> int:
    """How long the longest expression of a line is that begins at `start`; 1 where the line alone is no statement."""
    for whole in (text, f"{text} pass"):
        with suppress(SyntaxError):
            nodes = [n for n in ast.walk(ast.parse(whole)) if isinstance(n, ast.expr) and n.col_offset == start]
            ends = [n.end_col_offset for n in nodes if n.end_col_offset is not None]
            return max(ends, default=start + 1) - start
    return 1


def made(kind: type[Exception], text: str, cause: Exception | None) -> Error:
    """An Error that also is a `kind`, with this text."""
    try:
        error: Any = _error_class(kind)(text)  # type: ignore[arg-type]  # (classes are hashable)
    except TypeError:  # it wants other arguments
        error = Error(text)
    error.__cause__ = cause
    return error  # type: ignore[no-any-return]
