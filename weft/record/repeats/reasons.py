"""Why a loop over a size is one of so many iterations, in words for `weft.explain`: the user's line, what stands there,
and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType

from weft.guards.rewrite import original
from weft.record.repeats.for_statement import instructions
from weft.support.locations import Location

_ANSWER = "asks what may have another answer in other iterations; use weft.where, or ask what stays the same"
_CALL = "calls what may do something else each time; call operators, layers and functions of such"
_ITEM = "takes or puts an item by a number that changes, and not a row of a tensor; make a tensor of the container"
# by the beginning of an instruction's name
_DOES = {
    "STORE_ATTR": "changes an attribute; keep the value in a local name, and set the attribute behind the loop",
    "STORE_GLOBAL": "changes a global name; keep the value in a local name",
    "STORE_DEREF": "changes a name that another function has too; keep the value in a local name",
    "STORE_SUBSCR": "writes an item of what is no list of its own; append to a list, and stack that behind the loop",
    "STORE_FAST": "gives a name to what is not known to be the same in other iterations",
    "POP_JUMP": _ANSWER, "JUMP_IF": _ANSWER, "COMPARE_OP": _ANSWER, "CONTAINS_OP": _ANSWER, "TO_BOOL": _ANSWER,
    "BINARY_SUBSCR": _ITEM,
    "CALL": _CALL,
    "INPLACE": "changes a value in place; write a = a + b",
    "BINARY_OP": "computes with the index, or in place, what is no operand of an operator; write a = a + b",
    "RETURN": "leaves the loop early; let it run to its end, and choose with weft.where",
}  # fmt: skip
_OTHER = "does what may be something else in other iterations"

LEFT_EARLY = "it ended before its last iteration (break, return); let it run to its end, and choose with weft.where"
NOT_ALIKE = "its iterations do not call the same operators in the same order, or do more than call operators"
NUMBERS = "a number that is computed of the index is an operand in a way that is not known for other lengths"
ROWS = "rows are read at places that are not known for other lengths; read x[t], x[t + 1] or x[n - 1 - t]"
SIZES = "it asks more of a size than whether its rows are there; ask in front of the loop"


def line_of(code: CodeType, at: int) -> int:
    """The line of an instruction."""
    lines = [line for begin, end, line in original(code).co_lines() if begin <= at < end and line is not None]
    return lines[0] if lines else code.co_firstlineno


def why_instruction(code: CodeType, at: int) -> str:
    """What an instruction does that iterations may differ by."""
    name = next((ins.opname for ins in instructions(code) if ins.offset == at), "")
    what = next((text for begin, text in _DOES.items() if name.startswith(begin)), _OTHER)
    return f"line {line_of(code, at)} {what}"


def why_names(names: Iterable[str]) -> str:
    """Local names that are something else in later iterations."""
    text = ", ".join(f"`{name}`" for name in sorted(names))
    return f"{text} is another value of Python's in each iteration; keep a tensor there, or compute it of the index"


def why_read(names: Iterable[str]) -> str:
    """Names of the index that are read behind the loop."""
    text = ", ".join(f"`{name}`" for name in sorted(names))
    return f"{text} is read behind the loop; use the size"


def why_list(name: str) -> str:
    """A list of results, of which more is known than its tensors."""
    return (
        f"the list `{name}` is used otherwise than in weft.stack(...), weft.cat(...) and as [-1], or something else "
        "has it too"
    )


def note(code: CodeType, at: int, count: int, why: str) -> str:
    """What became of a loop. at: its statement's instruction."""
    where = Location(code.co_filename, line_of(code, at))
    return f"{where}: a loop over a size, captured for its {count} iterations alone: {why}"
