"""A compiled function that adds to a list kept the list for ever, to know it by its address: with it what it holds,
and, where instances share programs of a compiled method, the instances."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import CaptureError


def add_to_argument(rows: list[Any], x: Any) -> Any:
    rows.append(x * 2)
    return x + len(rows)


class Logger:
    def __init__(self) -> None:
        self.rows: list[Any] = [weft.ones(2)]

    def add(self, x: Any) -> Any:
        self.rows.append(x * 2)
        return x + len(self.rows)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("form", ["argument", "instance"])
def test_lists_go_with_their_owner(form: str, split: bool, rng: np.random.Generator) -> None:
    size = int(rng.integers(2, 6))
    if form == "instance":
        Logger.add = weft.compile(Logger.__dict__["add"], split=split)  # type: ignore[method-assign]
    function = weft.compile(add_to_argument, split=split)
    refs = []
    for call in range(6):
        x = weft.from_numpy(rng.uniform(-1, 1, size).astype(np.float32))
        logger = Logger()
        refs.append(weakref.ref(logger.rows[0]))
        y = logger.add(x) if form == "instance" else function(logger.rows, x)
        np.testing.assert_allclose(y.numpy(), x.numpy() + 2, 1e-6, err_msg=f"call {call}")
        np.testing.assert_allclose(logger.rows[1].numpy(), x.numpy() * 2, 1e-6)
    del logger, x, y
    gc.collect()
    assert sum(ref() is not None for ref in refs) == 0


def test_many_lists_on_one_line_are_no_list_that_grows() -> None:
    logs = [[0] * n for n in range(40)]

    @weft.compile
    def step(x: Any) -> Any:
        for rows in logs:
            rows.append(x)
        return x + sum(map(len, logs))

    assert step(weft.ones(1)).item() == 1 + sum(range(41))
    with pytest.raises(CaptureError, match="keep the last few"):
        for _ in range(40):
            step(weft.ones(1))
