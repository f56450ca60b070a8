"""A `for` statement of the user's, as its bytecode says it: its body, what it binds, and what is done with what the
body collects in lists."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from weft.guards.rewrite import original
from weft.support import limits

LATE = 3  # iterations at the end of a loop of a size, whose results may be read one by one
IGNORED = frozenset({"RESUME", "NOP", "CACHE", "PRECALL", "EXTENDED_ARG", "NOT_TAKEN", "MAKE_CELL", "COPY_FREE_VARS"})
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_NEVER_GO_ON = ("RETURN_", "RAISE_VARARGS", "RERAISE")
_BACK = ("JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")
_LOCAL = ("FAST", "DEREF", "CLOSURE", "CLASSDEREF")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_SEE_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe"})


class Unsteady(Exception):
    """Iterations of a loop may differ by more than the tensors that they read and hand on."""


@dataclass(frozen=True, eq=False)
class ForStatement:
    """code: of its function, as written. begin: where its iterator is made; head: where that is asked for the next
    item; body: the instructions from there on to `after`, where the code goes on."""

    code: CodeType
    begin: int
    head: int
    body: tuple[dis.Instruction, ...]
    after: int

    @property
    def stored(self) -> frozenset[str]:
        """The local names that an iteration binds."""
        return frozenset([name for ins in self.body if ins.opname.startswith("STORE_FAST") for name in _names(ins)])

    @property
    def lists(self) -> frozenset[str]:
        """The local names of lists that an iteration appends to, and that it did not bind."""
        steps = self.body
        return frozenset([steps[i].argval for i in range(len(steps) - 1) if _appends(steps, i)]) - self.stored

    def is_next(self, at: int) -> bool:
        """Whether a jump to this place begins the next iteration. (A jump to an instruction of many bytes goes to the
        first of its prefixes.)"""
        return self.begin < at <= self.head


def instructions(code: CodeType) -> list[dis.Instruction]:
    """Those of a code object that do something."""
    return [ins for ins in _instructions(original(code)) if ins.opname not in IGNORED]


@lru_cache(maxsize=limits.RESULTS)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))


_CALLS_FROM_CACHES = (3, 11) <= sys.version_info < (3, 13)


def instruction_at(code: CodeType, at: int) -> int:
    """Where the instruction stands that runs on a frame: where it has called a function of Python's, CPython may say
    the last inline cache of it instead, of subscripts from some call on."""
    return _begins(code)[at // 2] if _CALLS_FROM_CACHES and at >= 0 else at


@lru_cache(maxsize=limits.RESULTS)
def _begins(code: CodeType) -> tuple[int, ...]:
    """By unit of the code, where its instruction stands."""
    offsets = [ins.offset for ins in _instructions(code)]
    ends = [*offsets[1:], len(code.co_code)]
    return tuple([at for at, end in zip(offsets, ends, strict=True) for _ in range((end - at) // 2)])


@lru_cache(maxsize=limits.RESULTS)
def _statement_at(code: CodeType, at: int) -> ForStatement | None:
    steps = instructions(code)
    i = next((i for i, ins in enumerate(steps) if ins.offset == at), None)
    if i is None or i + 1 >= len(steps) or (steps[i].opname, steps[i + 1].opname) != ("GET_ITER", "FOR_ITER"):
        return None
    head = steps[i + 1]
    body = tuple([ins for ins in steps[i + 2 :] if ins.offset < head.argval])
    return ForStatement(code, at, head.offset, body, head.argval) if body else None


def statement_at(code: CodeType, at: int) -> ForStatement | None:
    """The statement whose iterator is made by this instruction; None for others."""
    return _statement_at(original(code), at)


def is_item_of_loop(mark: Sequence[Any]) -> bool:
    """Whether an instruction (a code object, and where) asks an iterator of a `for` statement for its next item."""
    return bool(mark) and mark[0].co_code[mark[1]] == dis.opmap["FOR_ITER"]


def _names(ins: dis.Instruction) -> tuple[str, ...]:
    """The local names that an instruction has to do with."""
    if not any(kind in ins.opname for kind in _LOCAL):
        return ()
    return ins.argval if isinstance(ins.argval, tuple) else (ins.argval,)


def _appends(steps: Sequence[dis.Instruction], i: int) -> bool:
    """Whether an instruction loads a local list to append to it."""
    if i + 1 >= len(steps) or not steps[i].opname.startswith("LOAD_FAST") or len(_names(steps[i])) != 1:
        return False
    return steps[i + 1].argval == "append" and is_method_load(steps[i + 1])


def is_method_load(ins: dis.Instruction) -> bool:
    """Whether it loads a method to call it."""
    return ins.opname == "LOAD_METHOD" or (_HAS_FLAG and ins.opname == "LOAD_ATTR" and bool((ins.arg or 0) & 1))


_HAS_FLAG = sys.version_info >= (3, 12)  # (3.13 still has the name LOAD_METHOD)


def refuse_names_read_after(statement: ForStatement, names: frozenset[str]) -> None:
    """Raises Unsteady where code after the statement may read these local names before it binds them again."""
    code = statement.code
    if not _SEE_LOCALS.isdisjoint(code.co_names) or not names.isdisjoint((*code.co_cellvars, *code.co_freevars)):
        raise Unsteady
    steps = instructions(code)
    by_offset = {ins.offset: i for i, ins in enumerate(steps)}
    handlers = _handlers(statement, steps)
    for name in names:
        pending, seen = [_from(by_offset, statement.after), *handlers], set[int]()
        while pending:
            i = pending.pop()
            while i < len(steps) and i not in seen:
                seen.add(i)
                ins = steps[i]
                if name in _names(ins):
                    if not ins.opname.startswith("STORE_FAST") or len(_names(ins)) > 1:
                        raise Unsteady
                    break
                if ins.opcode in _JUMPS:
                    pending.append(_from(by_offset, ins.argval))
                    if ins.opname.startswith(("JUMP_FORWARD", *_BACK)):
                        break
                if ins.opname.startswith(_NEVER_GO_ON):
                    break
                i += 1


def _handlers(statement: ForStatement, steps: Sequence[dis.Instruction]) -> list[int]:
    """The numbers of the instructions from which on code runs when something was raised. That of a `with` statement in
    the body raises it again, or the statement is one that is not known to (steady.py)."""
    own = statement.begin, statement.after
    begins = {e.target: e.start for e in reversed(getattr(dis.Bytecode(statement.code), "exception_entries", ()))}
    handlers = []
    for i, ins in enumerate(steps):
        name, begin = ins.opname, ins.offset
        if name == "PUSH_EXC_INFO" and steps[i + 1].opname == "WITH_EXCEPT_START":
            name, begin = "SETUP_WITH", begins.get(begin, begin)
        if name in ("PUSH_EXC_INFO", "SETUP_FINALLY") or (name == "SETUP_WITH" and not own[0] < begin < own[1]):
            handlers.append(i)
    return handlers


def _from(by_offset: dict[int, int], at: int) -> int:
    """The number of the first instruction that does something at a place or behind it."""
    return min((i for offset, i in by_offset.items() if offset >= at), default=len(by_offset))


def uses_of_list(statement: ForStatement, frame: FrameType, name: str) -> Iterator[tuple[str, str | None]]:
    """The functions (a global name, and an attribute of it or None) that are called with a local list, whose results
    are all that the function knows of it but for its last items. Raises Unsteady where it may know more: how long the
    list is, or one of the others; or somebody else may, who has the list too."""
    code = statement.code
    if not is_held_alone(frame, name):
        raise Unsteady
    steps = instructions(code)
    for i, ins in enumerate(steps):
        is_read = name in _names(ins) and ins.opname not in ("STORE_FAST", "STORE_FAST_STORE_FAST")
        if is_read and not _appends(steps, i) and not _takes_late_item(steps, i, name):
            yield _called_with(steps, i)


def _takes_late_item(steps: Sequence[dis.Instruction], i: int, name: str) -> bool:
    """Whether an instruction loads a local list for one of its last items (behind another name, perhaps)."""
    names = _names(steps[i])
    if not steps[i].opname.startswith("LOAD_FAST") or names[-1] != name or names.count(name) != 1:
        return False
    key, end = steps[i + 1], steps[i + 2]
    is_item = end.opname == "BINARY_SUBSCR" or (end.opname == "BINARY_OP" and end.argrepr == "[]")
    return is_item and key.opname in _CONSTANTS and is_late(key.argval)


def is_late(key: Any) -> bool:
    """Whether a key is that of one of the last items of a list, which three iterations have appended to."""
    return type(key) is int and -LATE <= key < 0


def is_held_alone(frame: FrameType, name: str) -> bool:
    """Whether nothing but a local name of a frame refers to its value."""
    code = frame.f_code
    return name not in (*code.co_cellvars, *code.co_freevars) and _references(frame, name) <= _OWN_REFERENCES


def _references(frame: FrameType, name: str) -> int:
    """How many references there are to what a local name of a frame stands for."""
    return sys.getrefcount(frame.f_locals[name])


def _own_references() -> int:
    only: list[Any] = []
    return _references(sys._getframe(), "only") + len(only)


_OWN_REFERENCES = _own_references()  # where there is none but the name's


def _end_of_slice(steps: Sequence[dis.Instruction], i: int) -> int:
    """Where the code goes on that takes the items from a constant number on of the list before it, all or all but one
    of the last; i if it does not."""
    ends = [steps[i + n].opname for n in range(min(4, len(steps) - i))]
    keys = [ins.argval for ins, name in zip(steps[i:], ends, strict=False) if name in _CONSTANTS][:2]
    if type(keys[0] if keys else None) is slice:
        start, stop, count = keys[0].start, keys[0].stop if keys[0].step is None else 0, 2
        is_slice = ends[1:2] in (["BINARY_OP"], ["BINARY_SUBSCR"])
    else:
        start, stop = keys if len(keys) == 2 else (0, 0)
        is_short = ends[2:3] == ["BINARY_SLICE"]
        is_slice, count = is_short or ends[2:] == ["BUILD_SLICE", "BINARY_SUBSCR"], 3 if is_short else 4
    is_whole = stop is None or is_late(stop)
    return i + count if is_slice and is_whole and (start is None or (type(start) is int and start >= 0)) else i


def _called_with(steps: Sequence[dis.Instruction], i: int) -> tuple[str, str | None]:
    if not steps[i].opname.startswith("LOAD_FAST") or len(_names(steps[i])) != 1:
        raise Unsteady
    begin = end = _end_of_slice(steps, i + 1)
    while steps[end].opname in _CONSTANTS:
        end += 1
    extra = end - begin
    if steps[end].opname == "KW_NAMES":
        end += 1
    elif steps[end].opname in ("CALL_KW", "CALL_FUNCTION_KW"):
        extra -= 1
    if not steps[end].opname.startswith("CALL") or steps[end].arg != 1 + extra:
        raise Unsteady
    before = i - 1
    if steps[before].opname == "PUSH_NULL":
        before -= 1
    if steps[before].opname == "LOAD_GLOBAL":
        return steps[before].argval, None
    if steps[before].opname in ("LOAD_ATTR", "LOAD_METHOD") and steps[before - 1].opname == "LOAD_GLOBAL":
        return steps[before - 1].argval, steps[before].argval
    raise Unsteady
