"""weft.multiprocessing: Python's multiprocessing under PyTorch's name, with `spawn`. A tensor that goes to another
process is copied: processes do not share the memory of tensors."""

from __future__ import annotations

import multiprocessing as _processes
import sys as _sys
from collections.abc import Callable, Sequence
from multiprocessing import *  # noqa: F403  (what PyTorch's module shows too)
from typing import Any

from weft.support.errors import StateError, ValueProblem

__all__ = [
    *_processes.__all__,
    "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies",
    "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]
_STRATEGY = "file_system"


def get_all_sharing_strategies() -> set[str]:
    """How memory may be shared: one name, under which tensors are copied."""
    return {_STRATEGY}


def get_sharing_strategy() -> str:
    """"file_system"."""
    return _STRATEGY


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose "file_system". Raises ValueProblem for another one."""
    if new_strategy != _STRATEGY:
        raise ValueProblem(f"set_sharing_strategy: there is {_STRATEGY!r} only, got {new_strategy!r}")


class ProcessExitedException(StateError):
    """A process ended before its function did."""

    def __init__(
        self, msg: str, error_index: int = 0, error_pid: int | None = None, exit_code: int | None = None
    ) -> None:
        super().__init__(msg)
        self.error_index, self.error_pid, self.exit_code = error_index, error_pid, exit_code


class ProcessRaisedException(StateError):
    """The function of a process raised an error, whose traceback is the message."""

    def __init__(self, msg: str, error_index: int = 0, error_pid: int | None = None) -> None:
        super().__init__(msg)
        self.error_index, self.error_pid = error_index, error_pid


def _run(fn: Callable[..., Any], index: int, args: Sequence[Any], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        import traceback

        errors.put(traceback.format_exc())
        _sys.exit(1)


class SpawnContext:
    """The processes that `spawn` has started."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self.errors = processes, errors

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Wait until one process has failed, or all are through; whether they are. The others are ended when one
        fails. Raises ProcessRaisedException, ProcessExitedException."""
        from multiprocessing.connection import wait

        running = {p.sentinel: i for i, p in enumerate(self.processes) if p.exitcode is None}
        for sentinel in wait(list(running), timeout) if running else ():
            self.processes[running[sentinel]].join()
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode), None)
        if failed is None:
            return all(p.exitcode == 0 for p in self.processes)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        self._raise(failed)
        return False

    def _raise(self, index: int) -> None:
        process = self.processes[index]
        if self.errors[index].empty():
            raise ProcessExitedException(
                f"process {index} terminated with exit code {process.exitcode}", index, process.pid, process.exitcode
            )
        text = self.errors[index].get()
        raise ProcessRaisedException(
            f"-- Process {index} terminated with the following error:\n{text}", index, process.pid
        )


def start_processes(
    fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> SpawnContext | None:
    """Run `fn(i, *args)` in nprocs processes. join: wait for all of them; else a SpawnContext, whose `join` waits."""
    context: Any = _processes.get_context(start_method)
    errors = [context.SimpleQueue() for _ in range(nprocs)]
    processes = [
        context.Process(target=_run, args=(fn, i, args, errors[i]), daemon=daemon) for i in range(nprocs)
    ]
    for process in processes:
        process.start()
    spawned = SpawnContext(processes, errors)
    if not join:
        return spawned
    while not spawned.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> SpawnContext | None:
    """`start_processes` with processes that begin afresh."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
