"""Every switch of weft: words, typed, scoped. `with weft.knobs(debug="guards"): ...` or WEFT_DEBUG=guards;
`python -m weft knobs` prints them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from weft.support.errors import ValueProblem
from weft.support.observers import observers
from weft.support.warn import warn

_ON, _OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


@dataclass(frozen=True, eq=False, repr=False)
class Knob:
    """One switch: its name (WEFT_<NAME> in the environment), default, parser and explanation."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    doc: str
    instead: str = ""  # the variable of others that is read where its own is not set

    @property
    def variable(self) -> str:
        return f"WEFT_{self.name.upper()}"


def _words(text: str) -> frozenset[str]:
    return frozenset(w.strip() for w in text.split(",") if w.strip())


def _words_of(*allowed: str) -> Callable[[str], frozenset[str]]:
    def parse(text: str) -> frozenset[str]:
        words = _words(text)
        for word in sorted(words.difference(allowed)):
            raise ValueProblem(f"{word!r} is not one of {', '.join(allowed)}{nearest(word, allowed)}")
        return words

    return parse


def nearest(word: str, allowed: Iterable[str]) -> str:
    """A question about the allowed word that is spelled most alike, if there is one."""
    import difflib  # only a mistake needs it

    matches = difflib.get_close_matches(word, [name for name in allowed if name != word], 1)
    return f" (did you mean {matches[0]}?)" if matches else ""


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueProblem(f"{text!r} is not one of {', '.join(allowed)}{nearest(text, allowed)}")
        return text

    return parse


def _flag(text: str) -> bool:
    word = text.lower()
    if word not in (*_ON, *_OFF):
        raise ValueProblem(f"{text!r} is neither on (1, true, yes, on) nor off (0, false, no, off)")
    return word in _ON


def _level(text: str) -> int:
    if text not in ("0", "1", "2"):
        raise ValueProblem(f"{text!r} is not one of 0, 1, 2")
    return int(text)


def _threads(text: str) -> int:
    if text and (not text.isdigit() or int(text) < 1):
        raise ValueProblem(f"{text!r}: expected a positive integer")
    return int(text or 0)


def _fuel(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueProblem(f"{text!r} is no whole number") from None


KNOBS: dict[str, Knob] = {
    k.name: k
    for k in (
        Knob("backend", "llvm", _choice("llvm", "interpret", "numpy"),
             "how a compiled function runs: native code, the graph interpreter, or one NumPy kernel per node"),
        Knob("debug", frozenset(), _words_of(
            "guards", "passes", "captured", "opened", "optimized", "nests", "llvm", "code", "frames", "backwards",
            "nan",
        ),
             "what to look for or to print: nan (a program that gives a NaN or an infinity raises the line of the "
             "operator that made the first one), "
             "guards (each one that a call misses), passes (the graph after each that changes it), "
             "the stages captured, opened, "
             "optimized, nests and llvm, code (the Python functions that weft generates), frames (weft's own lines in "
             "tracebacks), and backwards (why compiled autograd captures one, and of which node each of its calls is; "
             "asked when a block of enable() begins)"),
        Knob("log", frozenset(), _words, "names of passes whose decisions are printed"),
        Knob("dump", "", str, "folder that receives every stage of every compilation as numbered files"),
        Knob(
            "override", "", str,
            "folder with edited stages, named as WEFT_DUMP names them, read back in place of the computed ones",
        ),
        Knob(
            "check", 0, _level,
            "1: verify the graph after every pass; 2: also run it before and after in the interpreter, on drawn inputs",
        ),
        Knob(
            "fuel", -1, _fuel,
            (
                "let only this many runs of passes change a graph, beside those that cannot be left out (bisect a "
                "miscompile); -1 is no limit"
            ),
        ),
        Knob("fold", "on", _choice("on", "off", "all"),
             "whether the iterations of a Python loop become a loop of the program: on where that saves work, off, or "
             "all, however short they are"),
        Knob("cpu", "native", str, "code generation target: native, x86-64-v3, x86-64, ..."),
        Knob("cache", "", str, "folder of the disk cache; `off` disables it; empty means the user's cache folder"),
        Knob(
            "num_threads", 0, _threads,
            "threads of a parallel region, the caller included; 0 is as many as there are cores. OMP_NUM_THREADS "
            "counts where this is not set, and weft.set_num_threads afterwards",
            instead="OMP_NUM_THREADS",
        ),
        Knob("pool", "auto", _choice("auto", "serial"), "worker pool: auto, or serial"),
        Knob("progress", "auto", _choice("auto", "on", "off"),
             "a line on stderr about what a compilation of more than a second is doing: "
             "auto shows it on terminals and in notebooks"),
        Knob("eager", False, _flag, "weft.compile returns the function as it is"),
    )
}


# What else reads the environment: ranks, ./dev, and the project's own tests and benchmarks.
_OTHER_VARIABLES = frozenset((
    "WEFT_VENV", "WEFT_TEST_SEED", "WEFT_AGREE", "WEFT_ACCEPT", "WEFT_BLESS",
    "WEFT_BENCH_TORCH", "WEFT_FAMILIES", "WEFT_BENCH_REAL_TIME", "WEFT_TORCH_PYTHON", "WEFT_RUN",
))


def _warn_of_unknown_variables() -> None:
    """One warning for each variable WEFT_... that nothing reads, which names the nearest that something does."""
    variables = {*(k.variable for k in KNOBS.values()), *_OTHER_VARIABLES}
    for name in sorted(os.environ):
        if name.startswith("WEFT_") and name not in variables:
            text = (
                f"weft: nothing reads the environment variable {name}{nearest(name, variables)}; "
                "`python -m weft knobs` lists the switches"
            )
            warn(text, RuntimeWarning)


class _State:
    """Current values; attribute reads are plain dictionary lookups."""

    backend: str
    debug: frozenset[str]
    log: frozenset[str]
    dump: str
    override: str
    check: int
    fuel: int
    fold: str
    cpu: str
    cache: str
    num_threads: int
    pool: str
    progress: str
    eager: bool

    def __init__(self) -> None:
        for knob in KNOBS.values():
            setattr(self, knob.name, _initial(knob))
        _warn_of_unknown_variables()


def _initial(knob: Knob) -> Any:
    text = os.environ.get(knob.variable)
    if text is None:
        return _of_others(knob)
    try:
        return knob.parse(text)
    except ValueError as problem:
        raise _in_one_line(
            ValueProblem(f"{knob.variable}={text}: {problem}; see `python -m weft knobs`")
        ) from None


def _of_others(knob: Knob) -> Any:
    """What a variable says that is not weft's, if it is one that weft understands; else the default."""
    try:
        return knob.parse(os.environ.get(knob.instead, "").split(",")[0]) if knob.instead else knob.default
    except ValueError:
        return knob.default


_FOLLOWERS: dict[str, list[Callable[[Any], None]]] = {}


class Knobs(_State):
    """`weft.knobs`: read a knob as an attribute, change several for a block by calling it."""

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        for tell in _FOLLOWERS.get(name, ()):
            tell(value)

    def follow(self, name: str, tell: Callable[[Any], None]) -> None:
        """Tell a function the value of a knob, now and whenever it changes."""
        _FOLLOWERS.setdefault(name, []).append(tell)
        tell(getattr(self, name))

    @contextlib.contextmanager
    def __call__(self, **changes: Any) -> Iterator[Knobs]:
        """Set knobs for a `with` block. Raises ValueProblem for an unknown knob or value."""
        previous: dict[str, Any] = {}
        for name in changes:
            if name not in KNOBS:
                raise ValueProblem(f"knobs: no knob named {name!r}; there are {', '.join(KNOBS)}")
            previous[name] = getattr(self, name)
        try:
            for name, value in changes.items():
                setattr(self, name, KNOBS[name].parse(value) if isinstance(value, str) else value)
            yield self
        finally:
            for name, value in previous.items():
                setattr(self, name, value)

    def describe(self) -> list[tuple[str, str, Any, str]]:
        """(environment variable, current value as text, default, explanation) of every knob."""
        return [(k.variable, _text(getattr(self, k.name)), _text(k.default), k.doc) for k in KNOBS.values()]


def _text(value: Any) -> str:
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)


def _in_one_line(problem: ValueProblem) -> ValueProblem:
    """A mistake in the environment, which Python then shows as one line: no line of a program has made it."""
    before = sys.excepthook

    def shown(kind: Any, error: BaseException, traceback: Any) -> None:
        if error is problem:
            print(f"weft: {problem}", file=sys.stderr)
        else:
            before(kind, error, traceback)

    sys.excepthook = shown
    return problem


knobs = Knobs()
knobs.follow("debug", lambda words: observers.look_for_nan("WEFT_DEBUG", "nan" in words))
