"""A function that ctypes calls draws and counts as nobody sees: its first result was kept by the program in silence."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import pytest

import weft

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the library of C under its name there")


def library() -> Any:
    libc = ctypes.CDLL(None)
    libc.srand(7)
    return libc


def by_name(libc: Any) -> Callable[..., Any]:
    rand = libc.rand
    return lambda x: x * float(rand())


def by_library(libc: Any) -> Callable[..., Any]:
    return lambda x: x * float(libc.rand())  # which has not made the function yet


@pytest.mark.parametrize("make", [by_name, by_library])
def test_are_refused_and_called_anew_in_split(make: Callable[..., Any]) -> None:
    x, outcomes = weft.ones((), dtype=weft.float64), []
    for options in (None, {"split": True}):
        step = make(library())
        run = step if options is None else weft.compile(step, backend="interpret", **options)
        outcomes.append([run(x).item() for _ in range(4)])
    assert outcomes[0] == outcomes[1] and len(set(outcomes[0])) > 1
    with pytest.raises(weft.errors.CaptureError, match="calls a function of another library"):
        weft.compile(make(library()), backend="interpret")(x)
