"""What may not happen inside a compiled function: changing an older container, I/O, clocks, foreign randomness.
How each is recognised."""

from __future__ import annotations

import datetime
import functools
import io
import sys
import types
from collections import deque
from operator import methodcaller
from typing import Any, Final

from weft.guards.asked import QUESTIONS
from weft.support.errors import OR_SPLIT, CaptureError
from weft.support.locations import Location


class SideEffectError(CaptureError):
    """The function does something that a captured program cannot repeat on later calls. `where` is the user's line."""

    def __init__(self, where: Location | None, deed: str, remedy: str) -> None:
        self.where = where
        super().__init__(
            f"{where or 'the compiled function'} {deed}; the compiled program would not repeat it on later "
            f"calls. {remedy}{OR_SPLIT}"
        )


MOVE_OUT: Final = "Do this outside the compiled function, or return the value and use it there."
USE_OURS: Final = "Use weft's random functions, or pass the value in as an argument."
PASS_IN: Final = "Pass the value in as an argument."
PASS_ITEM: Final = "Draw the item outside and pass it in as an argument."

_CHANGES: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault"), "adds to"
    ),
    **dict.fromkeys(("pop", "popleft", "popitem", "remove", "discard", "clear", "__delitem__"), "removes from"),
    **dict.fromkeys(("sort", "reverse", "rotate", "move_to_end", "__setitem__", "__iadd__", "__ior__"), "changes"),
    **dict.fromkeys(("difference_update", "intersection_update", "symmetric_difference_update"), "changes"),
}
_LRU_CACHE: Final = type(functools.lru_cache(lambda: None))
_CONTAINERS: Final = (list, dict, set, deque, bytearray)
_FILES: Final = (io.TextIOWrapper, io.FileIO, io.BufferedWriter, io.BufferedReader, io.BufferedRandom)
_FILE_METHODS: Final = frozenset(
    str.split("write writelines read readline readlines readinto flush truncate seek tell")
)
_CLOCKS: Final = ("time", "posix", "nt")
_CLOCK_METHODS: Final = frozenset({"now", "utcnow", "today"})
# what goes by the local time zone, which time.tzset() changes: of a class (a constructor), and of a date without a zone
_ZONE_METHODS: Final = frozenset({"fromtimestamp", "astimezone", "timestamp"})

_BUILTINS: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("builtins", "print"): ("prints", MOVE_OUT),
    ("builtins", "input"): ("reads the user's input", PASS_IN),
    ("builtins", "__import__"): ("imports by a name that nobody sees", "Use importlib.import_module()."),
    **{(m, n): ("opens a file", MOVE_OUT) for m in ("_io", "io") for n in ("open", "open_code")},
    **{
        ("time", n): ("reads the clock", PASS_IN)
        for n in str.split(
            "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns "
            "thread_time thread_time_ns localtime gmtime ctime clock_gettime clock_gettime_ns asctime strftime"
        )
    },
    **{("time", n): ("goes by the local time zone", PASS_IN) for n in ("mktime", "tzset")},
    ("time", "sleep"): ("sleeps", MOVE_OUT),
    # ours would be gone, and what the function reads unseen
    ("sys", "setprofile"): ("sets a profile function", MOVE_OUT),
    ("sys", "getprofile"): ("asks for the profile function", MOVE_OUT),
    **{
        ("gc", n): ("asks the garbage collector", PASS_IN)
        for n in str.split("isenabled get_count get_objects get_referrers get_stats is_tracked")
    },
    **{
        (m, n): ("counts references", PASS_IN)
        for m, n in (("sys", "getrefcount"), ("_weakref", "getweakrefcount"), ("_weakref", "getweakrefs"))
    },
    **{("_tracemalloc", n): ("asks for memory in use", PASS_IN) for n in ("get_traced_memory", "_get_traces")},
    **{("resource", n): ("reads the clock", PASS_IN) for n in ("getrusage", "getrlimit")},
    **{("numpy", n): ("reads a file", MOVE_OUT) for n in ("fromfile",)},
    **{
        (m, n): ("reads or writes files or processes", MOVE_OUT)
        for m in ("posix", "nt")
        for n in str.split(
            "open read write close remove unlink mkdir rmdir rename replace listdir scandir stat lstat fstat access "
            "statvfs readlink system kill fork chdir times getloadavg get_terminal_size sched_getaffinity umask"
        )
    },
    **{
        (m, n): ("draws foreign random bytes", USE_OURS) for m in ("posix", "nt") for n in ("urandom", "getrandom")
    },
    **{(m, n): ("changes the environment", MOVE_OUT) for m in ("posix", "nt") for n in ("putenv", "unsetenv")},
    **{("_pickle", n): ("reads or writes a file", MOVE_OUT) for n in ("dump", "load")},
}
# functions of NumPy's and of weft's own that the user's code calls
MACHINERY_DEEDS: Final[dict[tuple[str, str], tuple[str, str]]] = {
    (module, name): ("reads or writes a file", MOVE_OUT)
    for module, names in {
        "numpy.lib._npyio_impl": "load loadtxt genfromtxt fromregex save savez savez_compressed savetxt",
        "numpy.lib.npyio": "load loadtxt genfromtxt fromregex save savez savez_compressed savetxt",
        "numpy._core.memmap": "__new__ flush", "numpy.core.memmap": "__new__ flush",
        "weft.interop.files": "save load",
    }.items()
    for name in names.split()
}
_RANDOM_METHODS: Final = frozenset({"random", "getrandbits", "seed"})
SUSPECTS: Final = frozenset({
    *_CHANGES, *_FILE_METHODS, *_CLOCK_METHODS, *_ZONE_METHODS, *_RANDOM_METHODS, "next",
    *(name for _, name in _BUILTINS), *(name for _, name in QUESTIONS), "globals", "_getframe", "__subclasses__",
    "cache_info", "cache_clear",
})

_FOREIGN: Final = ("calls a function of another library, which reads and changes what nobody can tell", MOVE_OUT)
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
    if top == "ctypes":
        return _FOREIGN if name in ("__getattr__", "__getitem__") else None  # of a library, which gives a function
    if top == "pathlib":
        return ("uses files", MOVE_OUT) if name in _PATHLIB else None
    return None if name in ("<module>", "__init__") and top != "tempfile" else _STDLIB.get(top)


def builtin_deed(function: Any) -> tuple[str, str] | None:
    """The same for a builtin function or method that is about to be called;
    containers are judged by `container_deed`."""
    name, owner = function.__name__, function.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        return _BUILTINS.get((function.__module__ or "", name))
    if name == "cache_clear" and type(owner) is _LRU_CACHE:
        return ("empties a cache", MOVE_OUT)
    if name in _FILE_METHODS and isinstance(owner, _FILES):
        return ("reads or writes a file", MOVE_OUT)
    if name in _CLOCK_METHODS and isinstance(owner, type) and any(c.__module__ == "datetime" for c in owner.__mro__):
        return ("reads the clock", PASS_IN)
    if name in _ZONE_METHODS and _goes_by_local_zone(owner, name):
        return ("goes by the local time zone", PASS_IN)
    if name in _RANDOM_METHODS and any(c.__module__ in ("_random", "random") for c in type(owner).__mro__):
        return ("draws from Python's random", USE_OURS)
    return None


def _goes_by_local_zone(owner: Any, name: str) -> bool:
    """Whether a method of the datetime module's goes by the zone of the process: always `astimezone`, which may be
    given none."""
    if isinstance(owner, type):
        return issubclass(owner, datetime.date)
    return isinstance(owner, datetime.datetime) and (name == "astimezone" or owner.tzinfo is None)


def called_deed(name: Any) -> tuple[str, str] | None:
    """The same for a method that an operator.methodcaller calls, of modules and classes that tell the time or draw
    bytes: it calls them in C, unseen."""
    if name in _CLOCK_METHODS:
        return ("reads the clock", PASS_IN)
    return next((deed for module in _CLOCKS if (deed := _BUILTINS.get((module, name))) and deed[1] != MOVE_OUT), None)


def caller_deed(value: Any) -> tuple[str, str] | None:
    """The same for an operator.methodcaller, and a function of another library; None for any other value."""
    if is_foreign(value):
        return _FOREIGN
    return called_deed(value.__reduce__()[1][0]) if type(value) is methodcaller else None


def is_foreign(value: Any) -> bool:
    """Whether a value is a function of another library that ctypes calls, unseen."""
    ctypes = sys.modules.get("_ctypes")
    return ctypes is not None and issubclass(type(value), ctypes.CFuncPtr)  # (a dead weak proxy is asked nothing)


def refusal(deed: tuple[str, str] | None, where: Location) -> SideEffectError | None:
    """The error for a deed, if it is one."""
    return None if deed is None else SideEffectError(where, *deed)


def container_deed(function: Any) -> str | None:
    """What a method does to its container, for instance 'adds to a list'; None if it does nothing."""
    owner = function.__self__
    if not isinstance(owner, _CONTAINERS):
        return None
    verb = _CHANGES.get(function.__name__)
    return None if verb is None else f"{verb} a {type(owner).__name__}"
