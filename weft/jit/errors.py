"""The errors of scripted programs: what cannot be compiled, with the place in the source; what a running program
raises, with the lines that led there.
"""

from __future__ import annotations

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
    quoted = f"\n    {where.text}" if isinstance(where, Quoted) and where.text else ""
    line = f"\n  {spoken}at {where.file}, line {where.line}{column}{quoted}"
    if isinstance(error, Error):
        error.args = (f"{error.args[0]}{line}", *error.args[1:])
        return error
    return made(type(error), f"{type(error).__name__}: {error}{line}", error)


def made(kind: type[Exception], text: str, cause: Exception | None) -> Error:
    """An Error that also is a `kind`, with this text."""
    try:
        error: Any = _error_class(kind)(text)  # type: ignore[arg-type]  # (classes are hashable)
    except TypeError:  # it wants other arguments
        error = Error(text)
    error.__cause__ = cause
    return error  # type: ignore[no-any-return]
