"""Whether the other ranks are still there. Processes of this machine are watched by the operating system, so that one
that ended is named within a moment; for those of other machines there is the time-out."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence


class Peers:
    """The processes of all ranks: `places[rank]` is the host's name and the process number."""

    def __init__(self, rank: int, places: Sequence[tuple[str, int]]) -> None:
        self.rank, self.places = rank, tuple(places)
        here = socket.gethostname()
        self._local = [r for r, (host, _) in enumerate(places) if host == here and r != rank]
        self._watched: dict[int, int] = {}  # file descriptor of a process: its rank
        if hasattr(os, "pidfd_open"):
            for r in self._local:
                try:
                    self._watched[os.pidfd_open(places[r][1])] = r
                except OSError:  # it has ended, or the system has no such descriptors: asked by number
                    continue

    def gone(self) -> list[int]:
        """The ranks on this machine whose processes have ended."""
        watched = set(self._watched.values())
        ended = {r for r in self._local if r not in watched and not _is_alive(self.places[r][1])}
        if self._watched:
            poll = select.poll()
            for descriptor in self._watched:
                poll.register(descriptor, select.POLLIN)
            ended |= {self._watched[descriptor] for descriptor, _ in poll.poll(0)}
        return sorted(ended)

    def name(self, rank: int) -> str:
        """`rank 1 (process 4711 on node3)`."""
        host, process = self.places[rank]
        return f"rank {rank} (process {process} on {host})"

    def close(self) -> None:
        """Watch no more."""
        for descriptor in self._watched:
            os.close(descriptor)
        self._watched = {}


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere a signal would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
