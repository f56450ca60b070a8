"""The part of split functions that runs Python on each call, by itself: what `weft.compile(function, split=True)` does
with functions that are no whole program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.lazy.split.function import SplitFunction


def deferred(function: Callable[..., Any], backend: str | None = None) -> SplitFunction:
    """The function, run by Python on each call while its operators wait."""
    return SplitFunction(function, None, backend)
