"""What may not happen inside a compiled function: changing an older container, I/O, clocks, foreign randomness.
How each is recognised."""

from __future__ import annotations

import io
import types
from collections import deque
from typing import Any, Final

from weft.support.errors import CaptureError
from weft.support.locations import Location


class SideEffectError(CaptureError):
    """The function does something that a captured program cannot repeat on later calls. `where` is the user's line."""

    def __init__(self, where: Location | None, deed: str, remedy: str) -> None:
        self.where = where
        super().__init__(
            f"{where or 'the compiled function'} {deed}; the compiled program would not repeat it on later "
            f"calls. {remedy} Or compile with split=True, which runs Python on each call."
        )


MOVE_OUT: Final = "Do this outside the compiled function, or return the value and use it there."
USE_OURS: Final = "Use weft's random functions, or pass the value in as an argument."
PASS_IN: Final = "Pass the value in as an argument."

_CHANGES: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault"), "adds to"
    ),
    **dict.fromkeys(("pop", "popleft", "popitem", "remove", "discard", "clear", "__delitem__"), "removes from"),
    **dict.fromkeys(("sort", "reverse", "rotate", "move_to_end", "__setitem__", "__iadd__", "__ior__"), "changes"),
    **dict.fromkeys(("difference_update", "intersection_update", "symmetric_difference_update"), "changes"),
}
_CONTAINERS: Final = (list, dict, set, deque, bytearray)
_FILES: Final = (io.TextIOWrapper, io.FileIO, io.BufferedWriter, io.BufferedReader, io.BufferedRandom)
_FILE_METHODS: Final = frozenset(str.split("write writelines read readline readlines readinto flush truncate seek"))
_CLOCK_METHODS: Final = frozenset({"now", "utcnow", "today"})

_BUILTINS: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("builtins", "print"): ("prints", MOVE_OUT),
    ("builtins", "input"): ("reads the user's input", PASS_IN),
    **{(m, n): ("opens a file", MOVE_OUT) for m in ("_io", "io") for n in ("open", "open_code")},
    **{
        ("time", n): ("reads the clock", PASS_IN)
        for n in str.split(
            "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns "
            "thread_time thread_time_ns localtime gmtime ctime clock_gettime clock_gettime_ns"
        )
    },
    ("time", "sleep"): ("sleeps", MOVE_OUT),
    # ours would be gone, and what the function reads unseen
    ("sys", "setprofile"): ("sets a profile function", MOVE_OUT),
    **{
        (m, n): ("reads or writes files or processes", MOVE_OUT)
        for m in ("posix", "nt")
        for n in str.split(
            "open read write close remove unlink mkdir rmdir rename replace listdir scandir stat system kill fork chdir"
        )
    },
    **{(m, "urandom"): ("draws foreign random bytes", USE_OURS) for m in ("posix", "nt")},
    **{(m, n): ("changes the environment", MOVE_OUT) for m in ("posix", "nt") for n in ("putenv", "unsetenv")},
    **{("_pickle", n): ("reads or writes a file", MOVE_OUT) for n in ("dump", "load")},
}
_RANDOM_METHODS: Final = frozenset({"random", "getrandbits", "seed"})
SUSPECTS: Final = frozenset(
    {*_CHANGES, *_FILE_METHODS, *_CLOCK_METHODS, *_RANDOM_METHODS, "next", *(name for _, name in _BUILTINS)}
)

_STDLIB: Final[dict[str, tuple[str, str]]] = {
    "logging": ("logs", MOVE_OUT),
    "random": ("draws from Python's random", USE_OURS),
    "uuid": ("draws a random identifier", USE_OURS),
    "secrets": ("draws foreign random bytes", USE_OURS),
    **dict.fromkeys(
        ("subprocess", "socket", "multiprocessing", "urllib", "http"), ("talks to other processes", MOVE_OUT)
    ),
    **dict.fromkeys(("tempfile", "shutil", "fileinput", "getpass"), ("uses files", MOVE_OUT)),
}
_PATHLIB: Final = frozenset(
    str.split(
        "open read_text read_bytes write_text write_bytes mkdir rmdir unlink touch rename replace iterdir glob "
        "rglob stat exists"
    )
)


def stdlib_deed(module: str, name: str) -> tuple[str, str] | None:
    """(what it does, what to do instead) for a Python function of the standard library that the user's code calls,
    or None."""
    top = module.partition(".")[0]
    if top == "pathlib":
        return ("uses files", MOVE_OUT) if name in _PATHLIB else None
    return None if name in ("<module>", "__init__") and top != "tempfile" else _STDLIB.get(top)


def builtin_deed(function: Any) -> tuple[str, str] | None:
    """The same for a builtin function or method that is about to be called;
    containers are judged by `container_deed`."""
    name, owner = function.__name__, function.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        return _BUILTINS.get((function.__module__ or "", name))
    if name in _FILE_METHODS and isinstance(owner, _FILES):
        return ("reads or writes a file", MOVE_OUT)
    if name in _CLOCK_METHODS and isinstance(owner, type) and owner.__module__ == "datetime":
        return ("reads the clock", PASS_IN)
    if name in _RANDOM_METHODS and any(c.__module__ in ("_random", "random") for c in type(owner).__mro__):
        return ("draws from Python's random", USE_OURS)
    return None


def container_deed(function: Any) -> str | None:
    """What a method does to its container, for instance 'adds to a list'; None if it does nothing."""
    owner = function.__self__
    if not isinstance(owner, _CONTAINERS):
        return None
    verb = _CHANGES.get(function.__name__)
    return None if verb is None else f"{verb} a {type(owner).__name__}"
