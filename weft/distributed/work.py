"""Work: a collective under way. What waits for it looks again and again, with pauses, so that it can stop waiting: a
peer that is gone, or a time-out, is an error that names the ranks.

A thread moves on what nobody waits for (MPI itself moves messages only within its own calls), so that communication
goes on while the program computes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from weft.distributed.channel import Request
from weft.distributed.mpi import leave_broken
from weft.distributed.names import DistBackendError
from weft.distributed.peers import Peers

_EAGER = 200  # looks without a pause; a small collective among ready ranks is over after a few
_LONGEST_PAUSE = 0.001  # seconds
_BETWEEN_LOOKS_AT_PEERS = 0.2
_LAST_CHANCE = 0.3  # seconds in which messages of a peer that has ended may still come in
_PAUSE_OF_THE_THREAD = 0.0001


class Work:
    """A collective, or a message, under way. `wait` returns when it is done; its buffers may be used then."""

    def __init__(
        self, request: Request, what: str, peers: Peers | None, ranks: tuple[int, ...], timeout: float,
        finish: Callable[[], Any] | None = None, keeps: Any = None,
    ) -> None:
        self._request, self._what, self._peers, self._ranks = request, what, peers, ranks
        self._timeout, self._finish, self._keeps = timeout, finish, keeps
        self._lock = threading.RLock()
        self._is_done = False
        self._error: BaseException | None = None
        self._value: Any = None
        self.started = time.perf_counter()
        self.ended = 0.0

    def is_completed(self) -> bool:
        """Whether it is done, without waiting."""
        return self._error is not None or self._moved()

    def is_success(self) -> bool:
        """Whether it is done without an error."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """What it failed with."""
        return self._error

    def source_rank(self) -> int:
        """The rank in the group that a received message came from."""
        source = self._request.source
        return -1 if source is None else source

    def result(self) -> Any:
        """The tensor, or tensors, that it wrote, once it is done."""
        self.wait()
        return self._value

    def get_future(self) -> Future:
        """Its result as a future."""
        return Future(self)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done. timeout: instead of the group's. Raises DistBackendError that names the rank when a
        peer is gone, or when time is up."""
        limit = self._timeout if timeout is None else timeout.total_seconds()
        pause, looks, begin = 0.0, 0, time.monotonic()
        look_at_peers = begin + _BETWEEN_LOOKS_AT_PEERS
        while not self._moved():
            looks += 1
            if looks < _EAGER:
                continue
            pause = min(_LONGEST_PAUSE, pause + 0.00001)
            time.sleep(pause)
            now = time.monotonic()
            if now >= look_at_peers:
                self._check_peers()
                look_at_peers = now + _BETWEEN_LOOKS_AT_PEERS
            if now - begin > limit:
                raise self._failed(self._timed_out(limit))
        return True

    def _moved(self) -> bool:
        """Whether it is done after one look at it."""
        if self._is_done:
            return True
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._is_done:
                return True
            try:
                is_done = self._request.test()
            except Exception as error:  # MPI's own exception
                raise self._failed(f"{self._what}: {error}{self._about_the_gone()}") from error
            if is_done:
                self.ended = time.perf_counter()
                if self._finish is not None:
                    self._value = self._finish()
                self._keeps = self._finish = None
                self._is_done = True
            return is_done

    def _check_peers(self) -> None:
        if self._peers is None or not self._gone():
            return
        last = time.monotonic() + _LAST_CHANCE
        while time.monotonic() < last:
            if self._moved():
                return
            time.sleep(_LONGEST_PAUSE)
        raise self._failed(f"{self._what}:{self._about_the_gone()}")

    def _gone(self) -> list[int]:
        return [] if self._peers is None else [r for r in self._peers.gone() if r in self._ranks]

    def _about_the_gone(self) -> str:
        assert self._peers is not None
        gone = self._gone()
        if not gone:
            return ""
        return (
            f" {', '.join(map(self._peers.name, gone))} {'is' if len(gone) == 1 else 'are'} gone (ended while rank "
            f"{self._peers.rank} waited)"
        )

    def _timed_out(self, limit: float) -> str:
        assert self._peers is not None
        others = ", ".join([self._peers.name(r) for r in self._ranks if r != self._peers.rank])
        return (
            f"{self._what}: rank {self._peers.rank} has waited {limit:g} s for {others}.{self._about_the_gone()} "
            "Have all ranks called it, in the same order? init_process_group(timeout=...) sets the time."
        )

    def _failed(self, text: str) -> BaseException:
        self._error = DistBackendError(text)
        leave_broken()
        return self._error


class Future:
    """The result of a Work, as PyTorch's futures give it."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def done(self) -> bool:
        """Whether the value is there."""
        return self._work.is_completed()

    def wait(self) -> Any:
        """The value, once it is there."""
        return self._work.result()

    value = wait

    def then(self, callback: Callable[[Future], Any]) -> Any:
        """A future of what `callback` makes of this one, computed when it is asked for."""
        return _Then(self, callback)


class _Then(Future):
    def __init__(self, before: Future, callback: Callable[[Future], Any]) -> None:
        super().__init__(before._work)
        self._before, self._callback = before, callback
        self._values: list[Any] = []

    def wait(self) -> Any:
        if not self._values:
            self._before.wait()
            self._values.append(self._callback(self._before))
        return self._values[0]

    value = wait


class _Mover:
    """The thread that moves works on while nobody waits for them. It sleeps while there are none."""

    def __init__(self) -> None:
        self._works: list[Work] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, work: Work) -> None:
        with self._changed:
            self._works.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="weft-distributed", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._works:
                    self._changed.wait()
                works = list(self._works)
            over = {id(work) for work in works if self._is_over(work)}
            if over:
                with self._changed:
                    self._works = [work for work in self._works if id(work) not in over]
            time.sleep(_PAUSE_OF_THE_THREAD)

    @staticmethod
    def _is_over(work: Work) -> bool:
        try:
            return work.is_completed()
        except Exception:  # whoever waits for it gets it
            return True


_mover = _Mover()


def move_on(work: Work) -> Work:
    """Have the thread move a work on, and return it."""
    if not work.is_completed():
        _mover.add(work)
    return work
