# ruff: noqa: UP007, UP045  (programs as people write them)
"""Unions, Any, and what a question says about a name's type: as in Python, and refused where the type is still open."""

from __future__ import annotations

from typing import Any, Optional, Union

import pytest

import weft
import weft.jit
from weft import Tensor


def chosen(x: Union[int, str, list[int]]) -> int:
    if isinstance(x, (int, str)):
        if isinstance(x, int):
            return x
        return len(x)
    return x[0]


def negated(x: Union[int, str, float]) -> str:
    if not isinstance(x, int):
        return x if isinstance(x, str) else str(x)
    return str(x + 1)


def with_none(x: Optional[Union[int, str]]) -> str:
    if x is None:
        return "none"
    return "n" * x if isinstance(x, int) else x


def conjoined(x: Union[int, str]) -> bool:
    return isinstance(x, str) and len(x) > 2


def either_number(x: Union[int, float]) -> str:
    return "int" if isinstance(x, int) else "float"


def over_any(x: Any) -> str:
    if isinstance(x, int):
        return str(x + 1)
    if weft.jit.isinstance(x, list[int]):
        return str(sum(x))
    if isinstance(x, list):
        return "a list"
    if isinstance(x, str):
        return x
    return "other"


def over_elements(xs: list[Union[int, str]]) -> int:
    total = 0
    for x in xs:
        if isinstance(x, int):
            total += x
        else:
            total += len(x)
    return total


def reassigned(flag: bool) -> str:
    x: Union[int, str] = 1
    if flag:
        x = "b"
    return x if isinstance(x, str) else "one"


def mixed(n: int) -> list[Union[int, str]]:
    items: list[Union[int, str]] = [n, "a"]
    items.append(n + 1)
    items.append("c")
    return items


def looked_up(n: int):
    return {"a": n, "b": "c"}["b"], [n, 2.5]


CASES = [
    (chosen, [3, "abcd", [7, 1]]),
    (negated, [3, "x", 2.5]),
    (with_none, [None, 2, "q"]),
    (conjoined, [1, "ab", "abc"]),
    (either_number, [1, 1.0]),
    (over_any, [1, [1, 2], ["a"], "s", 2.5, None]),
    (over_elements, [[], [1, "ab", 3]]),
    (reassigned, [True, False]),
    (mixed, [4]),
    (looked_up, [4]),
]


@pytest.mark.parametrize(("function", "inputs"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_as_in_python(function, inputs) -> None:
    scripted = weft.jit.script(function)
    for x in inputs:
        assert scripted(x) == function(x)


def of_tensors(x: Union[Tensor, list[Tensor]]) -> Tensor:
    if isinstance(x, Tensor):
        return x * 2
    return x[0] + x[1]


def test_tensors_in_unions_keep_their_gradients(rng) -> None:
    a = weft.tensor(rng.standard_normal(3), requires_grad=True)
    scripted = weft.jit.script(of_tensors)
    scripted([a, a]).sum().backward()
    scripted(a).sum().backward()
    assert a.grad.tolist() == [4.0] * 3


def asserted(x: Union[int, str]) -> int:
    assert isinstance(x, int)
    return x + 1


def test_values_of_other_types_are_refused_when_called() -> None:
    scripted = weft.jit.script(asserted)
    assert scripted(2) == 3
    with pytest.raises(AssertionError):
        scripted("a")
    with pytest.raises(TypeError, match=r"expected a value of type Union\(int, str\)"):
        scripted(2.5)


OPEN = [
    ("def f(x: Union[int, str]) -> int:\n    return x + 1", "no such operation on"),
    ("def f(x: Union[int, str]) -> int:\n    if isinstance(x, int):\n        return 1\n    return x", "of type str"),
    ("def f():\n    x: Union[int, str] = 2.5\n    return 1", r"not of type Union\[int, str\]"),
    ("def f(x):\n    return [1, x]", "must be of one type"),
]


@pytest.mark.parametrize(("text", "message"), OPEN)
def test_what_no_question_settled_is_refused(text: str, message: str) -> None:
    with pytest.raises(weft.jit.CompileError, match=message):
        weft.jit.CompilationUnit(text)


def narrowed_and_back(o: Optional[int], n: int) -> int:
    o = n
    for i in range(n):
        if i == 1:
            o = None
    return 0 if o is None else o


def test_a_parameter_may_be_again_what_its_annotation_says() -> None:
    scripted = weft.jit.script(narrowed_and_back)
    for n in range(4):
        assert scripted(None, n) == narrowed_and_back(None, n)
