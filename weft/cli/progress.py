"""What training shows while it runs: a bar with loss and tokens per second, or plain lines
where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

EVERY = 50  # steps between plain lines
RECENT = 20  # steps over which loss and speed are averaged


class Progress(Protocol):
    """Told of each step; shown as it likes."""

    def __enter__(self) -> Progress: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def step_done(self, step: int, losses: Sequence[float], tokens: int) -> None:
        """Steps done so far in the whole run, the losses that are known of them, and how many tokens the last trained
        on.
        """
        ...


def show_progress(done: int, steps: int) -> Progress:
    """The progress that fits standard output."""
    return Bar(done, steps) if sys.stdout.isatty() else Lines(steps)


class Recent:
    """Mean loss and speed over the last few steps."""

    def __init__(self) -> None:
        self._losses: Sequence[float] = ()
        self._ends: deque[tuple[float, int]] = deque(maxlen=RECENT)

    def add(self, losses: Sequence[float], tokens: int) -> None:
        """One more step. losses: those that are known of all steps so far."""
        self._losses = losses[-RECENT:]
        self._ends.append((time.perf_counter(), tokens))

    @property
    def loss(self) -> float:
        return sum(self._losses) / len(self._losses)

    @property
    def tokens_per_second(self) -> float:
        """0 until two steps are known; the first, which compiles, never counts."""
        seconds = self._ends[-1][0] - self._ends[0][0]
        return sum(tokens for _, tokens in list(self._ends)[1:]) / seconds if seconds > 0 else 0.0

    def __str__(self) -> str:
        speed = self.tokens_per_second
        return f"loss {self.loss:.3f}" + (f"  {speed:9,.0f} tokens/s" if speed else "")


class Lines:
    """A line every EVERY steps, and after the last."""

    def __init__(self, steps: int) -> None:
        self._steps, self._recent = steps, Recent()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def step_done(self, step: int, losses: Sequence[float], tokens: int) -> None:
        self._recent.add(losses, tokens)
        if step % EVERY == 0 or step == self._steps:
            print(f"step {step:{len(str(self._steps))}}/{self._steps}  {self._recent}", flush=True)


class Bar:
    """A bar of rich's."""

    def __init__(self, done: int, steps: int) -> None:
        from rich import progress  # heavy, and only for a terminal

        self._recent = Recent()
        columns: list[Any] = [
            progress.TextColumn("training"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[recent]}"),
            progress.TimeRemainingColumn(),
        ]
        self._bar = progress.Progress(*columns)
        self._task = self._bar.add_task("training", total=steps, completed=done, recent="")

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step_done(self, step: int, losses: Sequence[float], tokens: int) -> None:
        self._recent.add(losses, tokens)
        self._bar.update(self._task, completed=step, recent=str(self._recent))
