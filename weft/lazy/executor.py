"""Where programs run: at once when they are short, else on a worker while Python traces the next step.

Programs run in the order in which they were asked for. What one raises comes out where its results are read, or at the
next cut, once.
"""

from __future__ import annotations

import queue
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable, Sequence
from typing import Any

from weft.lazy.programs import Specialized
from weft.lazy.tiers import CallByCall
from weft.lazy.values import Array, Cell, Latch
from weft.runtime.program import Interrupted
from weft.support.errors import NotFiniteError
from weft.support.interrupts import to_the_end

WORTH_A_WORKER = 1e-3  # seconds that a program takes
_MOST_WAITING = 64


class Run:
    """One run of a program, which an interrupt puts off: what was begun comes to its end."""

    def __init__(self, program: Specialized | CallByCall, numbers: list[Any]) -> None:
        self.program, self.numbers = program, numbers
        self._computed: list[Any] | None = None

    def results(self, arrays: list[Array]) -> list[Array]:
        """What it gives for these inputs, each time that it is asked. Raises what the program raises, and an interrupt:
        asked once more it goes on."""
        if self._computed is None:
            try:
                self._computed = self.program.compute(arrays, self.numbers)
            except Interrupted as stop:  # it has run, and has written
                self._computed = stop.results
                raise
        return self.program.results_of(self._computed, arrays)


class Job:
    """One run of a program: where its inputs come from, and where its results go: cells with one event for all. sizes:
    what the results behind those are.
    """

    def __init__(
        self, program: Specialized | CallByCall, inputs: list[Cell], numbers: list[Any], outputs: list[Cell],
        sizes: Sequence[Any] = (),
    ) -> None:
        self.program, self.inputs, self.numbers, self.outputs = program, inputs, numbers, list(outputs)
        self.sizes = sizes
        self.found: list[int | None] = []  # the numbers of the sizes; None where they cannot be computed
        self.error: BaseException | None = None
        self.done = next((c.done for c in outputs if c.done is not None), None) or Latch()
        for cell in outputs:
            cell.done = self.done
        self._run = Run(program, numbers)
        self._lock = allocate_lock()  # (after an interrupt two threads may come to run it)

    def run(self) -> None:
        """Run the program, once. Raises nothing, for results have the error, but an interrupt: when they are there."""
        to_the_end(self._run_once)

    def _run_once(self) -> None:
        with self._lock:
            if self.done.is_set():
                return
            start = time.perf_counter()
            try:
                results = self._run.results([cell.read() for cell in self.inputs])
                for cell, result in zip(self.outputs, results, strict=False):  # (sizes are behind them)
                    cell.array = result
                self.found = [int(number) for number in results[len(self.outputs) :]]
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self.error = error
                self._salvage(error)
            self.program.took(time.perf_counter() - start)
            self.done.set()
            self.inputs.clear()
            self.outputs.clear()

    def settle(self) -> None:
        """Wait, and tell the sizes to whoever goes by them."""
        self.done.wait()
        for size, number in zip(self.sizes, self.found, strict=True):
            if number is not None:
                size.settle(number)

    def _salvage(self, error: BaseException) -> None:
        """One result that cannot be computed takes no others with it."""
        try:
            if isinstance(error, NotFiniteError):  # (no operator fails)
                raise error
            results = self.program.run_apart([cell.read() for cell in self.inputs], self.numbers)
        except KeyboardInterrupt:
            raise
        except BaseException:  # an input has no value: nothing has
            results = [error for _ in (*self.outputs, *self.sizes)]
        self.found = [None if isinstance(r, BaseException) else int(r) for r in results[len(self.outputs) :]]
        for cell, result in zip(self.outputs, results, strict=False):
            if isinstance(result, BaseException):
                cell.error = result
            else:
                cell.array = result
        # (computed alone, an operator says what it met: which index, and of which size)
        self.error = next((r for r in results if isinstance(r, BaseException)), error)


class Executor:
    """Runs jobs in order, those that take long on a thread of its own."""

    def __init__(self) -> None:
        self._jobs: queue.Queue[Callable[[], None]] = queue.Queue(_MOST_WAITING)
        self._last: Job | None = None
        self._failed: BaseException | None = None
        self._thread: threading.Thread | None = None

    def submit(self, job: Job) -> None:
        """Run a job, now or behind those that wait."""
        busy = self._last is not None and not self._last.done.is_set()
        if not busy and job.program.seconds < WORTH_A_WORKER:
            job.run()
            self._note(job)
            return

        def run() -> None:
            job.run()
            self._note(job)

        self._on_worker(run)
        self._last = job

    def _note(self, job: Job) -> None:
        if job.error is not None:
            self._failed = job.error

    def _on_worker(self, task: Callable[[], None]) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="weft-lazy", daemon=True)
            self._thread.start()
        self._jobs.put(task)
        time.sleep(0)  # let it begin: native code runs without the interpreter

    def _work(self) -> None:
        while True:
            self._jobs.get()()

    def wait(self) -> None:
        """Wait for all jobs."""
        last = self._last
        if last is not None:
            last.done.wait()

    def raise_failure(self) -> None:
        """Raise what a job raised since the last time, once."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def forget(self, error: BaseException) -> None:
        """An error has come out where a result was read."""
        if self._failed is error:
            self._failed = None
