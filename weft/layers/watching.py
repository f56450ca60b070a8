"""The profile hook by which a capture watches the user's frames, taken off for code that it must not watch."""

from __future__ import annotations

import sys
from typing import Any


def unwatched(function: Any, *args: Any) -> Any:
    """Call machinery that runs no user code without the profile hook by which a capture watches the user's frames."""
    hook = sys.getprofile()
    if not callable(hook):
        return function(*args)
    sys.setprofile(None)
    try:
        return function(*args)
    finally:
        sys.setprofile(hook)
