"""Lists and deques that a compiled function only adds to: one program for all that take their places, and programs of
their own where it counts which list it is, or what it holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor

log: Any = []


class Trainer:
    """What a training loop keeps."""

    def __init__(self) -> None:
        self.log: Any = []
        self.other: Any = []
        self.recent: Any = deque(maxlen=2)
        self.history: dict[str, Any] = {"loss": [], "steps": []}

    def step(self, x: Tensor) -> Tensor:
        loss = (x * x).sum()
        self.log.append(loss)
        self.recent.append(x.mean())
        self.history["loss"] += [loss * 2]
        return x * 2

    def new_epoch(self) -> None:
        self.log, self.recent, self.history["loss"] = [], deque(maxlen=3), []


def values(held: Any) -> list[float]:
    return [float(v) for v in held]


def test_a_new_list_for_each_epoch_is_one_program() -> None:
    trainer = Trainer()
    step = weft.compile(trainer.step)
    for epoch in range(5):
        earlier = trainer.log, list(trainer.log)
        trainer.new_epoch()
        for k in range(4):
            step(weft.full((2,), float(k)))
        assert values(trainer.log) == [2.0 * k * k for k in range(4)]
        assert values(trainer.recent) == [1.0, 2.0, 3.0]
        assert values(trainer.history["loss"]) == [4.0 * k * k for k in range(4)]
        assert earlier[0] == earlier[1] and earlier[0] is not trainer.log, f"epoch {epoch}"
    assert len(step.entries) == 1


def test_a_global_and_a_cell() -> None:
    global log
    mine: list[Tensor] = []

    def noting(x: Tensor) -> Tensor:
        log.append(x.sum())
        mine.extend([x, x * 2])
        return x + 1

    step = weft.compile(noting)
    for k in range(4):
        log, mine = [], []
        step(weft.full((2,), float(k)))
        assert values(log) == [2.0 * k] and [t.tolist() for t in mine] == [[k, k], [2.0 * k, 2.0 * k]]
    assert len(step.entries) == 1


def change_type(t: Trainer) -> None:
    t.log = deque(t.log)


def share(t: Trainer) -> None:
    t.log = t.recent = deque(maxlen=4)


def share_with_history(t: Trainer) -> None:
    t.history["loss"] = t.log


def leave_out(t: Trainer) -> None:
    t.log = None


@pytest.mark.parametrize("change", [change_type, share, share_with_history, leave_out])
def test_what_takes_a_place_is_looked_at(change: Callable[[Trainer], None]) -> None:
    here, there = Trainer(), Trainer()
    step = weft.compile(here.step)
    for k in range(6):
        if k in (2, 4):
            change(here)
            change(there)
        x = weft.full((2,), float(k))
        if there.log is None:
            with pytest.raises(AttributeError):
                there.step(x)
            with pytest.raises(AttributeError):
                step(x)
            continue
        assert step(x).tolist() == there.step(x).tolist()
        for name in ("log", "recent"):
            assert values(getattr(here, name)) == values(getattr(there, name)), name
        assert values(here.history["loss"]) == values(there.history["loss"])
        assert (here.log is here.recent) == (there.log is there.recent)


def reads_another(t: Trainer, x: Tensor) -> Any:
    t.log.append(x.sum())
    return x * len(t.other)


def compares(t: Trainer, x: Tensor) -> Any:
    t.log.append(x.sum())
    return x * 2 if t.log is t.other else x * 3


def gives_it(t: Trainer, x: Tensor) -> Any:
    t.log.append(x.sum())
    return t.log


def puts_it(t: Trainer, x: Tensor) -> Any:
    t.log.append(x.sum())
    t.other = t.log
    return x


def takes_another(t: Trainer, x: Tensor) -> Any:
    t.log.append(x.sum())
    t.log = []
    return x


def asks_id(t: Trainer, x: Tensor) -> Any:
    t.log.append(x.sum())
    return x * (2 if id(t.log) == id(t.other) else 3)


def in_two_orders(t: Trainer, x: Tensor) -> Any:
    t.other.append(x)
    t.log.append(x.sum())
    t.other.append(x * 2)
    return x


BODIES = (reads_another, compares, gives_it, puts_it, takes_another, asks_id, in_two_orders)
CHANGES: tuple[Callable[[Trainer], None], ...] = (
    lambda t: setattr(t, "log", []), lambda t: setattr(t, "log", t.other), lambda t: setattr(t, "other", t.log),
    lambda t: setattr(t, "log", [*t.log]), lambda t: setattr(t, "other", []),
    lambda t: vars(t).update(log=[], other=[]),
)  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("split", [False, True])
def test_which_list_it_is_counts(body: Callable[[Trainer, Tensor], Any], split: bool) -> None:
    here, there = Trainer(), Trainer()
    step = weft.compile(lambda x: body(here, x), split=split)
    for k in range(12):
        CHANGES[(5 * k + 1) % len(CHANGES)](here)
        CHANGES[(5 * k + 1) % len(CHANGES)](there)
        x = weft.full((2,), float(k))
        out, expected = step(x), body(there, x)
        if isinstance(expected, list):
            assert out is here.log and values(out) == values(expected)
        else:
            assert out.tolist() == expected.tolist()
        for name in ("log", "other"):
            mine, theirs = getattr(here, name), getattr(there, name)
            assert [t.tolist() for t in mine] == [t.tolist() for t in theirs], (k, name)
        assert (here.log is here.other) == (there.log is there.other)


def test_a_list_that_is_an_argument_too() -> None:
    here, there = Trainer(), Trainer()

    def body(t: Trainer, x: Tensor, given: list[Tensor]) -> Tensor:
        t.log.append(x)
        return x * 2 + sum(given)

    step = weft.compile(lambda x, given: body(here, x, given))
    for k in range(6):
        x = weft.full((2,), float(k))
        if k in (1, 4):
            here.log, there.log = [], []
        for t in (here, there):
            t.other = [x, x + 1] if k % 2 else t.log
        assert step(x, here.other).tolist() == body(there, x, there.other).tolist(), k
        assert [t.tolist() for t in here.log] == [t.tolist() for t in there.log]
