"""A compiled function broadcast initial states of recurrent layers that eager mode refuses, and did not look at the
input_size of a cell."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import nn

CASES: dict[str, Any] = {
    "LSTMCell": (lambda: nn.LSTMCell(3, 2), lambda x, n: (x, (weft.zeros(n, 2), weft.zeros(n, 2)))),
    "GRUCell": (lambda: nn.GRUCell(3, 2), lambda x, n: (x, weft.zeros(n, 2))),
    "RNN": (lambda: nn.RNN(3, 2), lambda x, n: (x[None], weft.zeros(1, n, 2))),
    "LSTM": (lambda: nn.LSTM(3, 2), lambda x, n: (x[None], (weft.zeros(1, n, 2), weft.zeros(1, n, 2)))),
}


@pytest.mark.parametrize("mode", [{}, {"split": True}, {"backend": "interpret"}])
@pytest.mark.parametrize("name", CASES)
def test_states_of_another_batch(name: str, mode: dict[str, Any]) -> None:
    make, arguments = CASES[name]
    module = make()
    compiled = weft.compile(lambda x, *states: module(x, *states)[0], **mode)
    for rows, states in ((2, 2), (2, 1), (3, 3), (3, 2), (1, 1), (4, 1)):
        args = arguments(weft.ones(rows, 3), states)
        if rows == states:
            assert weft.allclose(compiled(*args), module(*args)[0])
        else:
            with pytest.raises(RuntimeError, match=r"size"):
                compiled(*args)


def test_input_size_that_changes() -> None:
    cell = nn.LSTMCell(3, 2)
    compiled = weft.compile(lambda x: cell(x)[0])
    compiled(weft.ones(2, 3))
    cell.input_size = 4
    with pytest.raises(weft.WeftError, match="inconsistent input_size"):
        compiled(weft.ones(2, 3))
