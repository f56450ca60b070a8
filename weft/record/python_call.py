"""One call of Python in a captured program: who is called, with what, and what is made real before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.autograd.node import sequence_numbers
from weft.record.gradients import GradSlot
from weft.record.numbers.random_state import RandomState
from weft.record.symbolic import SymbolicStorage
from weft.record.user_code import plain_function
from weft.support import pytree
from weft.support.errors import CaptureError
from weft.support.locations import Location

if TYPE_CHECKING:
    from weft.autograd.function import FunctionNode

Caller = Callable[..., Any]
Table = dict[int, Callable[..., Any]]


class NotCallable(CaptureError):
    """A hook that the program cannot call either: the function has to run as it is written."""


class LooksForAnomalies(NotCallable):
    """A backward call is made in anomaly mode, whose answer no program gives: which node made the first NaN."""


class FailsLater(NotCallable):
    """A backward that callers may run, or not, raises: whoever runs it is to meet the error, not who calls forward."""


@dataclass(eq=False)
class PythonCall:
    """One call. caller: what calls the hook; table, place: where the hook is found at each call (None: it is `hook`).

    arguments: with numbers of operands in place of the program's values; spec: their structure. replaced:
    the argument whose place the result takes. node: of a
    custom Function, whose backward is called; forward: the number of the Function whose forward is. likes, places: what
    each result is like, and which of them are there or might be. written: where the values go that are made real
    (parameters). grads: gradients that are, with what each is (None, or a parameter). raised, random: versions and
    generators as they are then. zeroed: gradients that are set to zero if they are there. known: those that the
    function has set, as they are after it. passed: leaves (by id) whose gradients have been accumulated. saved: what
    is read after the call of what nodes that are older than it (by `sequence`) have saved.
    """

    caller: Caller
    hook: Callable[..., Any]
    table: Table | None
    place: int
    arguments: list[Any]
    spec: pytree.TreeSpec
    where: Location
    replaced: int | None = 0
    node: FunctionNode | None = None
    forward: int | None = None
    likes: list[Any] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    grads: list[tuple[GradSlot, int | None]] = field(default_factory=list)
    passed: set[int] = field(default_factory=set)
    zeroed: list[GradSlot] = field(default_factory=list)
    saved: set[SymbolicStorage] = field(default_factory=set)
    sequence: int = field(default_factory=lambda: next(sequence_numbers))
    known: list[tuple[GradSlot, int | None]] = field(default_factory=list)
    raised: dict[int, tuple[Any, int]] = field(default_factory=dict)
    random: list[RandomState] = field(default_factory=list)

    def current(self) -> Callable[..., Any] | None:
        """The hook to call; None if it has been removed."""
        if self.table is None:
            return self.hook
        return list(self.table.values())[self.place] if self.place < len(self.table) else None


@dataclass(frozen=True)
class ValueArgument:
    """Stands for an operand among the arguments of a call. is_copy: whether it is a view of memory from outside, of
    which the call gets a copy."""

    operand: int
    is_copy: bool


@dataclass(frozen=True)
class Size:
    """Stands for a size among the arguments of a call."""

    dim: Any


class Context:
    """Stands for the context of a Function whose forward is called: by the number of that."""

    def __init__(self, number: int, needs: tuple[bool, ...]) -> None:
        self.number, self.needs = number, needs


def line_of(hook: Any) -> Location:
    function = plain_function(hook)
    assert function is not None
    return Location(function.__code__.co_filename, function.__code__.co_firstlineno)
