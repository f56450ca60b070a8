"""Operators that give one tensor more for each flag that is set: programs know how many, by functions and methods, in
files and in traces.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
import weft.jit
from weft import Tensor


def alone(x: Tensor) -> Tensor:
    return weft.unique(x) + x.unique(return_inverse=False)


def with_places(x: Tensor) -> tuple[Tensor, Tensor]:
    values, places = weft.unique(x, return_inverse=True)
    return values, places


def with_all(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    values, places, counts = x.unique(sorted=True, return_inverse=True, return_counts=True)
    return values * 2, places, counts


def along(x: Tensor) -> Tensor:
    found = weft.unique(weft.stack([x, x]), True, False, True, dim=0)
    return found[1]


def runs(x: Tensor) -> tuple[Tensor, Tensor]:
    values, counts = weft.unique_consecutive(x, return_counts=True)
    return values, counts


@pytest.mark.parametrize("function", [alone, with_places, with_all, along, runs])
def test_as_many_results_as_flags(function: Callable[[Tensor], Any], tmp_path: Path) -> None:
    x = weft.tensor([3, 1, 2, 1, 3])

    def lists(found: Any) -> list[Any]:
        return [t.tolist() for t in (found if isinstance(found, tuple) else (found,))]

    wanted = lists(function(x))
    scripted = weft.jit.script(function)
    scripted.save(tmp_path / "program.weft")
    traced = weft.jit.trace(function, (x,))
    for call in (scripted, weft.jit.load(tmp_path / "program.weft"), weft.compile(scripted), traced):
        assert lists(call(x)) == wanted


def test_a_flag_must_be_known() -> None:
    with pytest.raises(weft.jit.CompileError, match="return_counts must be known while compiling"):
        weft.jit.CompilationUnit("def f(x, c: bool):\n    return weft.unique(x, return_counts=c)")


def test_the_function_itself_is_a_program() -> None:
    assert weft.jit.script(weft.unique)(weft.tensor([2, 1, 2])).tolist() == [1, 2]
