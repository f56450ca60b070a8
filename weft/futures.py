"""weft.futures: results that are there later, as PyTorch's torch.futures has them. What sets one is a thread of the
user's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from weft.support.errors import StateError

__all__ = ["Future", "collect_all", "wait_all"]
T = TypeVar("T")


class Future(Generic[T]):
    """A value that `set_result` gives once. devices: accepted, and means nothing: all is on the CPU."""

    def __init__(self, *, devices: Any = None) -> None:
        self._is_there = threading.Condition()
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return bool(self._values) or self._error is not None

    def wait(self) -> T:
        """The result, once it is there. Raises what `set_exception` gave."""
        with self._is_there:
            self._is_there.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The result. Raises what `set_exception` gave, or StateError where there is none yet."""
        if self._error is not None:
            raise self._error
        if not self._values:
            raise StateError("Future.value(): there is no result yet; wait() waits for it")
        return self._values[0]

    def set_result(self, result: T) -> None:
        """Give the result, and run the callbacks. Raises StateError where there is one."""
        self._complete(lambda: self._values.append(result))

    def set_exception(self, result: T | BaseException) -> None:
        """Give an error, which `wait` raises. Raises StateError where there is a result."""
        error = result if isinstance(result, BaseException) else StateError(str(result))

        def fail() -> None:
            self._error = error

        self._complete(fail)

    def _complete(self, assign: Callable[[], None]) -> None:
        with self._is_there:
            if self.done():
                raise StateError("Future.set_result(): it has a result")
            assign()
            callbacks, self._callbacks = self._callbacks, []
            self._is_there.notify_all()
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call `callback(self)` once there is a result, or at once where there is one."""
        with self._is_there:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """The future of `callback(self)`."""
        following: Future[Any] = Future()

        def run(completed: Future[T]) -> None:
            try:
                result = callback(completed)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        self.add_done_callback(run)
        return following


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """The future of a list of futures: there once all of them are."""
    waited = list(futures)
    gathered: Future[list[Future[Any]]] = Future()
    lock, left = threading.Lock(), [len(waited)]

    def count(completed: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            is_last = left[0] == 0
        if is_last:
            gathered.set_result(waited)

    if not waited:
        gathered.set_result(waited)
    for future in waited:
        future.add_done_callback(count)
    return gathered


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The results of all, in order. Raises the first error among them."""
    return [future.wait() for future in futures]
