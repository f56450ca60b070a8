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
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from weft.codegen.compiler import CodegenError, new_machine, parsed
from weft.codegen.emit import Module
from weft.codegen.emit.module import Function, unwatched
from weft.codegen.kernel_store import KernelObject, KernelStore, digest_of, renamed
from weft.codegen.target import Target
from weft.runtime.pool import get_num_threads
from weft.support.counters import counters
from weft.support.interrupts import to_the_end
from weft.support.progress import progress

if TYPE_CHECKING:
    import llvmlite.binding as llvm_binding

BATCH = 400  # instructions: 10 to 15 ms of LLVM; a module costs 1.3 ms whatever is in it
MAX_THREADS = 8


class Compilation:
    """The object code of one module, compiled in parts. A context manager: no thread is at work behind its end.

    module: told here before anything is written to it. threads: how many may compile, the caller included; with one
    no part is sent before the end. store: has kernels that need not be compiled, and gets the others.
    """

    def __init__(
        self, module: Module, target: Target, threads: int | None = None, store: KernelStore | None = None
    ) -> None:
        self._module, self._target, self._store = module, target, store
        self._threads = min(get_num_threads(), MAX_THREADS) if threads is None else threads
        self._batch: list[Function] = []  # of functions that no other program can take over
        self._kernels: dict[str, list[Function]] = {}  # of those that another one can: those of each digest
        self._own: dict[str, str] = {}  # what all of them are called in the objects
        self._symbols: dict[str, str] = {}  # what kernels are called in the objects, by their names in the module
        self._taken: list[KernelObject] = []  # objects of earlier programs
        self._sent: set[str] = set()
        self._parts: list[Part] = []
        self._waiting: queue.SimpleQueue[Part | None] = queue.SimpleQueue()
        self._workers: list[tuple[threading.Thread, threading.Event]] = []  # the event: it is done with all parts
        if self._threads > 1 or store is not None:
            module.finished = self._finished

    def objects(self, meanwhile: Callable[[], object] = lambda: None) -> tuple[bytes, ...]:
        """Object code of all functions of the module, to be linked together. meanwhile: what the caller has to do in
        any case, done where it would wait for the other threads. Raises CodegenError with the offending function's
        text. Counts one in `counters.llvm_compiles`."""
        counters.llvm_compiles += 1
        self._send_kernels()
        rest = [name for name, f in self._module.functions.items() if name not in self._sent and not f.is_internal]
        self._send(self._module.text(rest if self._sent else None))
        progress().stage("generating code", len(self._parts), "modules")
        machine = new_machine(self._target)
        while (part := self._next()) is not None:
            part.compile(machine)
            progress().done = sum(p.is_done for p in self._parts)
        meanwhile()
        self._end()
        codes = [part.code() for part in self._parts]
        if self._store is not None:
            for part, code in zip(self._parts, codes, strict=True):
                if part.symbols:
                    self._store.add(KernelObject(part.symbols, code))
        return (*codes, *[taken.code for taken in self._taken])

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._module.finished = unwatched  # (what is let go of without `close` goes in the order of its references)
        to_the_end(self._leave)

    def _leave(self) -> None:
        while self._next() is not None:
            pass
        self._end()
        for part in self._parts:
            part.close()

    def _finished(self, function: Function) -> None:
        digest = None if self._store is None else digest_of(function)
        if digest is None:
            self._batch.append(function)
            batch = self._batch
        elif self._is_there(function, digest):
            return
        else:
            self._symbols[function.name] = self._own[digest] = f"{function.name}_{digest}"
            self._kernels[digest] = [function]
            batch = [first for first, *_ in self._kernels.values()]
        if self._threads == 1 or sum(f.size for f in batch) < BATCH:
            return
        if digest is None:
            names = [f.name for f in self._batch]
            self._batch = []
            self._sent.update(names)
            self._send(self._module.text(names))
        else:
            self._send_kernels()
        if len(self._workers) < self._threads - 1:
            self._start_worker()

    def _is_there(self, function: Function, digest: str) -> bool:
        """Whether this program has the kernel already, or an earlier one had, whose object is taken over."""
        assert self._store is not None
        symbols = next((s for s in (self._own, *[o.symbols for o in self._taken]) if digest in s), None)
        if symbols is None:
            taken = self._store.find(digest)
            if taken is None or not self._own.keys().isdisjoint(taken.symbols):  # (one of its neighbours is here)
                return False
            self._taken.append(taken)
            symbols = taken.symbols
        if digest in self._kernels:
            self._kernels[digest].append(function)
        self._symbols[function.name] = symbols[digest]
        self._sent.add(function.name)
        return True

    def _send_kernels(self) -> None:
        """Send the kernels that wait, one of each digest, but for those that the module has let go of."""
        there = self._module.functions
        kept = {d: next((f for f in same if f.name in there), None) for d, same in self._kernels.items()}
        functions = {digest: f for digest, f in kept.items() if f is not None}
        self._sent.update(f.name for same in self._kernels.values() for f in same)
        self._kernels = {}
        if functions:
            symbols = {digest: self._symbols[f.name] for digest, f in functions.items()}
            self._send(self._module.text([f.name for f in functions.values()]), symbols)

    def _start_worker(self) -> None:
        ended = threading.Event()
        worker = threading.Thread(
            target=_work, args=(self._waiting, new_machine(self._target), ended), name="weft-compile", daemon=True
        )
        try:
            worker.start()
        except RuntimeError:  # the process may have no more threads, or is about to end: this one does all
            self._threads = 1
            return
        self._workers.append((worker, ended))

    def _send(self, text: str, symbols: Mapping[str, str] = MappingProxyType({})) -> None:
        part = Part(renamed(text, self._symbols), self._target, symbols)
        self._parts.append(part)
        self._waiting.put(part)

    def _next(self) -> Part | None:
        """A part that nobody is at work on."""
        with contextlib.suppress(queue.Empty):
            return self._waiting.get_nowait()
        return None

    def _end(self) -> None:
        for _ in range(self._threads):  # (an interrupt may have come before a thread that runs was noted)
            self._waiting.put(None)
        for worker, ended in self._workers:
            ended.wait()  # (an interrupted join takes a thread that runs for one that has ended)
            worker.join(LONGEST_END)
        self._workers = []


LONGEST_END = 1.0  # seconds; what an interrupt left of llvmlite's lock may keep a thread that has done its work


def _work(
    waiting: queue.SimpleQueue[Part | None], machine: llvm_binding.TargetMachine, ended: threading.Event
) -> None:
    try:
        while (part := waiting.get()) is not None:
            part.compile(machine)
    finally:
        ended.set()


class Part:
    """One LLVM module, parsed. symbols: of kernels in it, by digest."""

    def __init__(self, text: str, target: Target, symbols: Mapping[str, str] = MappingProxyType({})) -> None:
        import llvmlite.binding as llvm  # heavy: kept out of `import weft`

        self._ffi, self._context = llvm.ffi, llvm.create_context()
        self._module = parsed(text, target, self._context)
        self._error = llvm.ffi.OutputString()
        self._buffer: Any = None
        self._lock, self._is_closed = threading.Lock(), False  # LLVM may be at work on it while an interrupt closes it
        self.symbols, self.is_done = symbols, False

    def compile(self, machine: llvm_binding.TargetMachine) -> None:
        """Generate its code: one call, so that Python's lock is waited for once."""
        emit = self._ffi.lib.LLVMPY_TargetMachineEmitToMemory
        emit = getattr(emit, "_cfn", emit)  # llvmlite's function within its lock
        with self._lock, _running:
            if not self._is_closed:
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
        with self._lock:
            self._is_closed = True
            buffer, self._buffer = self._buffer, None
            if buffer:
                self._ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)
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
