"""One rank that weft.distributed.run started: it runs the script in a process of its own, with its rank before every
line, and tells the launcher how that ended. It stays until the launcher has heard of all ranks: mpiexec would end the
others at once when it goes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from multiprocessing.connection import Client, Connection
from typing import Any, BinaryIO

from weft.distributed.launched import LAUNCHER, read_launched


def main(script: list[str]) -> int:
    """Run the script and report. Returns 0: the launcher knows the exit code."""
    launched = read_launched()
    rank = 0 if launched is None else launched.rank
    key, _, address = os.environ.pop(LAUNCHER).partition(" ")
    connection = Client(address, authkey=bytes.fromhex(key))
    child = subprocess.Popen(
        [sys.executable, *script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), LAUNCHER: "yes"},
        close_fds=False,  # the child is the process that speaks to mpiexec
    )
    connection.send((rank, "started", child.pid))
    threading.Thread(target=_end_with_launcher, args=(connection, child), daemon=True).start()
    pumps = [
        threading.Thread(target=_pump, args=(source, target, f"[{rank}] ".encode()))
        for source, target in ((child.stdout, sys.stdout.buffer), (child.stderr, sys.stderr.buffer))
    ]
    for pump in pumps:
        pump.start()
    code = child.wait()
    for pump in pumps:
        pump.join(5)  # a grandchild may hold the pipe
    connection.send((rank, "ended", code))
    _all_ended.wait()
    return 0


_all_ended = threading.Event()


def _end_with_launcher(connection: Connection, child: subprocess.Popen[bytes]) -> None:
    """Wait for the launcher's word that all ranks have ended; where the launcher itself is gone, end the script."""
    try:
        connection.recv()
    except (EOFError, OSError):
        child.kill()
    _all_ended.set()


def _pump(source: Any, target: BinaryIO, prefix: bytes) -> None:
    for line in source:
        target.write(prefix + line)
        target.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
