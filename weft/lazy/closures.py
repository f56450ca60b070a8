"""Step closures: functions that are called once the values of a step are there."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from weft.support import pytree
from weft.support.errors import StateError
from weft.tensor.tensor import Tensor

Closure = Callable[[], None]
_MOST_WAITING = 256


class StepClosures:
    """The closures of a device: those that wait for the next step, and the thread of those that run beside it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Closure, bool]] = []
        self._queue: queue.Queue[Closure] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._problem: BaseException | None = None

    def add(self, function: Callable[..., Any], args: Sequence[Any], run_async: bool) -> None:
        """Call `function(*args)` after the next step, with the values that tensors among the arguments have now."""
        leaves, spec = pytree.flatten(tuple(args))
        arguments = pytree.unflatten([t.detach().clone() if isinstance(t, Tensor) else t for t in leaves], spec)
        self.waiting.append((lambda: function(*arguments), run_async))

    def run(self) -> None:
        """Call what waits, in order; what may run beside the next step is handed over. Raises RuntimeError with what
        one of those raised earlier: then nothing more is called.
        """
        waiting, self.waiting = self.waiting, []
        self.raise_problem()
        for closure, run_async in waiting:
            if run_async:
                self._hand_over(closure)
            else:
                closure()

    def raise_problem(self) -> None:
        """Raise what a closure raised that ran beside a step, once."""
        problem, self._problem = self._problem, None
        if problem is not None:
            raise StateError(f"Cannot run async closure due to previously raised exception: {problem}") from problem

    def wait(self) -> None:
        """Wait for the closures that run beside the steps."""
        self._queue.join()

    def _hand_over(self, closure: Closure) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="weft-lazy-closures", daemon=True)
            self._thread.start()
        self._queue.put(closure)

    def _work(self) -> None:
        while True:
            closure = self._queue.get()
            try:
                if self._problem is None:
                    closure()
            except BaseException as problem:
                self._problem = problem
            finally:
                self._queue.task_done()
