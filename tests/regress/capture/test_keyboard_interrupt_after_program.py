"""An interrupt that comes once a program has run: the step has been made, with all that it keeps up in Python,
or none of it."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import Any

import numpy as np
import pytest

import weft
from tests.symbols_left import symbols_left
from weft import Tensor, guards, nn
from weft.codegen import compilation
from weft.compile.driver import CompiledFunction
from weft.compile.program import call_plan
from weft.compile.program.entry import Entry
from weft.guards import asides, observation
from weft.guards.lifting import Substitution
from weft.guards.slots import EndSlot, Slot
from weft.support import pytree


class Trainer:
    """A step with state of every kind."""

    def __init__(self) -> None:
        weft.manual_seed(5)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
        self.opt = weft.optim.Adam(self.model.parameters(), lr=0.1)
        self.hidden, self.count = weft.zeros(2), 0
        self.log: list[Tensor] = []
        self.compiled = CompiledFunction(self.step)

    def step(self, x: Tensor) -> Tensor:
        self.opt.zero_grad()
        out = self.model(x)
        loss = out.pow(2).mean()
        loss.backward()
        self.opt.step()
        self.count += 1
        self.hidden = (self.hidden * 0.5 + out.sum(0)).detach()
        self.log.append(loss.detach())
        return loss.detach()

    def state(self) -> list[Any]:
        moments = [v for s in self.opt.state.values() for v in s.values()]
        return [
            self.count, len(self.log),
            *[t.detach().numpy().copy() for t in (self.hidden, *self.model.parameters(), *moments)],
        ]


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("place", ["behind the program", "effects", "tree", "put", "added"])
def test_a_step_is_made_whole(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, found, x = Trainer(), Trainer(), weft.linspace(-1, 1, 12).reshape(4, 3)
    weft.manual_seed(7)
    for _ in range(4):
        expected.compiled(x)
    weft.manual_seed(7)
    found.compiled(x)
    found.compiled(x)
    holder, name = {
        "behind the program": (Entry, "_finish"), "added": (EndSlot, "store"),
        "effects": (call_plan.Effects, "apply"), "tree": (pytree, "unflatten"), "put": (guards.ObjectWrite, "target")
    }[place]
    pending = [True]
    real = getattr(holder, name) if place != "put" else None

    def once(*args: Any) -> Any:
        if place == "behind the program" and pending and pending.pop():
            raise KeyboardInterrupt
        made = real(*args) if real is not None else args[0].__dict__["target"]
        if pending and pending.pop():
            raise KeyboardInterrupt
        return made

    with monkeypatch.context() as patch:
        if place == "put":
            patch.setattr(holder, name, property(once), raising=False)
        else:
            patch.setattr(holder, name, once)
        with pytest.raises(KeyboardInterrupt):
            found.compiled(x)
    assert not pending
    found.compiled(x)
    for a, b in zip(found.state(), expected.state(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_one_while_guards_are_put_together_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, x = Trainer(), weft.ones(2, 3)
    with monkeypatch.context() as patch:
        patch.setattr(observation, "_guards", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            trainer.compiled(x)
    assert trainer.count == 0 and trainer.hidden.tolist() == [0.0, 0.0] and not trainer.log
    trainer.compiled(x)
    assert trainer.count == 1


def test_an_interrupt_while_native_code_runs_comes_behind_the_whole_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises it where the native call returns, when parameters are written and numbers, generators
    and assignments are not."""
    expected, found, x = Trainer(), Trainer(), weft.linspace(-1, 1, 12).reshape(4, 3)
    weft.manual_seed(7)
    for _ in range(4):
        expected.compiled(x)
    weft.manual_seed(7)
    for _ in range(2):
        found.compiled(x)
    program = found.compiled.entries[0].executable.program  # type: ignore[union-attr]
    segment = program._segments[-1]
    call = segment.call

    def interrupted(frame: int) -> int:
        call(frame)
        raise KeyboardInterrupt

    segment.call = interrupted
    with pytest.raises(KeyboardInterrupt):
        found.compiled(x)
    segment.call = call
    found.compiled(x)
    for a, b in zip(expected.state(), found.state(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("place", [1, 2])
def test_one_while_stand_ins_are_put_leaves_none(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a capture puts on older objects, before the function runs, is taken off again."""
    trainer, x, real, puts = Trainer(), weft.ones(2, 3), Slot.put, [0]
    trainer.compiled(x)
    before, entered = trainer.state(), Substitution.__enter__

    def put(slot: Any, value: Any) -> None:
        real(slot, value)
        puts[0] += 1
        if puts[0] == place:
            raise KeyboardInterrupt

    def enter(substitution: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(Slot, "put", put)
            return entered(substitution)

    trainer.model.eval()  # another capture, which knows the places that are assigned
    with monkeypatch.context() as patch:
        patch.setattr(Substitution, "__enter__", enter)
        with pytest.raises(KeyboardInterrupt):
            trainer.compiled(x)
    assert puts[0] > place and not symbols_left(trainer)
    for a, b in zip(trainer.state(), before, strict=True):
        np.testing.assert_array_equal(a, b)
    trainer.compiled(x)
    assert trainer.count == before[0] + 1


def test_one_while_other_threads_generate_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM closes modules that nobody is at work on: an interrupted Thread.join takes a thread that runs for ended."""
    threads = weft.get_num_threads()
    monkeypatch.setattr(compilation, "BATCH", 1)
    weft.set_num_threads(3)
    real, x = threading.Event.wait, weft.rand(7)
    try:
        for i in range(4):
            pending = [True]

            def wait(event: Any, timeout: Any = None, pending: list[bool] = pending) -> Any:
                if pending and pending.pop():
                    raise KeyboardInterrupt
                return real(event, timeout)

            step = weft.compile(lambda x, i=i: (x.sort()[0] * (i + 1)).cumsum(0).softmax(0).sum() + x.exp().prod())
            with monkeypatch.context() as patch:
                patch.setattr(threading.Event, "wait", wait)
                with contextlib.suppress(KeyboardInterrupt):
                    step(x)
            expected = (x.sort()[0] * (i + 1)).cumsum(0).softmax(0).sum() + x.exp().prod()
            np.testing.assert_allclose(step(x).numpy(), expected.numpy(), rtol=1e-4)
    finally:
        weft.set_num_threads(threads)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="a signal that nobody else uses")
def test_a_signal_handler_is_itself_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt may come where the block of a capture is about to put handlers back: they stay replaced then, and
    captures that followed put more and more around them. The next one, or the next signal, puts them back."""
    calls: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
    try:
        handler = signal.getsignal(signal.SIGUSR1)
        for ends_by_a_signal in (True, False):
            with monkeypatch.context() as patch:
                patch.setattr(asides._Handlers, "__exit__", _interrupt)
                with pytest.raises(KeyboardInterrupt):
                    weft.compile(lambda x: x.sin() + 1)(weft.ones(2))
            calls.clear()
            if ends_by_a_signal:
                signal.raise_signal(signal.SIGUSR1)
                assert len(calls) == 1
            else:
                weft.compile(lambda x: x.sin() + 2)(weft.ones(2))
            assert signal.getsignal(signal.SIGUSR1) is handler
    finally:
        signal.signal(signal.SIGUSR1, before)
