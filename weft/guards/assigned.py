"""Which names a code object has: its arguments, what it assigns, the code nested in it."""

from __future__ import annotations

import dis
from collections import Counter
from types import CodeType
from typing import Any, Final

_STORE_FAST: Final = (
    "STORE_FAST",
    "STORE_FAST_LOAD_FAST",
    "STORE_FAST_STORE_FAST",
    "DELETE_FAST",
    "LOAD_FAST_AND_CLEAR",
)
STORE_CELL: Final = ("STORE_DEREF", "DELETE_DEREF")


def names_in(value: Any) -> tuple[str, ...]:
    """The names of an instruction that may have several."""
    return value if isinstance(value, tuple) else (value,)


def stored_locals(code: CodeType) -> Counter[str]:
    """How often each local or cell is assigned, by this code or (cells) by the code nested in it."""
    stored: Counter[str] = Counter()
    for ins in dis.get_instructions(code):
        if ins.opname == "STORE_FAST_LOAD_FAST":
            stored[names_in(ins.argval)[0]] += 1
        elif ins.opname in _STORE_FAST or ins.opname in STORE_CELL:
            stored.update(names_in(ins.argval))
    for inner in nested_codes(code):
        stored.update({n: 2 for n in stored_locals(inner) if n in inner.co_freevars})
    return stored


def nested_codes(code: CodeType) -> tuple[CodeType, ...]:
    """The code objects of functions, comprehensions and classes defined inside."""
    return tuple(c for c in code.co_consts if isinstance(c, CodeType))


def argument_names(code: CodeType) -> set[str]:
    """All parameters, *args and **kwargs among them."""
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return set(code.co_varnames[:count])
