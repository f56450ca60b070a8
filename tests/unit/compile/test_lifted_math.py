"""math and len of lifted numbers: recorded wherever the captured code calls them, while Python's own modules stay as
they are, for this thread and others."""

from __future__ import annotations

import ast
import builtins
import cProfile
import math
import sys
import threading
import time
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.guards.rewrite import original, with_substitutes
from weft.record.numbers.lifted_math import LIFTED


class State:
    def __init__(self) -> None:
        self.n = 0


def scale(n: float) -> float:
    return 0.5 * (1 + math.cos(n / 10))


class Schedule:
    def __init__(self) -> None:
        self.factor = partial(scale)

    def __call__(self, n: float) -> float:
        return self.factor(n) + self.root(n)

    def root(self, n: float) -> float:
        return sqrt(n)


class Net(weft.nn.Module):
    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return x.sum(0) / len(x)


def _forgiving(n: float) -> float:
    try:
        return math.exp(-n)
    except Exception:
        return 99.0


def _renaming(n: float) -> float:
    try:
        return math.exp(-n)
    except Exception as problem:
        raise RuntimeError("no exponential") from problem


def _local(n: float) -> float:
    import math as m
    return sum([m.sin(n + k) for k in range(2)])


USES = {
    "helper": scale, "object": Schedule(), "method": Schedule().root, "caught": _forgiving, "renamed": _renaming,
    "import": _local, "sorted": lambda n: sorted([1.0, 2.0], key=lambda k: k * len([1]))[0] * math.log(n),
    "map": lambda n: sum(map(math.tanh, [n, n / 2])),
}


@pytest.mark.parametrize("name", USES)
def test_one_capture_for_all_values(name: str) -> None:
    use, state, eager = USES[name], State(), State()

    def step(x: weft.Tensor, state: State) -> weft.Tensor:
        state.n += 1
        return x * use(state.n)

    compiled = weft.compile(lambda x: step(x, state))
    weft.counters.reset()
    for _ in range(5):
        np.testing.assert_allclose(
            compiled(weft.ones(2, dtype=weft.float64)).tolist(), step(weft.ones(2, dtype=weft.float64), eager).tolist(),
            rtol=1e-14,
        )
    assert weft.counters.captures == 1, compiled.misses


def test_lengths_stay_symbols_in_modules() -> None:
    net = Net()
    compiled = weft.compile(net)
    weft.counters.reset()
    for rows in (3, 5, 8):
        x = weft.randn(rows, 2)
        np.testing.assert_allclose(compiled(x).tolist(), net(x).tolist(), rtol=1e-6)
    assert weft.counters.captures == 1


def test_code_is_given_back_also_after_a_failure() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        scale(len(x) / 2)
        raise KeyError("of the user's")

    codes = step.__code__, scale.__code__
    with pytest.raises(KeyError, match="of the user's"):
        weft.compile(step)(weft.ones(3))
    assert (step.__code__, scale.__code__) == codes
    assert step.__code__ is codes[0]
    assert scale.__code__ is codes[1]


def test_python_is_as_ever_for_other_threads() -> None:
    seen, going = {"wrong": 0, "right": 0}, threading.Event()

    def look() -> None:
        while not going.is_set():
            is_right = math.cos is _COS and builtins.len is _LEN and scale(0.25) == _SCALED
            seen["right" if is_right else "wrong"] += 1
            time.sleep(0)  # looks often, and does not keep the interpreter's lock

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(3):
            weft.compile(lambda x: x * scale(x.shape[0]) / len(x))(weft.ones(3))
    finally:
        going.set()
        thread.join()
    assert seen["right"]
    assert not seen["wrong"]


_COS, _LEN, _SCALED = math.cos, len, scale(0.25)


def test_other_programs_on_the_same_function_hold_during_a_capture() -> None:
    other = weft.compile(lambda x: x * scale(2.0))
    other(weft.ones(2))
    with with_substitutes([scale], LIFTED):
        assert original(scale.__code__) is not scale.__code__
        other(weft.ones(2))
    assert not other.misses


def test_profilers_and_tracers_go_on() -> None:
    profile, lines = cProfile.Profile(), []

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_name == "scale" and event == "line":
            lines.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        weft.compile(lambda x: x * scale(x.shape[0]))(weft.ones(3))
    finally:
        sys.settrace(before)
    assert scale.__code__.co_firstlineno + 1 in lines
    profile.enable()
    weft.compile(lambda x: x * scale(x.shape[0]))(weft.ones(3))
    scale(0.5)
    profile.disable()
    assert any(getattr(entry.code, "co_name", "") == "scale" for entry in profile.getstats())


def _exchanged(tree: ast.AST) -> list[str]:
    """Assignments to attributes of math or builtins, also by setattr or into their dictionaries."""
    found = []
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target] if isinstance(
            node, (ast.AugAssign, ast.AnnAssign)
        ) else []
        found += [ast.unparse(t) for t in targets if ast.unparse(t).startswith(("math.", "builtins.", "vars(math"))]
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr") and node.args:
            found += [ast.unparse(node)] * (ast.unparse(node.args[0]) in ("math", "builtins"))
    return found


def test_nothing_of_pythons_is_assigned_to() -> None:
    assert _exchanged(ast.parse("math.cos = f\nsetattr(builtins, 'len', g)\nbuiltins.len += 1")) != []
    root = Path(weft.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    found = {
        path: _exchanged(ast.parse(text)) for path, text in texts.items() if "math" in text or "builtins" in text
    }
    assert not {path: lines for path, lines in found.items() if lines}
