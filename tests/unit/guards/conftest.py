"""User programs for the guards: source with names and numbers drawn for the run,
executed under a file name of its own."""

from __future__ import annotations

import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

Program = Callable[..., types.ModuleType]


@pytest.fixture
def program(rng: np.random.Generator) -> Iterator[Program]:
    """program(source, **names) -> a module that ran `source`; its file is `user_<number>.py`,
    and `import` finds it by its name."""
    made: list[str] = []

    def make(source: str, **names: Any) -> types.ModuleType:
        name = f"user_{rng.integers(10**9)}_{len(made)}"
        text = textwrap.dedent(source)
        module = types.ModuleType(name)
        module.__dict__.update(names)
        sys.modules[name] = module
        made.append(name)
        linecache.cache[f"{name}.py"] = (len(text), None, text.splitlines(True), f"{name}.py")
        exec(compile(text, f"{name}.py", "exec"), module.__dict__)
        return module

    yield make
    for name in made:
        del sys.modules[name]


@pytest.fixture
def number(rng: np.random.Generator) -> Callable[[], float]:
    """A new float each time, never equal to an earlier one."""
    start = float(rng.uniform(1, 2))
    count = iter(range(1000))
    return lambda: start + next(count) * 0.37


@pytest.fixture
def line() -> Callable[[types.ModuleType, str], int]:
    """line(module, text): the number of the one line of the program that contains `text`."""

    def find(module: types.ModuleType, text: str) -> int:
        source = linecache.cache[f"{module.__name__}.py"][2]
        (found,) = [i for i, each in enumerate(source, 1) if text in each]
        return found

    return find
