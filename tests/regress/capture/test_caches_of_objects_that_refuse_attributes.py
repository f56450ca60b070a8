"""What functools.lru_cache holds is looked through for symbols when a capture ends: an object there whose __getattr__
raises another error than AttributeError (an element type without tensors, too) ended the capture."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import weft


class Refusing:
    """Its attributes cannot be asked for."""

    __slots__ = ("held",)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


@pytest.mark.parametrize("value", [weft.uint16, weft.float8_e5m2, Refusing()], ids=["uint16", "float8", "object"])
def test_the_capture_asks_for_nothing(value: Any) -> None:
    @functools.cache
    def same(x: Any) -> Any:
        return x

    same(value)
    step = weft.compile(lambda x: x * 2 if same(value) is value else x, backend="interpret")
    assert step(weft.ones(2)).tolist() == [2.0, 2.0]
