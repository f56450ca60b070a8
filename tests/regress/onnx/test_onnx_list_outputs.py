"""Lists whose length the model finds: exported as sequences of ONNX."""

from __future__ import annotations

from typing import Dict, List  # noqa: UP035

import pytest

import weft
import weft.jit
import weft.onnx
from tests.regress.onnx.test_onnx_dynamic_axes import check
from tests.unit.onnx.models import kinds
from weft import Tensor


def filled(x: Tensor):
    rows: List[Tensor] = []  # noqa: UP006
    total = weft.zeros(3)
    for i in range(x.size(0)):
        total = total * 0.5 + x[i]
        rows.append(total)
    return weft.stack(rows), weft.stack(rows[1:]), rows[-1]


def by_value(x: Tensor):
    rows = [x[0]]
    for i in range(x.size(0)):
        if x[i].sum() > 0:
            rows.append(x[i])
        else:
            rows.extend([x[i] * 0, -x[i]])
    return weft.stack(rows), weft.tensor(0) + len(rows)


def stacked(x: Tensor):
    waiting: List[Tensor] = []  # noqa: UP006
    for i in range(x.size(0)):
        if len(waiting) > 0 and x[i, 0] < 0:
            waiting.append(waiting.pop() * x[i])
        else:
            waiting.append(x[i])
    result = weft.zeros(3)
    while len(waiting) > 0:
        result = result * 2 + waiting.pop()
    return result


def replaced(x: Tensor):
    rows: List[Tensor] = []  # noqa: UP006
    for i in range(x.size(0)):
        rows.insert(0, x[i])
    for i in range(1, len(rows)):
        rows[i] = rows[i] + rows[i - 1]
    rows[-1] = rows[-1] * 10
    return weft.stack(list(reversed(rows)), 1), weft.cat(rows + rows)


def numbers(x: Tensor):
    kept: List[int] = []  # noqa: UP006
    before, ids = -1, x.argmax(1)
    for i in range(ids.size(0)):
        label = int(ids[i])
        if label != before:
            kept.append(label)
        before = label
    total = 0
    for label in kept:
        total = total * 3 + label
    return weft.tensor(0) + total


def states(x: Tensor):
    """The list keeps its length: its elements are carried."""
    hidden: Dict[str, Tensor] = {"a": x[0], "b": x[0] * 0}  # noqa: UP006
    pair = [x[0], x[0] * 2]
    while bool(hidden["a"].abs().sum() > 1):
        hidden["a"] = hidden["a"] / 2
        pair[1] = pair[1] + hidden["a"]
    return hidden["a"], hidden["b"], pair[0], pair[1]


def joined_in_branch(x: Tensor):
    parts = [x]
    if x.sum() > 0:
        parts.append(x * 2)
    else:
        parts += [x - 1, x - 2]
    return weft.cat(parts)


@pytest.mark.parametrize(
    "function", [filled, by_value, stacked, replaced, numbers, states, joined_in_branch], ids=lambda f: f.__name__
)
def test_loops_fill_and_empty_lists(function):
    calls = [(weft.randn(n, 3),) for n in (4, 2, 7)]
    found = kinds(check(weft.jit.script(function), {"x": {0: "rows"}}, *calls).graph)
    assert found["Loop"] or function is joined_in_branch


def test_a_list_is_an_output():
    def parts(x: Tensor):
        found: List[Tensor] = []  # noqa: UP006
        for i in range(x.size(0)):
            found.append(x[:i])
        return found

    check(weft.jit.script(parts), {"x": [0]}, (weft.randn(2, 3),), (weft.randn(4, 3),))
