"""`python -m weft.distributed.run -n 4 SCRIPT.py ...`: start ranks on this machine, with mpiexec.

Every line that a rank prints begins with its rank. When a rank fails, the others have a moment to say what they miss
and are ended then; the exit code is that of the rank that failed first. The cores are shared out among the ranks.
"""

from __future__ import annotations

import argparse
import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from weft.distributed.launched import LAUNCHER
from weft.runtime.pool import available_cores

MISTAKE = 2
INTERRUPTED = 130
_OVERSUBSCRIBED = {  # Open MPI otherwise starts no more ranks than there are cores
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code: 0, or that of the rank that failed first."""
    options = _parse(arguments)
    if options.ranks < 1:
        return _refuse(f"-n {options.ranks}: at least one rank")
    mpiexec = _mpiexec() if options.ranks > 1 else ""
    if mpiexec is None:
        return _refuse("there is no mpiexec: pip install 'weft[mpi]' has one (for one rank, -n 1, none is needed)")
    return _Ranks(options).run([mpiexec, "-n", str(options.ranks)] if mpiexec else [])


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m weft.distributed.run", description="Start a script in several ranks on this machine."
    )
    parser.add_argument("-n", "--ranks", "--nproc-per-node", "--nproc_per_node", type=int, required=True, metavar="N")
    parser.add_argument(
        "--grace", type=float, default=10.0, metavar="SECONDS",
        help="how long the others may go on when a rank has failed (default: 10)",
    )
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS")
    return parser.parse_args(arguments)


def _refuse(text: str) -> int:
    print(f"weft.distributed.run: {text}", file=sys.stderr)
    return MISTAKE


def _mpiexec() -> str | None:
    """mpiexec of this environment, else of the system."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")


class _Ranks:
    """The ranks of one run, and what is heard of them: (rank, "started", process) and (rank, "ended", exit code)."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.events: queue.Queue[tuple[int | None, str, int]] = queue.Queue()
        self.connections: list[Connection] = []
        self.running: dict[int, int] = {}  # rank: process
        self.ended: dict[int, int] = {}  # rank: exit code, in the order of events

    def run(self, launcher: list[str]) -> int:
        key = secrets.token_bytes(16)
        with Listener(authkey=key) as listener:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            process = subprocess.Popen(
                [*launcher, sys.executable, "-m", "weft.distributed.rank_process", *self._script()],
                env=self._environment(str(listener.address), key), stdin=subprocess.DEVNULL,
                start_new_session=True,  # mpiexec would end all ranks at Ctrl-C; they are told, and have a moment
            )
            threading.Thread(target=self._watch, args=(process,), daemon=True).start()
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            try:
                code = self._wait(0, None)
            except KeyboardInterrupt:
                self._signal(signal.SIGINT)
                code = self._wait(INTERRUPTED, time.monotonic() + self.options.grace)
            self._end_all(process)
        return code

    def _script(self) -> list[str]:
        return [*(["-m"] if self.options.module else []), self.options.script, *self.options.arguments]

    def _environment(self, address: str, key: bytes) -> dict[str, str]:
        count = self.options.ranks
        threads = os.environ.get("WEFT_NUM_THREADS") or str(max(1, len(available_cores()) // count))
        return {
            **_OVERSUBSCRIBED, **os.environ, LAUNCHER: f"{key.hex()} {address}", "WEFT_NUM_THREADS": threads,
            "LOCAL_WORLD_SIZE": str(count), "WORLD_SIZE": str(count), "PYTHONUNBUFFERED": "1",
            "MASTER_ADDR": "localhost",
        }

    def _accept(self, listener: Listener) -> None:
        for _ in range(self.options.ranks):
            try:
                connection: Any = listener.accept()
            except OSError:  # closed: the run is over
                return
            self.connections.append(connection)
            threading.Thread(target=self._listen, args=(connection,), daemon=True).start()

    def _listen(self, connection: Connection) -> None:
        try:
            while True:
                self.events.put(connection.recv())
        except (EOFError, OSError):
            return

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        self.events.put((None, "ended", process.wait()))

    def _wait(self, code: int, deadline: float | None) -> int:
        """Wait until all ranks have ended, and end those that go on for too long after one failed. Returns the exit
        code: `code` if it is not 0, else that of the first that failed."""
        sent = 0
        while len(self.ended) < self.options.ranks:
            try:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                rank, what, number = self.events.get(timeout=left)
            except queue.Empty:
                sent += 1
                self._signal(signal.SIGTERM if sent == 1 else signal.SIGKILL)
                deadline = time.monotonic() + 2.0
                continue
            if rank is None:  # mpiexec has ended, and with it the ranks
                return code or number or 1
            if what == "started":
                self.running[rank] = number
                continue
            self.running.pop(rank, None)
            self.ended[rank] = number
            if number and not code:
                code = number if number > 0 else 128 - number  # ended by a signal: as shells have it
                deadline = time.monotonic() + self.options.grace
                reason = f"exit code {number}" if number > 0 else f"signal {-number}"
                print(f"weft.distributed.run: rank {rank} failed ({reason})", file=sys.stderr, flush=True)
        return code

    def _signal(self, number: int) -> None:
        for process in list(self.running.values()):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue

    def _end_all(self, process: subprocess.Popen[bytes]) -> None:
        self._signal(signal.SIGKILL)
        for connection in self.connections:
            try:
                connection.send("end")
            except OSError:
                continue
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
