"""Object code to addresses: one library for each loaded object, in ORC engines that go when their
libraries have gone."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from weft.support.errors import StateError

_Made = TypeVar("_Made", bound=Callable[..., Any])
_numbers = itertools.count()
_exits: list[bool] = []
_making = threading.RLock()


def once(make: _Made) -> _Made:
    """functools.cache for what the process has one of, also when several threads ask first at once.

    functools.cache alone would run `make` in each of them and let go of all results but one,
    while the code of the others is already linked to.
    """
    kept = functools.cache(make)

    @functools.wraps(make)
    def get(*args: Any) -> Any:
        with _making:
            return kept(*args)

    return get  # type: ignore[return-value]


class Library:
    """A loaded object. Its code stays mapped while this handle lives; whoever calls an address must hold it.

    Every object is a library of its own, so two objects may define the same symbol. Undefined symbols are looked up
    in the process (libc, libm, Python's C-API).
    """

    def __init__(self, tracker: Any, addresses: dict[str, int], engine: _Engine) -> None:
        self._tracker = tracker
        self._addresses = addresses
        self._engine = engine
        engine.live.add(id(self))
        _engines.add(engine)

    def __del__(self, exits: Sequence[bool] = _exits) -> None:
        if exits:  # what still runs may go on (and the module's own names may be gone)
            return
        self._tracker.close()  # before the engine, whatever order the garbage collector has in mind
        self._engine.leave(id(self))

    def __getitem__(self, name: str) -> int:
        """Address of an exported symbol. Raises KeyError."""
        return self._addresses[name]

    @property
    def exports(self) -> tuple[str, ...]:
        return tuple(sorted(self._addresses))


def load(
    data: bytes | Sequence[bytes], exports: Iterable[str], imports: Mapping[str, int] = MappingProxyType({})
) -> Library:
    """Map object code into the process and find `exports`. data: one object, or several that call each other.
    imports: addresses of symbols that the process itself does not have; whoever owns them keeps them mapped.

    Raises StateError if the object or a symbol in it cannot be resolved.
    """
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    names = tuple(exports)
    images = (data,) if isinstance(data, bytes) else data

    def link() -> Any:
        builder = llvm.JITLibraryBuilder().add_current_process()
        for image in images:
            builder.add_object_img(image)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        # A library's name can never be used again, hence the running number.
        return builder.link(engine.jit, f"weft-{next(_numbers)}")

    with _making:
        engine = _room()
        try:
            try:
                tracker = link()
            # seen once under heavy load, with nothing missing: the same object loads the second time
            except RuntimeError:
                tracker = link()
        except RuntimeError as problem:
            raise StateError(f"generated code cannot be loaded: {problem}") from None
        return Library(tracker, {name: tracker[name] for name in names}, engine)


# ---- engines
LIBRARIES = 64  # in one engine: each leaves some 9 KB in it when it goes, and an engine costs 0.8 ms
_engines: set[_Engine] = set()  # those that have libraries, and the one that takes the next
_latest: list[_Engine] = []


class _Engine:
    """An ORC engine. `room`: how many more libraries it takes; `live`: those that are there."""

    __slots__ = ("jit", "live", "room")

    def __init__(self) -> None:
        self.jit = _new_jit()
        self.live: set[int] = set()
        self.room = LIBRARIES
        _engines.add(self)

    def leave(self, library: int) -> None:
        """A library is gone. An engine that takes no more goes with its last."""
        self.live.discard(library)
        if not self.room and not self.live:
            _engines.discard(self)


def _room() -> _Engine:
    """The engine for one more library."""
    if not _latest or not _latest[0].room:
        for full in _latest:
            full.leave(0)
        _latest[:] = [_Engine()]
    engine = _latest[0]
    engine.room -= 1
    return engine


def _new_jit() -> Any:
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    if not _engines:
        # at exit everything stays mapped, so a thread that still runs code is harmless
        atexit.register(_exits.append, True)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="default", jit=True)
    # JITLink loads a large object 3 times faster than the older linker; it does not cover Windows well.
    return llvm.create_lljit_compiler(machine, use_jit_link=sys.platform != "win32")


# ---- a fork takes along whatever state other threads are in: it waits until nobody makes or links code,
# so that the child may
_held: list[Any] = []


def _before_fork() -> None:
    _making.acquire()
    ffi = sys.modules.get("llvmlite.binding.ffi")
    lock = getattr(getattr(ffi, "lib", None), "_lock", None)  # llvmlite's own, around each of its calls
    if lock is not None:
        lock.__enter__()
    _held.append(lock)


def _after_fork() -> None:
    lock = _held.pop()
    if lock is not None:
        lock.__exit__(None, None, None)
    _making.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
