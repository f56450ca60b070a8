"""Lists and dicts that a scripted function gets are copies, as in TorchScript: the caller's stay as they are, and two
arguments are two lists. What it returns is its own. Between scripted functions nothing is copied."""

from __future__ import annotations

from typing import Any

import pytest

import weft


def appended(x: list[int]) -> list[int]:
    x.append(5)
    return x


def keyed(d: dict[str, list[int]]) -> int:
    d["new"] = [1]
    d["old"].append(2)
    return len(d["old"]) + len(d)


def nested(x: list[list[int]], y: tuple[list[int], int]) -> int:
    x[0].append(1)
    y[0].append(2)
    return len(x[0]) + len(y[0])


def summed(x: list[weft.Tensor]) -> weft.Tensor:
    x.append(x[0] * 2)
    x[0].add_(1)
    return x[1]


def popped(x: list[float]) -> float:
    x.sort()
    return x.pop()


@pytest.mark.parametrize("function, args, expected", [
    (appended, ([1, 2],), [1, 2, 5]), (keyed, ({"old": [1]},), 4), (nested, ([[1]], ([3], 4)), 4),
    (popped, ([3.0, 1.0],), 3.0),
])
@pytest.mark.parametrize("calls", [1, 4])
def test_they_stay_as_they_are(function: Any, args: Any, expected: Any, calls: int) -> None:
    scripted, before = weft.jit.script(function), repr(args)
    for _ in range(calls):
        assert scripted(*args) == expected
        assert repr(args) == before


def test_tensors_within_are_the_callers() -> None:
    x = [weft.ones(2)]
    assert weft.jit.script(summed)(x).tolist() == [2, 2]
    assert len(x) == 1 and x[0].tolist() == [2, 2]


def test_two_arguments_are_two_lists() -> None:
    @weft.jit.script
    def lengths(x: list[int], y: list[int]) -> int:
        x.append(1)
        return len(y)

    shared = [0]
    assert lengths(shared, shared) == 1


def test_scripted_functions_share_lists() -> None:
    inner = weft.jit.script(appended)

    @weft.jit.script
    def outer(x: list[int]) -> int:
        inner(x)
        inner(x)
        return len(x)

    x = [0]
    assert outer(x) == 3 and x == [0]


def test_methods_and_compiled_callers() -> None:
    class Kept(weft.nn.Module):
        def forward(self, x: list[weft.Tensor], n: int) -> weft.Tensor:
            for i in range(n):
                x.append(x[i] * 2)
            return x[len(x) - 1]

    scripted, x = weft.jit.script(Kept()), [weft.ones(2)]
    assert scripted(x, 3).tolist() == [8, 8] and len(x) == 1

    def caller(t: weft.Tensor) -> tuple[weft.Tensor, int]:
        rows = [t]
        return scripted(rows, 2), len(rows)

    compiled = weft.compile(caller)
    for _ in range(2):
        y, n = compiled(weft.ones(2))
        assert y.tolist() == [4, 4] and n == 1
