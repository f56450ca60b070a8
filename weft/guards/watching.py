"""The profile hook by which a capture watches the user's frames, taken off for code that it must not watch."""

from __future__ import annotations

import sys
from typing import Any, Final

_NOT_OURS: Final = object()


def unwatched(function: Any, *args: Any) -> Any:
    """Call machinery that runs no user code without the hook of a capture; a profile function of the user's goes on."""
    hook = sys.getprofile()
    beneath: Any = getattr(hook, "beneath", _NOT_OURS)
    if beneath is _NOT_OURS:
        return function(*args)
    sys.setprofile(beneath)
    try:
        return function(*args)
    finally:
        sys.setprofile(hook)
