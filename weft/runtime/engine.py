"""Object code to addresses: one ORC engine for the process, one library for each loaded object."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from weft.support.errors import StateError

_numbers = itertools.count()


class Library:
    """A loaded object. Its code stays mapped while this handle lives; whoever calls an address must hold it.

    Every object is a library of its own, so two objects may define the same symbol. Undefined symbols are looked up
    in the process (libc, libm, Python's C-API).
    """

    def __init__(self, tracker: Any, addresses: dict[str, int]) -> None:
        self._tracker = tracker
        self._addresses = addresses

    def __getitem__(self, name: str) -> int:
        """Address of an exported symbol. Raises KeyError."""
        return self._addresses[name]

    @property
    def exports(self) -> tuple[str, ...]:
        return tuple(sorted(self._addresses))


def load(data: bytes, exports: Iterable[str], imports: Mapping[str, int] = MappingProxyType({})) -> Library:
    """Map object code into the process and find `exports`. `imports`: addresses of symbols that the process itself does not have; whoever
    owns them keeps them mapped.

    Raises StateError if the object or a symbol in it cannot be resolved.
    """
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    names = tuple(exports)

    def link() -> Any:
        builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        # A library's name can never be used again, hence the running number.
        return builder.link(_engine(), f"weft-{next(_numbers)}")

    try:
        try:
            tracker = link()
        except RuntimeError:  # seen once under heavy load, with nothing missing: the same object loads the second time
            tracker = link()
    except RuntimeError as problem:
        raise StateError(f"generated code cannot be loaded: {problem}") from None
    return Library(tracker, {name: tracker[name] for name in names})


@functools.cache
def _engine() -> Any:
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    # Never closed: at exit llvmlite leaves everything mapped, so a thread that still runs code is harmless.
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="default", jit=True)
    # JITLink loads a large object 3 times faster than the older linker; it does not cover Windows well.
    return llvm.create_lljit_compiler(machine, use_jit_link=sys.platform != "win32")
