"""Random scripted Modules that change what they hold (random_states.py): over four calls with other sizes and numbers,
interpreted, stored and compiled ones give and leave what plain Python does, and no symbol stays on them.
"""

from __future__ import annotations

import io
import linecache
import random
from typing import Any

import numpy as np
import pytest

import weft
import weft.jit
from tests.agree.width import times
from tests.jit_programs.orders import agree
from tests.jit_programs.random_states import FIELDS, program
from tests.symbols_left import symbols_left


def made(text: str, name: str) -> Any:
    """The class of a program, whose source can be read."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "states"}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    return space["Net"]


def outcome(module: Any, call: Any, x: np.ndarray[Any, Any], k: int, s: float) -> list[Any]:
    """Results, gradients of the argument and the weight, and what the Module holds."""
    argument = weft.from_numpy(x).requires_grad_()
    module.w.grad = None
    results = call(argument, k, s)
    ((results[0] * results[0]).sum() + argument.sum() + module.w.sum()).backward()
    return [*results, argument.grad, module.w.grad, *[getattr(module, name) for name in FIELDS]]


def loaded(module: Any) -> Any:
    file = io.BytesIO()
    weft.jit.save(module, file)
    file.seek(0)
    return weft.jit.load(file)


@pytest.mark.parametrize("way", ["interpreted", "stored", "compiled"])
def test_they_hold_what_plain_modules_do(way: str, rng: np.random.Generator) -> None:
    for count in range(times(6)):
        text = program(random.Random(int(rng.integers(1 << 30))))
        net = made(text, f"<states {way} {count}>")
        plain, scripted = net(), weft.jit.script(net())
        module = loaded(scripted) if way == "stored" else scripted
        call = weft.compile(module) if way == "compiled" else module
        for _ in range(4):
            x, k = rng.uniform(-1, 1, (int(rng.integers(1, 4)), 3)), int(rng.integers(5))
            s = float(np.round(rng.uniform(-1, 1), 2))
            expected = outcome(plain, plain, x, k, s)
            assert agree(expected, outcome(module, call, x, k, s), exact=False), text
            assert not symbols_left(module), text
