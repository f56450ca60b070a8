"""Random functions of tensors that show one memory, in another way at every call, leave behind what eager mode does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agree.width import times
from tests.agree.windows import difference, draw, shrunk

IN_A_TEST = 20
MODES: dict[str, dict[str, Any]] = {
    "compile": {"backend": "interpret"}, "native": {}, "split": {"split": True, "backend": "interpret"},
}  # fmt: skip
RARELY = ("native", "split")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", range(0, times(180), IN_A_TEST))
def test_windows_of_one_memory(mode: str, first: int) -> None:
    for seed in range(first, first + IN_A_TEST):
        if mode in RARELY and seed % 10:
            continue
        function = draw(seed)
        if difference(function, MODES[mode]) is not None:
            smallest = shrunk(function, MODES[mode])
            pytest.fail(f"{smallest}\n{smallest.source()}{difference(smallest, MODES[mode])}")
