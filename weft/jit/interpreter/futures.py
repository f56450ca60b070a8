"""fork and wait: calls whose results are asked for later. A program runs them in order, where they are forked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Future(Generic[T]):
    """The result of a call that was forked. In a scripted program, `Future[Tensor]` is its type."""

    def __init__(self, held: T | None = None, error: BaseException | None = None) -> None:
        self._held, self._error = held, error

    def wait(self) -> T:
        """The result. Raises what the call raised."""
        if self._error is not None:
            raise self._error
        return self._held  # type: ignore[return-value]

    def value(self) -> T:
        """The result, as `wait` gives it."""
        return self.wait()

    def done(self) -> bool:
        """Whether there is a result: always, here."""
        return True

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """The future of `callback(self)`."""
        return fork(callback, self)


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """Call a function; what it gives or raises comes out of `wait`."""
    try:
        return Future(func(*args, **kwargs))
    except Exception as error:
        return Future(error=error)


def wait(future: Future[T]) -> T:
    """The result of a forked call. Raises what the call raised."""
    return future.wait()
