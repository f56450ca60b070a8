"""What a code object can read and write of the state around it, as found once from its bytecode."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType
from typing import Any, Final

Step = tuple[str, Any]  # (".", attribute) or ("[", constant key, or ANY)


class _AnyKey:
    """Stands for a key that the bytecode does not name."""

    def __repr__(self) -> str:
        return "?"


ANY: Final = _AnyKey()


class Link:
    """One step of an access chain: what is read from it, where, and whether the value itself is used or written."""

    __slots__ = (
        "handed", "is_extended", "is_unsure", "iterated", "line", "mutations", "name", "owner", "passed", "read",
        "steps", "stores", "used",
    )

    def __init__(self, line: int, name: Any = None, owner: Link | None = None) -> None:
        self.line, self.name, self.owner = line, name, owner  # owner: the shorter chain
        self.steps: dict[Step, Link] = {}
        # an item, or of one, of what may be no container: its attributes are loose names, too
        self.is_unsure: bool = owner is not None and owner.is_unsure
        self.read = False  # loaded at all (a link may exist only because it is stored)
        self.used = False  # the value went somewhere else than into a longer chain
        self.is_extended = False  # `+=`: of a list, what it reads is nothing of it
        self.iterated = 0  # the line that iterates over it, or 0
        self.handed: list[Link] = []  # what it is an argument of: that may be a function whose own plan says the rest
        self.passed = 0  # the line that passes it to a call, or 0
        self.stores: list[int] = []  # lines that rebind it
        self.mutations: list[int] = []  # lines that assign or delete an item of it, or change it in place

    def step(self, step: Step, line: int) -> Link:
        """The longer chain."""
        link = self.steps.get(step)
        if link is None:
            link = self.steps[step] = Link(line, step[1], self)
        return link


@dataclass(eq=False)
class Plan:
    """The state that a code object can touch.

    roots: chains by ("global" | "cell" | "local" | "import" | "scope", name); loose: attribute names read from values
    that bytecode alone does not identify (a loop variable), with their line; optional: those of them that need not
    exist; loose_stores: the same for writes;
    names: every attribute name; operators: the special methods behind its operators;
    called: methods that an operator.methodcaller calls;
    everything: attributes are named at run time; mutations: lines that change an unidentified container;
    asks_identity: whether it asks which of two objects one is; asks_id: and calls id() or hash().
    """

    code: CodeType
    roots: dict[tuple[str, str], Link] = field(default_factory=dict)
    loose: dict[str, int] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    loose_stores: dict[str, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    operators: dict[str, int] = field(default_factory=dict)
    called: dict[str, int] = field(default_factory=dict)
    everything: int = 0
    asks_identity: bool = False
    asks_id: bool = False
    asks_type: bool = False  # of something else than `self`
    mutations: list[int] = field(default_factory=list)
    # of the standard library: what it reads of its arguments counts, what it writes is its own
    is_library: bool = False
    nested: tuple[CodeType, ...] = ()
    bound: tuple[str, ...] = ()  # the local and cell names among the roots
    has_cells: bool = False  # whether names of enclosing functions are among them
    # names and keys that chains pass through: after a store to one of them, the chains must be followed again
    path_names: frozenset[Any] = frozenset()
    store_names: frozenset[Any] = frozenset()

    @property
    def packs(self) -> tuple[str, ...]:
        """The names of *args and **kwargs."""
        code, count = self.code, self.code.co_argcount + self.code.co_kwonlyargcount
        return code.co_varnames[count : count + bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)]

    @property
    def global_names(self) -> set[str]:
        """The globals and builtins that it loads."""
        return {name for kind, name in self.roots if kind == "global"}

    @property
    def file(self) -> str:
        """The file of the code."""
        return self.code.co_filename
