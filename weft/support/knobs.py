"""Every switch of weft: words, typed, scoped. `with weft.knobs(debug="guards"): ...` or WEFT_DEBUG=guards; `python -m weft knobs` prints them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from weft.support.errors import ValueProblem


@dataclass(frozen=True, eq=False, repr=False)
class Knob:
    """One switch: its name (WEFT_<NAME> in the environment), default, parser and explanation."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    doc: str

    @property
    def variable(self) -> str:
        return f"WEFT_{self.name.upper()}"


def _words(text: str) -> frozenset[str]:
    return frozenset(w.strip() for w in text.split(",") if w.strip())


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueProblem(f"{text!r} is not one of {', '.join(allowed)}")
        return text

    return parse


def _flag(text: str) -> bool:
    return text.lower() not in ("", "0", "false", "no", "off")


def _fuel(text: str) -> int:
    return int(text)


KNOBS: dict[str, Knob] = {
    k.name: k
    for k in (
        Knob("backend", "llvm", _choice("llvm", "interpret", "numpy"),
             "how a compiled function runs: native code, the graph interpreter, or one NumPy kernel per node"),
        Knob("debug", frozenset(), _words, "what to print: guards (each one that a call misses), passes (the graph after each that changes it), and the stages captured, opened, "
             "optimized, nests and llvm"),
        Knob("log", frozenset(), _words, "names of passes whose decisions are printed"),
        Knob("dump", "", str, "folder that receives every stage of every compilation as numbered files"),
        Knob("override", "", str, "folder with edited stages, named as WEFT_DUMP names them, read back in place of the computed ones"),
        Knob("check", 0, int, "1: verify the graph after every pass; 2: also run it before and after in the interpreter, on drawn inputs"),
        Knob("fuel", -1, _fuel, "let only this many runs of passes change a graph, beside those that cannot be left out (bisect a miscompile); -1 is no limit"),
        Knob("cpu", "native", str, "code generation target: native, x86-64-v3, x86-64, ..."),
        Knob("cache", "", str, "folder of the disk cache; `off` disables it; empty means the user's cache folder"),
        Knob("pool", "auto", _choice("auto", "serial"), "worker pool: auto, or serial"),
        Knob("nan", False, _flag, "run what is compiled from now on node by node, and stop at the first operator that makes a NaN"),
        Knob("progress", "auto", _choice("auto", "on", "off"),
             "a line on stderr about what a compilation of more than two seconds is doing: auto shows it on a terminal only"),
        Knob("eager", False, _flag, "weft.compile returns the function as it is"),
    )
}


class _State:
    """Current values; attribute reads are plain dictionary lookups."""

    backend: str
    debug: frozenset[str]
    log: frozenset[str]
    dump: str
    override: str
    check: int
    fuel: int
    cpu: str
    cache: str
    pool: str
    nan: bool
    progress: str
    eager: bool

    def __init__(self) -> None:
        for knob in KNOBS.values():
            setattr(self, knob.name, _initial(knob))


def _initial(knob: Knob) -> Any:
    text = os.environ.get(knob.variable)
    if text is None:
        return knob.default
    try:
        return knob.parse(text)
    except ValueError as problem:
        raise ValueProblem(f"{knob.variable}={text}: {problem}; see `python -m weft knobs`") from None


class Knobs(_State):
    """`weft.knobs`: read a knob as an attribute, change several for a block by calling it."""

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


knobs = Knobs()
