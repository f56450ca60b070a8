"""Writes through aliases that autograd does not see, in functions without writes: detached views, `.data`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.func import functionalize


def through_a_detached_view(x: Any) -> Any:
    b = x * 1
    b[1:].detach().mul_(3)
    return b


def through_data(x: Any) -> Any:
    b = x * 1
    b.data.mul_(3)
    return b


def other_data(x: Any) -> Any:
    b = x * 1
    b.data = b.data * 2
    return b


@pytest.mark.parametrize("function", [through_a_detached_view, through_data, other_data])
def test_no_write_is_lost(function: Callable[[Any], Any]) -> None:
    x = weft.arange(float(weft.randint(2, 9, ()).item())) + 1
    for made in (functionalize(function), weft.compile(function), weft.compile(functionalize(function))):
        assert made(x).tolist() == function(x).tolist()
