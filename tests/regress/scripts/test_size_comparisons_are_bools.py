"""What a script asks of sizes under a capture (`x.size(0) == n`) is a bool like any other: it is counted, compared,
printed, held by lists, given to Python and returned.
"""

from __future__ import annotations

from typing import Any

import pytest

import weft
import weft.jit
from weft import Tensor

seen: list[Any] = []


@weft.jit.ignore
def note(asked: bool, several: tuple[bool, int]) -> int:
    seen.append((asked, several))
    return int(asked)


def counted(x: Tensor, n: int) -> tuple[Tensor, int, float]:
    a = x.size(0) > 3
    asked = [a, n != 3, x.size(0) == n]
    k = int(a) + sum([int(q) for q in asked]) + sum(asked) + asked.count(True)
    if (n > 2) == a:
        k += 10
    return x * k, k, float(n > 1) * 2.0 + (n > 1)


def compared(x: Tensor, n: int) -> tuple[bool, bool, bool, bool, str]:
    a, b = x.size(0) > 3, n > 2
    return a == b, a != b, (a & b) | (n == 1), [a, b] == [True, True], f"{a} {b} {max(a, b)}"


def held(x: Tensor, n: int) -> tuple[bool, list[bool], dict[str, bool], tuple[bool, int]]:
    asked = {"a": x.size(0) == n}
    return not asked["a"], [n > 1, any([n > 1, n > 2])], asked, (n < x.size(0), n)


def looked_at(x: Tensor, n: int) -> tuple[int, int, bool, list[bool], bool, int, list[bool]]:
    asked = [x.size(0) > 3, n != 3, x.size(0) == n, True, False]
    there, gone = asked.index(True), asked.index(False)
    rest = asked[:]
    rest.remove(True)
    rest.sort()
    return there, gone, False in asked[:3], sorted(asked), max(asked[:3]), asked[1:3].count(False), rest


def printed(x: Tensor, n: int) -> Tensor:
    print(x.size(0) == n, [n > 2])
    return x * note(x.size(0) == n, (n > 2, n))


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value


@pytest.mark.parametrize("function", [counted, compared, held, looked_at, printed])
def test_answers(function: Any, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = weft.compile(weft.jit.script(function))
    for n in (1, 3, 5):
        for size in (2, 3, 5):
            x = weft.arange(float(size))
            seen.clear()
            wanted, texts, noted = function(x, n), capsys.readouterr().out, list(seen)
            seen.clear()
            found = compiled(x, n)
            if isinstance(wanted, Tensor):
                found, wanted = (found,), (wanted,)
            assert [plain(v) for v in found] == [plain(v) for v in wanted]
            assert capsys.readouterr().out == texts and seen[-1:] == noted
