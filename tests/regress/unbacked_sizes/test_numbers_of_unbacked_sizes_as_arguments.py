"""Numbers made of sizes that only the run finds, where operators take them: repeat of a difference asked whether it is
-1, tensor_split into so many parts crashed, and the median of what may be empty was refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

FUNCTIONS: dict[str, Callable[[weft.Tensor, weft.Tensor], weft.Tensor]] = {
    "repeat": lambda x, m: x.repeat(-x[m].shape.numel() // 2, 1),
    "repeat of a difference": lambda x, m: x.repeat(x[m].shape[0] - 2, 1),
    "tile": lambda x, m: weft.tile(x, (x[m].shape[0] - 2, 1)),
    "tensor_split": lambda x, m: weft.tensor_split(x, x[m].shape[0] + 1)[0],
    "median": lambda x, m: x[m].median(),
    "nanmedian": lambda x, m: x[m].nanmedian() + x[m].shape[0],
    "median with nan": lambda x, m: (x[m] / (x[m] != 0)).median(),
}
MODES: list[dict[str, Any]] = [{}, {"split": True}, {"backend": "interpret"}]


def outcome(function: Any, x: weft.Tensor, m: weft.Tensor) -> Any:
    try:
        result = function(x, m)
    except weft.WeftError:
        return "an error"
    return str([result.shape, result.tolist()])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_call_gives_what_eager_mode_gives(name: str, mode: dict[str, Any]) -> None:
    function = FUNCTIONS[name]
    compiled = weft.compile(function, **mode)
    for rows, chosen in ((4, 0), (6, 1), (5, 2), (4, 0), (6, 3), (7, 4), (5, 5)):
        x = weft.arange(float(rows * 2)).reshape(rows, 2)
        m = weft.tensor([i < chosen for i in range(rows)])
        found = outcome(compiled, x, m)
        assert found == outcome(function, x, m) or (name == "tensor_split" and mode != MODES[1])


def test_split_function_goes_on_after_a_program_that_could_not_be_made() -> None:
    """What was recorded of the call that failed was part of the next one, for good."""
    compiled = weft.compile(lambda x, m: x.sum().expand(x[m].shape[0] * 2 - 1), split=True)
    for chosen in (0, 3, 0, 2):
        m = weft.tensor([i < chosen for i in range(5)])
        if chosen:
            assert compiled(weft.ones(5), m).tolist() == [5.0] * (2 * chosen - 1)
        else:
            with pytest.raises(weft.WeftError):
                compiled(weft.ones(5), m)
