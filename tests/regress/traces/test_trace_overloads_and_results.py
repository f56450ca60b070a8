"""A trace chose the overload `var(x, dim=False)` for `var(x, False)`, another result in silence;
`nonzero(as_tuple=False)` gave a list of rows in traces and scripts; and `lu(x, get_infos=True)` had one result too few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

CASES: dict[str, Callable[[weft.Tensor], Any]] = {
    "var": lambda x: weft.var(x, False), "std, method": lambda x: x.std(True),
    "var_mean": lambda x: weft.var_mean(x, False), "std_mean": lambda x: weft.std_mean(x, True),
    "dim": lambda x: x.var(0, False), "dims": lambda x: x.std((0, 1), False),
    "places": lambda x: weft.nonzero(x > 0, as_tuple=False), "by dim": lambda x: (x > 0).nonzero(as_tuple=True),
    "places, method": lambda x: (x > 0).nonzero(as_tuple=False),
    "of a number": lambda x: x[0, 0].nonzero(as_tuple=False),
    "lu": weft.lu, "lu with infos": lambda x: weft.lu(x, get_infos=True), "method": lambda x: x.lu(True, True),
}


@pytest.mark.parametrize("name", CASES)
def test_a_trace_gives_what_the_function_gives(name: str, rng: Any) -> None:
    function = CASES[name]
    x = weft.from_numpy(rng.normal(size=(4, 4)))
    traced = weft.jit.trace(function, (x,))
    for value in (x, x.flip(0) + 1):
        ours, theirs = function(value), traced(value)
        listed = (ours, theirs) if isinstance(ours, tuple) else ((ours,), (theirs,))
        assert len(listed[0]) == len(listed[1])
        for a, b in zip(*listed, strict=True):
            assert a.shape == b.shape and weft.allclose(a, b)


def test_a_script_has_the_same_overload() -> None:
    text = "def f(x):\n    return weft.var(x, False), x.std(True), weft.var(x, 1, False), x.nonzero(as_tuple=False) + 1"
    scripted = weft.jit.CompilationUnit(text).f
    x = weft.randn(3, 5)
    wanted = weft.var(x, False), x.std(True), weft.var(x, 1, False), x.nonzero() + 1
    for a, b in zip(scripted(x), wanted, strict=True):
        assert weft.allclose(a, b)
