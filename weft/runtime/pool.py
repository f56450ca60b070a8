"""The worker pool: native threads that share the chunks of a parallel region with its caller.

Generated code calls `void weft_parallel(ptr pool, ptr body, ptr argument, i64 chunks)`, where body is `void(ptr
argument, i64 chunk, i64 chunks, i64 thread)`; thread 0 is the caller. Pool and function address travel in the
program's frame. Chunk counts depend on shapes only, so results are the same for every number of threads. A region costs
under a microsecond while the workers are awake; bodies below 10 to 20 microseconds are better left serial, and that is
the caller's decision.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
import threading
import time
import weakref

from weft.runtime import pool_ir
from weft.runtime.engine import Library
from weft.support.errors import ValueProblem
from weft.support.knobs import knobs

SPIN = 2000  # pauses before a worker sleeps: 30 to 100 us of one core for an isolated region
MAX_THREADS = pool_ir.MAX_CHUNKS

_live: weakref.WeakSet[Pool] = weakref.WeakSet()
_wanted: int | None = None


def can_have_workers() -> bool:
    """Whether threads may be started: Linux (the workers sleep on futex), and WEFT_POOL is not `serial`."""
    return sys.platform.startswith("linux") and str(knobs.pool) != "serial"


def get_num_threads() -> int:
    """Threads of a parallel region, the caller included. WEFT_NUM_THREADS, else OMP_NUM_THREADS, else the number of
    available cores."""
    return _wanted if _wanted is not None else _default_threads()


def set_num_threads(count: int) -> None:
    """Use `count` threads, the caller included, from the next region on. Raises ValueProblem unless 1 <= count."""
    global _wanted
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueProblem(f"set_num_threads: expected a positive integer, got {count!r}")
    _wanted = min(count, MAX_THREADS)
    for pool in list(_live):
        pool.resize(_wanted)


def _take_knob(count: int) -> None:
    if _wanted is None and _live:
        for pool in list(_live):
            pool.resize(get_num_threads())


knobs.follow("num_threads", _take_knob)


class Pool:
    """Workers plus the memory they meet in. `address` and `parallel` go into a program's frame.

    library: the loaded `pool_module`, exporting POOL_EXPORTS. It and the state stay alive with the pool; a pool that
    generated code refers to must outlive that code's last call, so use the process's shared one.
    """

    def __init__(self, library: Library, threads: int | None = None) -> None:
        self._library = library
        self._memory = ctypes.create_string_buffer(pool_ir.STATE_BYTES + 64)
        self.address = (ctypes.addressof(self._memory) + 63) & ~63
        self.parallel = library["weft_parallel"]
        self._lock = _function(library, "weft_pool_lock", ctypes.c_int64)
        self._unlock = _function(library, "weft_pool_unlock", None)
        self._stop = _function(library, "weft_pool_stop", None)
        self._resizing = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._start((threads or get_num_threads()) - 1)
        _live.add(self)

    @property
    def threads(self) -> int:
        """Threads of a region, the caller included."""
        return len(self._workers) + 1

    def resize(self, threads: int) -> None:
        """Have `threads` threads, the caller included. Waits for a running region; others run serially meanwhile."""
        with self._resizing:
            if threads == self.threads:
                return
            self._acquire()
            self._join()
            self._start(threads - 1)
            self._unlock(self.address)

    def close(self) -> None:
        """Stop and join the workers; regions still work, on their callers."""
        self.resize(1)

    def _acquire(self) -> None:
        while not self._lock(self.address):
            time.sleep(50e-6)

    def _join(self) -> None:
        self._word(pool_ir.WORKERS).value = 0
        self._stop(self.address)
        for worker in self._workers:
            worker.join()
        self._workers = []
        ctypes.c_int32.from_address(self.address + pool_ir.STOP).value = 0

    def _start(self, count: int) -> None:
        if not can_have_workers():
            count = 0
        self._word(pool_ir.SPIN).value = SPIN
        cores = worker_cores(count)
        entry = self._library["weft_pool_worker"]
        self._workers = [
            threading.Thread(
                target=_work,
                args=(self._library, entry, self.address, number, cores[number - 1]),
                name=f"weft-worker-{number}",
                daemon=True,
            )
            for number in range(1, count + 1)
        ]
        self._word(pool_ir.WORKERS).value = count
        for worker in self._workers:
            worker.start()

    def _word(self, offset: int) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.address + offset)

    def _restart_after_fork(self) -> None:
        """In a forked child no worker exists, and a word may have been caught half-way: begin again in place."""
        count = len(self._workers)
        ctypes.memset(self.address, 0, pool_ir.STATE_BYTES)
        self._resizing = threading.Lock()
        self._start(count)


def _function(library: Library, name: str, result: type[ctypes.c_int64] | None) -> ctypes._FuncPointer:
    return ctypes.CFUNCTYPE(result, ctypes.c_void_p)(library[name])


def _work(library: Library, entry: int, address: int, number: int, core: int | None) -> None:
    """A worker's life: pinned, then in native code without the GIL until the pool stops. Holds the library."""
    if core is not None:
        with contextlib.suppress(OSError):  # the core went away; a free worker is slower, not wrong
            os.sched_setaffinity(0, {core})
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(entry)(address, number)


def worker_cores(count: int) -> list[int | None]:
    """The core that each of `count` workers is pinned to; None is unpinned.

    Left alone, the kernel sometimes keeps a worker on its caller's core. The caller is never pinned, so it can move
    away. With more threads than cores nobody is pinned; with fewer, the choice starts at a place that depends on
    the process, so that several processes do not meet on the same cores.
    """
    cores = available_cores()
    if count >= len(cores):
        return [None] * count
    start = 1 if count == len(cores) - 1 else os.getpid()
    return [cores[(start + i) % len(cores)] for i in range(count)]


def available_cores() -> list[int]:
    """One logical processor for each physical core that this process may use."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    seen: set[str] = set()
    cores = []
    for processor in sorted(os.sched_getaffinity(0)):
        core = _siblings(processor)
        if core not in seen:
            seen.add(core)
            cores.append(processor)
    return cores


def _siblings(processor: int) -> str:
    """The hardware threads of a processor's core, as the kernel writes them; the processor itself if unknown."""
    try:
        with open(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list") as file:
            return file.read()
    except OSError:
        return str(processor)


def _default_threads() -> int:
    return min(knobs.num_threads or min(len(available_cores()), _quota()), MAX_THREADS)


def _quota() -> int:
    """Cores' worth of time that the control group allows, rounded up; without a limit, a large number."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            allowed, period = file.read().split()
        return max(1, -(-int(allowed) // int(period)))
    except (OSError, ValueError):
        return MAX_THREADS


def _restart_all() -> None:
    for pool in list(_live):
        pool._restart_after_fork()


def _close_all() -> None:
    """Before the interpreter goes: a worker that spins must not outlive what it runs."""
    for pool in list(_live):
        pool.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_all)
atexit.register(_close_all)
