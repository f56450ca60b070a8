"""Run kinds of state, each in processes of its own, since they change what all of Python shares: as they are written,
and as compiled functions. Reads their names and modes from standard input, writes what came of each, both as JSON."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import weft

CALLS = 4
SECONDS = 60
Kind = tuple[str, list[str]]  # a program, and what changes before each call but the first
Outcome = list[tuple[str, Any]]  # for each call: "gives", "refuses" or "raises", and what

NUMBERS = """
import itertools, collections, array, re, csv
import numpy as np
class Indexed:
    def __getitem__(self, i): return i + 1.0
class Counting:
    n = 0.0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        return self.n
def numbers():
    yield from (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
def number(v):
    v = v[-1] if isinstance(v, (tuple, list)) else v
    v = v.group() if isinstance(v, re.Match) else v
    return 1.0 if hasattr(v, "__next__") else float(ord(v)) if isinstance(v, str) else float(v)
"""
ITERATORS = (
    "itertools.count(1)", "iter([1.0, 2.0, 3.0, 4.0, 5.0])", "numbers()", "map(float, [1, 2, 3, 4, 5])",
    "iter(range(1, 9))", "zip([1.0, 2.0, 3.0, 4.0, 5.0])", "itertools.cycle([1.0, 2.0, 3.0])", "enumerate('abcdef')",
    "reversed([1.0, 2.0, 3.0, 4.0, 5.0])", "iter({1.0: 0, 2.0: 0, 3.0: 0, 4.0: 0, 5.0: 0})",
    "iter({1.0, 2.0, 3.0, 4.0, 5.0})", "iter('12345')", "filter(None, [1.0, 2.0, 3.0, 4.0, 5.0])",
    "itertools.chain([1.0, 2.0], [3.0, 4.0, 5.0])", "itertools.islice([1.0, 2.0, 3.0, 4.0, 5.0], 5)",
    "itertools.accumulate([1.0, 2.0, 3.0, 4.0, 5.0])", "itertools.product([1.0, 2.0], [3.0, 4.0, 5.0])",
    "itertools.permutations([1.0, 2.0, 3.0])", "itertools.tee([1.0, 2.0, 3.0, 4.0, 5.0])[0]",
    "iter(numbers().__next__, None)", "iter(collections.deque([1.0, 2.0, 3.0, 4.0, 5.0]))",
    "itertools.starmap(float, [(1,), (2,), (3,), (4,), (5,)])", "itertools.groupby([1.0, 2.0, 3.0, 4.0, 5.0])",
    "iter(b'abcdef')", "iter(array.array('d', [1.0, 2.0, 3.0, 4.0, 5.0]))", "iter(np.arange(1.0, 9.0))",
    "np.arange(1.0, 9.0).flat", "np.ndenumerate(np.arange(1.0, 9.0))", "iter(memoryview(b'abcdef'))",
    "iter(Indexed())", "re.finditer('.', '12345')", "iter({1.0: 0, 2.0: 0, 3.0: 0, 4.0: 0}.items())", "Counting()",
    "itertools.pairwise([1.0, 2.0, 3.0, 4.0, 5.0])", "itertools.zip_longest([1.0, 2.0, 3.0, 4.0, 5.0])",
    "itertools.compress([1.0, 2.0, 3.0, 4.0, 5.0], [1] * 5)", "csv.reader(['1', '2', '3', '4', '5'])",
)
DRAWS = {
    "next": "it = {}\ndef step(x): return x * number(next(it))",
    "its bound __next__": "it = ({}).__next__\ndef step(x): return x * number(it())",
    "__next__": "it = {}\ndef step(x): return x * number(it.__next__())",
    "a closure": "def make(it):\n    def step(x): return x * number(next(it))\n    return step\nstep = make({})",
    "a loop": "it = {}\ndef step(x):\n    for v in it: return x * number(v)",
    "a list": "held = [{}]\ndef step(x): return x * number(next(held[0]))",
    "a partial": "import functools\nit = functools.partial(next, {})\ndef step(x): return x * number(it())",
}


def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    found: dict[str, Kind] = {}
    for block in Path(__file__).with_name("kinds_of_state.txt").read_text(encoding="utf-8").split("\n== ")[1:]:
        name, *lines = block.splitlines()
        changes = [line[3:] for line in lines if line.startswith("-- ")]
        found[name] = ("\n".join(line for line in lines if not line.startswith("-- ")), changes)
    for iterator in ITERATORS:
        for way, program in DRAWS.items():
            found[f"{iterator} by {way}"] = (NUMBERS + program.format(iterator), [])
    return found


def outcome(kind: Kind, mode: str) -> Outcome:
    """What each call gives: "eager", as a "compile"d function, "within" another one, or "split". Raises nothing:
    ("breaks", why) where the program itself, or a change, does not work."""
    program, changes = kind
    module = sys.modules["zmod_user"] = types.ModuleType("zmod_user")
    scope = module.__dict__
    scope["weft"] = weft
    given: Outcome = []
    try:
        exec(program, scope)
        if mode != "eager":
            step = scope["step"] = weft.compile(scope["step"], backend="interpret", split=mode == "split")
            if mode == "within":
                scope["step"] = weft.compile(lambda x: step(x), backend="interpret")
        for change in ["", *changes, *["pass"] * CALLS][:CALLS]:
            exec(change, scope)
            given.append(_call(scope["step"]))
    except BaseException as error:
        return [("breaks", f"{type(error).__name__}: {error}")]
    return given


def _call(step: Any) -> tuple[str, Any]:
    try:
        result = step(weft.arange(1.0, 4.0) / 2)
    except weft.WeftError as error:
        return "refuses", f"{type(error).__name__}: {error}"
    except Exception as error:
        return "raises", f"{type(error).__name__}: {error}"
    return "gives", [round(v, 5) for v in result.detach().double().flatten().tolist()]


def apart(kind: Kind, mode: str) -> Outcome:
    """The outcome in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(outcome(kind, mode), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else [("breaks", "the process ended")]


def verdict(eager: Outcome, again: Outcome, compiled: Outcome) -> str:
    """'' where a compiled function follows, or refuses; else what is wrong."""
    if eager[0][0] == "breaks":  # not there in this version of Python
        return ""
    if compiled[0][0] == "breaks":
        return f"{compiled[0][1]}"
    if any(c[0] == "raises" and e[0] != "raises" for e, c in zip(eager, compiled, strict=True)):
        return f"raises {compiled}"
    if any(c[0] == "refuses" for c in compiled):
        return ""
    if eager == again:
        return "" if eager == compiled else f"gives {compiled} for {eager}"
    kept = len({str(c) for c in compiled}) == 1 < len({str(e) for e in eager})
    return f"always gives {compiled[0]}" if kept else ""


def main() -> None:
    warnings.simplefilter("ignore")
    known, found = kinds(), {}
    for name, modes in json.load(sys.stdin).items():
        eager = apart(known[name], "eager")
        compiled = {mode: apart(known[name], mode) for mode in modes}
        again = apart(known[name], "eager")  # behind them: the machine's load may have changed meanwhile
        found[name] = {mode: verdict(eager, again, compiled[mode]) for mode in modes}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
