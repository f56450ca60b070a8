"""copy.copy of a compiled function looked for its module by an import: ModuleNotFoundError where the function says a
module that nobody can import, as code that is executed with names of its own does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import weft


@pytest.mark.parametrize("options", [{}, {"split": True}])
def test_a_copy_captures_anew(options: dict[str, Any]) -> None:
    names: dict[str, Any] = {"__name__": "a_module_that_is_not_there"}
    exec("def doubled(x):\n    return x * 2", names)
    compiled = weft.compile(names["doubled"], **options)
    for again in (copy.copy(compiled), copy.deepcopy(compiled)):
        assert again is not compiled and again(weft.ones(2)).tolist() == [2, 2]
