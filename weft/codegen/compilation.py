"""A program's functions to object code while the rest of it is still being written, in several threads.

Functions are compiled in modules of BATCH instructions, in the order in which they are written; there is no
optimisation across functions, so their code is the same in whatever module they are. A module is parsed where it was
written; a worker then makes one call into LLVM, which holds neither Python's lock nor llvmlite's. That is safe: a
module has an LLVM context of its own, and a thread has a code generator of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from weft.codegen.compiler import CodegenError, new_machine, parsed
from weft.codegen.emit import Module
from weft.codegen.emit.module import Function, unwatched
from weft.codegen.target import Target
from weft.runtime.pool import get_num_threads
from weft.support.counters import counters
from weft.support.progress import progress

if TYPE_CHECKING:
    import llvmlite.binding as llvm_binding

BATCH = 400  # instructions: 10 to 15 ms of LLVM; a module costs 1.3 ms whatever is in it
MAX_THREADS = 8


class Compilation:
    """The object code of one module, compiled in parts. A context manager: no thread is at work behind its end.

    module: told here before anything is written to it. threads: how many may compile, the caller included; with one
    there is one part.
    """

    def __init__(self, module: Module, target: Target, threads: int | None = None) -> None:
        self._module, self._target = module, target
        self._threads = min(get_num_threads(), MAX_THREADS) if threads is None else threads
        self._batch: list[Function] = []
        self._sent: set[str] = set()
        self._parts: list[Part] = []
        self._waiting: queue.SimpleQueue[Part | None] = queue.SimpleQueue()
        self._workers: list[threading.Thread] = []
        if self._threads > 1:
            module.finished = self._finished

    def objects(self, meanwhile: Callable[[], object] = lambda: None) -> tuple[bytes, ...]:
        """Object code of all functions of the module, to be linked together. meanwhile: what the caller has to do in
        any case, done where it would wait for the other threads. Raises CodegenError with the offending function's
        text. Counts one in `counters.llvm_compiles`."""
        counters.llvm_compiles += 1
        rest = [name for name, f in self._module.functions.items() if name not in self._sent and not f.is_internal]
        self._send(self._module.text(rest if self._sent else None))
        progress().stage("generating code", len(self._parts), "modules")
        machine = new_machine(self._target)
        while (part := self._next()) is not None:
            part.compile(machine)
            progress().done = sum(p.is_done for p in self._parts)
        meanwhile()
        self._end()
        return tuple(part.code() for part in self._parts)

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._module.finished = unwatched  # (what is let go of without `close` goes in the order of its references)
        while self._next() is not None:
            pass
        self._end()
        for part in self._parts:
            part.close()

    def _finished(self, function: Function) -> None:
        self._batch.append(function)
        if sum(f.size for f in self._batch) < BATCH:
            return
        names = [f.name for f in self._batch]
        self._batch = []
        self._sent.update(names)
        self._send(self._module.text(names))
        if len(self._workers) < self._threads - 1:
            self._start_worker()

    def _start_worker(self) -> None:
        worker = threading.Thread(
            target=_work, args=(self._waiting, new_machine(self._target)), name="weft-compile", daemon=True
        )
        try:
            worker.start()
        except RuntimeError:  # the process may have no more threads, or is about to end: this one does all
            self._threads = 1
            return
        self._workers.append(worker)

    def _send(self, text: str) -> None:
        part = Part(text, self._target)
        self._parts.append(part)
        self._waiting.put(part)

    def _next(self) -> Part | None:
        """A part that nobody is at work on."""
        with contextlib.suppress(queue.Empty):
            return self._waiting.get_nowait()
        return None

    def _end(self) -> None:
        for _ in self._workers:
            self._waiting.put(None)
        for worker in self._workers:
            worker.join()
        self._workers = []


def _work(waiting: queue.SimpleQueue[Part | None], machine: llvm_binding.TargetMachine) -> None:
    while (part := waiting.get()) is not None:
        part.compile(machine)


class Part:
    """One LLVM module, parsed."""

    def __init__(self, text: str, target: Target) -> None:
        import llvmlite.binding as llvm  # heavy: kept out of `import weft`

        self._ffi, self._context = llvm.ffi, llvm.create_context()
        self._module = parsed(text, target, self._context)
        self._error = llvm.ffi.OutputString()
        self._buffer: Any = None
        self.is_done = False

    def compile(self, machine: llvm_binding.TargetMachine) -> None:
        """Generate its code: one call, so that Python's lock is waited for once."""
        emit = self._ffi.lib.LLVMPY_TargetMachineEmitToMemory
        emit = getattr(emit, "_cfn", emit)  # llvmlite's function within its lock
        with _running:
            self._buffer = emit(machine, self._module, 1, self._error)
        self.is_done = True

    def code(self) -> bytes:
        """Its object code. Raises CodegenError."""
        lib = self._ffi.lib
        if not self._buffer:
            raise CodegenError(f"generated code does not compile: {self._error}")
        return ctypes.string_at(lib.LLVMPY_GetBufferStart(self._buffer), lib.LLVMPY_GetBufferSize(self._buffer))

    def close(self) -> None:
        """Let go of what LLVM holds: the module before its context, as the garbage collector would not promise."""
        if self._buffer:
            self._ffi.lib.LLVMPY_DisposeMemoryBuffer(self._buffer)
            self._buffer = None
        self._module.close()
        self._context.close()


class _Running:
    """Calls into LLVM that llvmlite's lock does not know of. A fork waits for their end: its child would find LLVM's
    own locks held by threads that it has not."""

    def __init__(self) -> None:
        self._changed, self._count = threading.Condition(), 0

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait until there is none, and let none begin."""
        self._changed.acquire()
        while self._count:
            self._changed.wait()

    def after_fork(self) -> None:
        """Let them go on."""
        self._changed.release()


_running = _Running()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_running.before_fork, after_in_parent=_running.after_fork, after_in_child=_running.after_fork
    )
