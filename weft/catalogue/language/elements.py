"""What an operation on a list is whose elements are known one by one, where some are numbers that only the run knows:
bodies over Numbers (native.py) and the operands, beside the kernels in the entries. Other elements are compared as
Python compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

MOST_SORTED = 16  # elements, each compared with each


def total(s: Any, values: Sequence[Any], start: Any) -> Any:
    """The sum."""
    return reduce(partial(s.arithmetic, "add"), values, start)


def any_of(s: Any, values: Sequence[Any]) -> Any:
    """Whether any is true."""
    return reduce(partial(s.bits, "or_"), map(s.to_bool, values), False)


def all_of(s: Any, values: Sequence[Any]) -> Any:
    """Whether every one is true."""
    return reduce(partial(s.bits, "and_"), map(s.to_bool, values), True)


def extreme(s: Any, predicate: str, values: Sequence[Any]) -> Any:
    """The least ("lt") or greatest ("gt")."""
    return reduce(partial(s.extremum, predicate), values)


def contains(s: Any, values: Sequence[Any], item: Any) -> Any:
    """Whether one is equal to the item."""
    return any_of(s, [equal(s, value, item) for value in values])


def count_of(s: Any, values: Sequence[Any], item: Any) -> Any:
    """How many are equal to the item."""
    return total(s, [s.to_int(equal(s, value, item)) for value in values], 0)


def equal(s: Any, a: Any, b: Any) -> Any:
    """Whether two values are equal, element by element."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return False
        return all_of(s, [equal(s, x, y) for x, y in zip(a, b, strict=True)])
    if any(v is None or isinstance(v, (str, list, tuple, dict)) for v in (a, b)):
        return a == b
    return s.compare("eq", a, b)


def unequal(s: Any, a: Any, b: Any) -> Any:
    """Whether they are not."""
    is_equal = equal(s, a, b)
    return not is_equal if type(is_equal) is bool else s.not_(is_equal)


def ordered(s: Any, predicate: str, a: Any, b: Any) -> Any:
    """`lt`, `le`, `gt` or `ge` of two lists: the first elements that differ decide, else the lengths."""
    if not isinstance(a, (list, tuple)) or not isinstance(b, (list, tuple)):
        return s.compare(predicate, a, b)
    sign = (len(a) > len(b)) - (len(a) < len(b))
    holds: Any = sign in {"lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (1, 0)}[predicate]
    strictly = predicate[0] + "t"
    for x, y in reversed(list(zip(a, b, strict=False))):
        holds = s.bits("or_", ordered(s, strictly, x, y), s.bits("and_", equal(s, x, y), holds))
    return holds


def in_order(s: Any, values: Sequence[Any], reverse: Any) -> Any:
    """The elements in order; None where they are too many."""
    if len(values) > MOST_SORTED or type(reverse) is not bool:
        return None
    first, last = ("gt", "lt") if reverse else ("lt", "gt")
    elements = list(values)
    for end in range(len(elements) - 1, 0, -1):
        for i in range(end):
            a, b = elements[i], elements[i + 1]
            elements[i], elements[i + 1] = s.extremum(first, a, b), s.extremum(last, a, b)
    return elements
