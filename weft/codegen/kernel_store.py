"""Kernels that programs of this process were compiled with: one that comes again, in another program, is not compiled
again.

What comes again is the text of a function with all that it refers to. Functions are compiled several in an object
(compilation.py), so a program that takes one over gets its neighbours too.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from weft.codegen.emit import Module
from weft.codegen.emit.module import Function
from weft.support import limits

_SYMBOL = re.compile(r"@([\w.$]+)")
_DEFINED = re.compile(r"^(?:define [^@]*)?@([\w.$]+)", re.MULTILINE)
_NUMBERED = re.compile(r"[#!]\d+")  # a reference to a group of attributes, or to metadata


@dataclass(frozen=True, eq=False)
class KernelObject:
    """Object code of kernels that refer to none outside of it. symbols: the name of each there, by its digest."""

    symbols: Mapping[str, str]
    code: bytes


class KernelStore:
    """Kernels by digest. The object that was not used for the longest time goes when there are more than `limit`
    bytes."""

    def __init__(self, limit: int = limits.KERNELS) -> None:
        self._limit, self._bytes = limit, 0
        self._of_digest: dict[str, KernelObject] = {}
        self._objects: OrderedDict[KernelObject, None] = OrderedDict()  # the latest used last
        self._lock = threading.Lock()

    def find(self, digest: str) -> KernelObject | None:
        """The object that has a kernel."""
        with self._lock:
            kept = self._of_digest.get(digest)
            if kept is not None:
                self._objects.move_to_end(kept)
            return kept

    def add(self, new: KernelObject) -> None:
        """Keep an object, unless there is one for some of its kernels: no two define the same."""
        with self._lock:
            if not self._of_digest.keys().isdisjoint(new.symbols):
                return
            self._of_digest.update(dict.fromkeys(new.symbols, new))
            self._objects[new] = None
            self._bytes += len(new.code)
            while self._bytes > self._limit:
                oldest, _ = self._objects.popitem(last=False)
                self._bytes -= len(oldest.code)
                for digest in oldest.symbols:
                    del self._of_digest[digest]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._of_digest.clear()
            self._objects.clear()
            self._bytes = 0


store = KernelStore()
if hasattr(os, "register_at_fork"):  # the child would find the lock held by a thread that it has not
    os.register_at_fork(
        before=store._lock.acquire, after_in_parent=store._lock.release, after_in_child=store._lock.release
    )


def digest_of(function: Function) -> str | None:
    """What names a kernel, whatever its module calls it: its text, with the text of what it refers to. None for one
    that refers to other kernels, or to memory that its module has."""
    module, name = function.module, function.name
    text = module.text([name])
    if " internal global " in text or any(_is_kernel(module, s) for s in set(_SYMBOL.findall(text)) if s != name):
        return None
    heads = ("attributes #", "!")
    lines = text.split("\n")
    body = "\n".join([line for line in lines if not line.startswith(heads)])
    used = set(_NUMBERED.findall(body))
    notes = [line for line in lines if line.startswith(heads) and _NUMBERED.search(line)[0] in used]  # type: ignore[index]
    numbers: dict[str, str] = {name: "@kernel"}  # what the text defines goes by its order
    defined = set(_DEFINED.findall(body))
    body = _SYMBOL.sub(lambda m: numbers.setdefault(m[1], f"@{len(numbers)}") if m[1] in defined else m[0], body)
    return hashlib.blake2b("\n".join([body, *notes]).encode(), digest_size=12).hexdigest()


def renamed(text: str, symbols: Mapping[str, str]) -> str:
    """LLVM text in which symbols have other names; several may get the same one."""
    if not symbols:
        return text
    lines = _SYMBOL.sub(lambda m: "@" + symbols.get(m[1], m[1]), text).split("\n")
    declared = dict.fromkeys(line for line in lines if line.startswith("declare "))
    return "\n".join([*(line for line in lines if not line.startswith("declare ")), *declared])


def _is_kernel(module: Module, name: str) -> bool:
    function = module.functions.get(name)
    return function is not None and not function.is_internal
