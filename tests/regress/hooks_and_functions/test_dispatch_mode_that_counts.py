"""What the handler of a dispatch mode did within a compiled call happened at its first call alone: it counted no more,
and what it computed with the count was the first call's."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.support.counters import counters
from weft.utils.dispatch import WeftDispatchMode


class Counting(WeftDispatchMode):
    """Counts operators; adds the count so far to what `exp` gives."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []

    def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        self.names.append(func.__name__)
        out = func(*args, **(kwargs or {}))
        return out + self.count if func is weft.ops.aten.exp.default else out


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
def test_handlers_are_seen(options: dict[str, Any]) -> None:
    def step(mode: Counting, x: weft.Tensor) -> weft.Tensor:
        mode.names.clear()
        with mode:
            loss = weft.exp(x * 0).sum()
            loss.backward()
        return loss.detach()

    outcomes = []
    for run in (step, weft.compile(step, backend="interpret", **options)):
        mode, x = Counting(), weft.ones(3, requires_grad=True)
        for call in range(4):
            before = counters.captures
            outcomes.append((float(run(mode, x)), mode.count, list(mode.names), x.grad.tolist()))
            assert call < 3 or counters.captures == before
    assert outcomes[4:] == outcomes[:4] and outcomes[0][:2] != outcomes[1][:2]
