"""Threads that call one compiled function with other numbers: each call has its own."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import weft


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_each_call_has_its_own_numbers(backend: str) -> None:
    @weft.compile(backend=backend)
    def step(x: Any, k: float, n: int) -> Any:
        return (x * k + n).sum(), k * 2

    for k in (1.0, 2.0):
        step(weft.ones(50, dtype=weft.float64), k, int(k))
    wrong: list[Any] = []

    def call(thread: int) -> None:
        for i in range(150):
            k = thread * 1000.0 + i
            found, double = step(weft.ones(40 + thread, dtype=weft.float64), k, i)
            if found.item() != (k + i) * (40 + thread) or double != 2 * k:
                wrong.append((thread, i, found, double))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=call, args=(t,)) for t in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong
