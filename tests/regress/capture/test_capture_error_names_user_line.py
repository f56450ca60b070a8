"""Whatever weft raises while a function is captured begins with the user's line, also where no operator was reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

W = weft.ones(3, requires_grad=True)
DEEDS: dict[str, Callable[[weft.Tensor], Any]] = {
    "index": lambda x: x[5],
    "device": lambda x: x.to("cuda"),
    "no graph": lambda x: x.sum().backward(),
    "not a scalar": lambda x: (W * x).backward(),
    "twice": lambda x: [loss.backward() for loss in [(W * x).exp().sum()] * 2],
    "shapes": lambda x: x @ weft.ones(4),
    "length": lambda x: list(range(len(x[x > 0]))),
    "order": lambda x: sorted([x.t(), x]),
}


@pytest.mark.parametrize("name", DEEDS)
def test_the_line_comes_first(name: str) -> None:
    with pytest.raises(weft.WeftError, match=r"^test_capture_error_names_user_line.py:\d+: .") as caught:
        weft.compile(DEEDS[name])(weft.ones(2, 3))
    assert str(caught.value).count("test_capture_error_names_user_line.py") == 1
    assert W.grad is None
