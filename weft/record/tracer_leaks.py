"""Tensors and numbers of a capture inside of other objects: what a captured function returns or leaves in a cache must
not hold any.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

from weft.record.numbers.sym_float import is_live
from weft.record.symbolic import SymbolicPayload
from weft.support.reachable import reachable
from weft.tensor.tensor import Tensor

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, np.ndarray, np.generic)
_LIMIT = 256  # objects looked at


def held_symbol(value: Any, limit: int = _LIMIT) -> Any:
    """A tensor or number of the capture that an object leads to through attributes, items or closure cells; None if
    there is none.

    limit: how many objects are looked at.
    """
    for item in reachable([value], _held, limit):
        if _is_symbol(item):
            return item
    return None


def leads_to(value: Any, ids: Container[int]) -> bool:
    """Whether an object is one of those with these ids, or leads to one in such a way."""
    return any(id(item) in ids for item in reachable([value], _held, _LIMIT))


def _is_symbol(item: Any) -> bool:
    return is_live(item) or (isinstance(item, Tensor) and type(item._data) is SymbolicPayload)


def _held(item: Any) -> list[Any]:
    if type(item) in _PLAIN or isinstance(item, Tensor):
        return []
    held: list[Any] = []
    if isinstance(item, dict):
        held += item.values()
    elif isinstance(item, (list, tuple, set, frozenset)):
        held += item
    held += (_attribute(item, "__dict__") or {}).values()
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        held += [_attribute(item, s) for s in ((slots,) if isinstance(slots, str) else slots)]
    for name in ("__closure__", "__defaults__"):
        held += _attribute(item, name) or ()
    held += [_attribute(item, name) for name in ("cell_contents", "__self__", "__func__")]
    return [each for each in held if each is not None]


def _attribute(item: Any, name: str) -> Any:
    """An attribute that the object itself has, or None: no `__getattr__` is asked, which may do anything."""
    try:
        return object.__getattribute__(item, name)
    except Exception:  # (AttributeError; ValueError for an empty cell; whatever a property raises)
        return None


