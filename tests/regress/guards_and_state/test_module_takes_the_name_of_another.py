"""A module without a file whose `__name__` becomes that of a module of Python's or weft's: its functions are still the
user's, and what they read was not guarded."""

from __future__ import annotations

import sys
import types

import pytest

import weft

SOURCE = """
class Object:
    def method(self, x): return x * len(__name__)
object_ = Object()
def inner(x): return x * len(__name__)
def by_function(x): return inner(x)
def by_method(x): return object_.method(x)
"""


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", ["by_function", "by_method"])
def test_each_name_counts(name: str, split: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("of_a_user")
    monkeypatch.setitem(sys.modules, "of_a_user", module)
    exec(SOURCE, vars(module))
    step = weft.compile(getattr(module, name), split=split)
    for text in ("of_a_user", "abc", "json", "weft.nn", "numpy", "__main__", "a_user", "abc"):
        module.__name__ = text
        assert step(weft.ones(1)).item() == len(text)
