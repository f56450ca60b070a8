"""narrow and tensor_split take a tensor for a number, and ask it: under weft.compile the function runs as it is
written, where it was refused for a question that its own lines do not ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft


def _narrow(x: Any, at: Any) -> Any:
    y = x * 2
    y.narrow(0, at, 1).add_(10)
    return y, y.narrow(0, at, 2) + 1


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "narrow": _narrow,
    "sections": lambda x, at: tuple(part * 2 for part in weft.tensor_split(x, at + 1)),
    "indices": lambda x, at: tuple(part + 1 for part in weft.tensor_split(x, weft.stack([at, at + 2]))),
}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_in_place_of_a_number(name: str, split: bool) -> None:
    step = weft.compile(CALLS[name], split=split)
    for at in (1, 3, 2):
        expected, found = [f(weft.arange(6.0), weft.tensor(at)) for f in (CALLS[name], step)]
        assert [t.tolist() for t in found] == [t.tolist() for t in expected]
    if not split:
        (miss,) = step.misses
        assert "now runs as it is written" in miss and "test_operator_reads_tensor_as_number.py" in miss


def test_gradients_go_through() -> None:
    @weft.compile
    def loss(x: Any, at: Any) -> Any:
        return (x.narrow(0, at, 2) ** 2).sum()

    for at in (0, 3):
        x = weft.arange(5.0).requires_grad_()
        loss(x, weft.tensor(at)).backward()
        assert x.grad.tolist() == [2.0 * i if at <= i < at + 2 else 0.0 for i in range(5)]


def test_what_the_function_asks_itself_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"asks a tensor of type i64\[\] for its value"):
        weft.compile(lambda x, at: x.narrow(0, at.item(), 2))(weft.arange(5.0), weft.tensor(1))
