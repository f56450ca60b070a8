"""The profile hook by which a capture watches the user's frames, taken off for code that it must not watch."""

from __future__ import annotations

import sys
import threading
from typing import Any


class _TakenOff(threading.local):
    """The hook that this thread's innermost `unwatched` has taken off."""

    hook: Any = None


_taken_off = _TakenOff()


def unwatched(function: Any, *args: Any) -> Any:
    """Call machinery that runs no user code without the hook of a capture; a profile function of the user's goes on."""
    hook: Any = sys.getprofile()
    if hook is None:
        return function(*args)
    try:
        beneath = hook.beneath
    except AttributeError:  # it is not a capture's
        return function(*args)
    sys.setprofile(beneath)
    _taken_off.hook = hook
    try:
        return function(*args)
    finally:
        _taken_off.hook = None
        sys.setprofile(hook)


def watched(function: Any, *args: Any) -> Any:
    """Call what the user wrote from within `unwatched`: a capture sees what it reads and does."""
    hook = _taken_off.hook
    if hook is None:
        return function(*args)
    beneath = sys.getprofile()
    _taken_off.hook = None
    sys.setprofile(hook)
    try:
        return function(*args)
    finally:
        sys.setprofile(beneath)
        _taken_off.hook = hook
