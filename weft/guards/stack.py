"""The values on CPython's evaluation stack while bytecode is read, as far as guards care; CPython 3.10 to 3.14."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final

from weft.guards.plan import Link


class Const:
    """A constant on the stack."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Null:
    """CPython's own marker beside a callable."""

    __slots__ = ()


class Own:
    """A container that the code itself made, or its iterator."""

    __slots__ = ()


NULL: Final = Null()
OWN: Final = Own()
Item = Link | Const | Null | Own | None  # None is any other value

IGNORED: Final = frozenset(
    str.split(
        "RESUME NOP CACHE PRECALL KW_NAMES MAKE_CELL COPY_FREE_VARS EXTENDED_ARG GEN_START NOT_TAKEN SETUP_ANNOTATIONS "
        "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_ABSOLUTE RETURN_GENERATOR TO_BOOL COPY_DICT"
    )
)
ENDS: Final = frozenset(
    str.split(
        "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_ABSOLUTE RETURN_VALUE RETURN_CONST "
        "RAISE_VARARGS RERAISE"
    )
)
_ONLY_POP: Final = (
    "POP_",
    "STORE_",
    "LIST_",
    "SET_",
    "MAP_ADD",
    "DICT_",
    "DELETE_",
    "RETURN_VALUE",
    "JUMP_IF_",
    "RAISE_VARARGS",
)


class Stack:
    """A stack that is never empty: what lies below what was seen is unknown."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def push(self, item: Item) -> None:
        """Put an item on top."""
        self.items.append(item)

    def take(self) -> Item:
        """Remove the top without counting it as a use."""
        return self.items.pop() if self.items else None

    def use(self, count: int = 1) -> list[Item]:
        """Remove items, deepest first; the values of chains among them have been used."""
        taken = [self.take() for _ in range(count)][::-1]
        for item in taken:
            if isinstance(item, Link):
                item.used = True
        return taken

    def peek(self, depth: int) -> Item:
        """The item at `depth` from the top, 1 being the top."""
        return self.items[-depth] if depth <= len(self.items) else None

    def swap(self, depth: int) -> None:
        """Exchange the top with the item at `depth`."""
        if depth > len(self.items):
            self.items[:0] = [None] * (depth - len(self.items))
        self.items[-1], self.items[-depth] = self.items[-depth], self.items[-1]

    def rotate(self, depth: int) -> None:
        """Sink the top below the `depth - 1` items under it."""
        top = self.take()
        place = max(0, len(self.items) - (depth - 1))
        self.items.insert(place, top)

    def clear(self) -> None:
        """Forget: paths of control join here."""
        self.use(len(self.items))

    def other(self, ins: dis.Instruction) -> None:
        """Any instruction without a rule of its own, by its net effect."""
        effect = dis.stack_effect(ins.opcode, ins.arg, jump=False)
        if ins.opname.startswith(_ONLY_POP) and effect <= 0:
            self.use(-effect)
            return
        popped = max(1, 1 - effect)
        self.use(popped)
        self.items.extend([None] * (popped + effect))


def instructions_with_lines(code: CodeType) -> Iterator[tuple[dis.Instruction, int]]:
    """Each instruction with its source line (the line before, where Python gives none)."""
    starts = {offset: line for offset, line in dis.findlinestarts(code) if line}
    line = code.co_firstlineno
    for ins in dis.get_instructions(code):
        line = starts.get(ins.offset, line)
        yield ins, line
