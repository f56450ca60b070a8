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
        _put_on(hook)


def watched(function: Any, *args: Any) -> Any:
    """Call what the user wrote from within `unwatched`: a capture sees what it reads and does."""
    hook = _taken_off.hook
    if hook is None:
        return function(*args)
    beneath = sys.getprofile()
    _taken_off.hook = None
    _put_on(hook)
    try:
        return function(*args)
    finally:
        sys.setprofile(beneath)
        _taken_off.hook = hook


def _put_on(hook: Any) -> None:
    install = hook.install
    if install is None:
        sys.setprofile(hook)
    else:
        install()


def quicken(make_filter: Any) -> Any:
    """From within `unwatched`: many calls are about to come. make_filter: gives a filter of events for the hook of the
    capture, or None (runtime/profile_filter.py). The hook, if it has one: it is put on again by hook.install()."""
    hook = _taken_off.hook
    if hook is None:
        return None
    hook.watcher.filter_events(hook, make_filter)
    return None if hook.install is None else hook

