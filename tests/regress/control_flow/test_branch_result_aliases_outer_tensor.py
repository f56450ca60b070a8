"""A branch that the program chooses when it runs may leave a name on a tensor from outside or on one of its own: writes
to one of them are right where nobody sees the difference, and refused where somebody would."""

from __future__ import annotations

import pytest

import weft
from weft import Tensor
from weft.support.errors import CaptureError


def _unseen(x: Tensor, c: Tensor) -> Tensor:
    y = x * 1
    if bool(c):
        y = x * 2
    y += 1
    return y


def _copied(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1
    z = y.clone()
    if bool(c):
        z = x * 2
    z += 1
    return y, z


def _written_behind(x: Tensor, c: Tensor) -> Tensor:
    y = x * 1
    z = y
    if bool(c):
        z = x * 2
    out = z * 3
    y += 1
    return out + y


@pytest.mark.parametrize("function", [_unseen, _copied, _written_behind])
def test_what_nobody_sees_is_right(function) -> None:
    compiled = weft.compile(weft.jit.script(function))
    for flag in (True, False, True):
        x = weft.randn(3)
        expected, found = function(x, weft.tensor(flag)), compiled(x, weft.tensor(flag))
        for a, b in zip(expected, found, strict=True):
            assert a.tolist() == b.tolist()


def _seen_through_the_old(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1
    z = y
    if bool(c):
        z = x * 2
    z += 1
    return y, z


def _seen_through_the_new(x: Tensor, c: Tensor) -> Tensor:
    y = x * 1
    z = y
    if bool(c):
        z = x * 2
    y += 1
    return z * 2


def _written_argument(x: Tensor, c: Tensor) -> Tensor:
    z = x
    if bool(c):
        z = x * 2
    z += 1
    return z


def test_what_the_caller_would_see_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"test_branch_result_aliases_outer_tensor.*clone\(\)"):
        weft.compile(weft.jit.script(_seen_through_the_old))(weft.randn(3), weft.tensor(False))


@pytest.mark.parametrize("function", [_seen_through_the_new, _written_argument])
def test_what_the_script_would_see_runs_as_written(function) -> None:
    compiled = weft.compile(weft.jit.script(function))
    for flag in (True, False, True):
        x, y = weft.arange(3.0), weft.arange(3.0)
        assert compiled(x, weft.tensor(flag)).tolist() == function(y, weft.tensor(flag)).tolist()
        assert x.tolist() == y.tolist()
    assert "clone()" in compiled.misses[0]
