"""functools.lru_cache around functions of the user's: what a captured call puts into such a cache is taken out again.

A size as a key, or a mask made for it, stands for something in the capture only. No lookup, insertion or eviction
of these caches can be seen or undone, since they are written in C; but a cache may be emptied at any time, and one that
took something of the capture is.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator
from typing import Any

from weft.guards.origin import INTERNAL, Origins
from weft.record.tracer_leaks import held_symbol

_CACHE = type(functools.lru_cache(lambda: None))
_DEPTH = 16  # objects looked at in each cached result
_origins = Origins()


def empty_caches(seen: Iterable[object]) -> None:
    """Empty those caches among the objects that the function's code has met that hold symbols. (Those of the machinery
    hold none, and may be large.)"""
    for value in list(seen):
        if type(value) is not _CACHE or _origins.of_module(getattr(value.__wrapped__, "__module__", None)) == INTERNAL:
            continue
        if any(held_symbol(item, _DEPTH) is not None for item in _content(value)):
            value.cache_clear()


def _content(cache: Any) -> Iterator[Any]:
    """The keys and results of a cache: of one without bound, the items of a dict;
    of others, what their links lead to."""
    for item in gc.get_referents(cache):
        if type(item) is dict:
            if "__wrapped__" not in item:
                yield from item
                yield from item.values()
        elif item is not cache.__wrapped__:
            yield item
