"""The values on CPython's evaluation stack while bytecode is read, as far as guards care; CPython 3.10 to 3.14."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable, Iterator
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

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.items: list[Item] = list(items)

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

    def join(self, other: list[Item]) -> None:
        """Another way comes to here with these items: what differs is some other value, and has been used."""
        for depth in range(1, max(len(self.items), len(other)) + 1):
            mine = self.peek(depth)
            theirs = other[-depth] if depth <= len(other) else None
            if mine is not theirs:
                for item in (mine, theirs):
                    if isinstance(item, Link):
                        item.used = True
                if depth <= len(self.items):
                    self.items[-depth] = None

    def other(self, ins: dis.Instruction) -> None:
        """Any instruction without a rule of its own, by its net effect."""
        effect = dis.stack_effect(ins.opcode, ins.arg, jump=False)
        if ins.opname.startswith(_ONLY_POP) and effect <= 0:
            self.use(-effect)
            return
        popped = max(1, 1 - effect)
        self.use(popped)
        self.items.extend([None] * (popped + effect))


_POPPING: Final = re.compile(r"POP_JUMP_|JUMP_FORWARD$")  # jumps whose ways have one stack


class Joins:
    """The stack where ways through a code object come together: a call's function and its first arguments lie below
    a conditional expression, whichever way that takes."""

    def __init__(self, instructions: Iterable[dis.Instruction]) -> None:
        """instructions: all of the code object."""
        jumps = [i for i in instructions if _is_jump(i)]
        # where a way comes from later on, or with another stack, nothing is known
        self.unknown = {i.argval for i in jumps if i.argval <= i.offset or not _POPPING.match(i.opname)}
        self.arriving: dict[int, Stack] = {}
        self.is_reached = True  # whether the instruction before leads here

    def leave(self, ins: dis.Instruction, stack: Stack) -> None:
        """An instruction has been read: it may lead elsewhere too, or only there."""
        if _is_jump(ins) and ins.argval not in self.unknown:
            arriving = self.arriving.setdefault(ins.argval, Stack(stack.items))
            arriving.join(stack.items)
            if ins.opname in ENDS:
                stack.items.clear()
        if ins.opname in ENDS:
            stack.clear()
            self.is_reached = False

    def arrive(self, ins: dis.Instruction, stack: Stack) -> None:
        """The next instruction is led to from elsewhere."""
        arriving = None if ins.offset in self.unknown else self.arriving.pop(ins.offset, None)
        if arriving is None:
            stack.clear()
        elif self.is_reached:
            stack.join(arriving.items)
        else:
            stack.items = arriving.items
        self.is_reached = True


def _is_jump(ins: dis.Instruction) -> bool:
    return ins.opcode in dis.hasjrel or ins.opcode in dis.hasjabs


def instructions_with_lines(code: CodeType) -> Iterator[tuple[dis.Instruction, int]]:
    """Each instruction with its source line (the line before, where Python gives none)."""
    starts = {offset: line for offset, line in dis.findlinestarts(code) if line}
    line = code.co_firstlineno
    for ins in dis.get_instructions(code):
        line = starts.get(ins.offset, line)
        yield ins, line
