"""An interrupt (Ctrl-C) while a lazy step is cut, or while a split function's calls run, comes out behind the step:
what was written is written once, and nobody waits for values that no program brings. (A cell waited for ever, and a
program that had written its inputs was run again on them.)"""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.deferred import deferred
from weft import lazy
from weft.lazy.device import LazyDevice
from weft.lazy.executor import Executor, Run
from weft.lazy.programs import Plan, Specialized
from weft.lazy.tiers import CallByCall
from weft.runtime.program import Program

PLACES: dict[str, tuple[Any, str, bool]] = {
    "before the values are handed over": (LazyDevice, "_hand_over", False),
    "behind that": (LazyDevice, "_hand_over", True),
    "before a program is asked for": (Plan, "program", False),
    "behind that, too": (Plan, "program", True),
    "before it is submitted": (Executor, "submit", False),
    "before it runs": (Run, "results", False),
    "in native code": (Program, "_count", False),
    "behind native code": (Specialized, "results_of", False),
    "where results are copied": (Specialized, "results_of", True),
    "call by call": (CallByCall, "results_of", True),
}


@pytest.fixture(autouse=True)
def nothing_traced() -> Any:
    lazy.reset()
    yield
    lazy.reset()


def interrupting(holder: Any, name: str, behind: bool, patch: pytest.MonkeyPatch) -> None:
    """The first call of a method from now on is interrupted."""
    real, pending = getattr(holder, name), [True]

    def once(*args: Any, **kwargs: Any) -> Any:
        if behind:
            result = real(*args, **kwargs)
        if pending and pending.pop():
            raise KeyboardInterrupt
        return result if behind else real(*args, **kwargs)

    patch.setattr(holder, name, once)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("ends", ["mark_step", "read"])
def test_a_lazy_step(place: str, ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    p = weft.zeros(3, device="lazy")
    view, losses, interrupts = p[:1], [], 0
    for i in range(8):
        with monkeypatch.context() as patch:
            if i > 1:
                interrupting(*PLACES[place], patch)
            try:
                p.add_(1)
                losses.append((p * weft.ones(i % 3 + 1, 3, device="lazy")).sum())
                lazy.mark_step() if ends == "mark_step" else losses[-1].item()
            except KeyboardInterrupt:
                interrupts += 1
        if i % 2:
            assert p.tolist() == [i + 1] * 3 and view.item() == i + 1
    assert interrupts or place == "call by call"
    assert [loss.item() for loss in losses] == [(i + 1) * 3 * (i % 3 + 1) for i in range(8)]


@pytest.mark.parametrize("place", [p for p in PLACES if "handed" not in p and p != "behind that" and "submit" not in p])
def test_a_split_function(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    p = weft.zeros(40, 1000)

    def step(x: weft.Tensor) -> list[float]:
        p.add_(x)
        first = p.sum().item()
        p.mul_(2)
        return [first, p[0, 0].item()]

    run, expected, interrupts = deferred(step), 0.0, 0
    for i in range(8):
        with monkeypatch.context() as patch:
            if i > 2:
                interrupting(*PLACES[place], patch)
            try:
                run(weft.ones(()))
            except KeyboardInterrupt:
                interrupts += 1
        reached = p[0, 0].item()
        between, whole = expected + 1, (expected + 1) * 2
        assert reached in ({whole} if i <= 2 else {expected, between, whole}), (i, reached, expected)
        assert (p == reached).all()
        expected = reached
    assert interrupts or place == "call by call"


