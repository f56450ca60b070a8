"""The process's native services: build a module (cached), and the shared worker pool and call gate made with it."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from weft.codegen.compiler import compile_object, object_key
from weft.codegen.program_key import program_key
from weft.codegen.shared_code import CONVOLUTIONS, GATE, LAUNCHING, POOL, PRODUCTS, PROFILE, SharedCode
from weft.codegen.shipped import shipped_object
from weft.codegen.target import Target, host_target
from weft.runtime.cache import user_cache
from weft.runtime.engine import Library, load, once
from weft.runtime.native_call import NativeCaller, has_gate
from weft.runtime.pool import Pool, can_have_workers
from weft.runtime.pool_ir import POOL_EXPORTS, pool_module
from weft.runtime.profile_filter import ProfileFilter, can_filter
from weft.support.errors import StateError


def build(
    module_text: str, exports: Iterable[str], target: Target | None = None,
    imports: Mapping[str, int] = MappingProxyType({}),
) -> Library:
    """Compile (or fetch) and load a module for this process. imports: addresses of functions that it calls,
    beside the matrix products, which are at hand. Raises CodegenError, StateError."""
    target = target or host_target()

    def load_it(code: bytes) -> Library:
        return load(code, exports, {**products_in([code], target), **imports})

    return _cached_or_made(object_key(module_text, target), lambda: compile_object(module_text, target), load_it)


def _cached_or_made(key: str, make: Callable[[], bytes], load_it: Callable[[bytes], Library]) -> Library:
    """The library of an entry of the disk cache; where there is none, or none that can be loaded,
    it is made and put there."""
    cache = user_cache()
    cached = cache.get(key)
    if cached is not None:
        with contextlib.suppress(StateError):
            return load_it(cached)
    code = make()
    cache.put(key, code)
    return load_it(code)


def products_in(objects: Sequence[bytes], target: Target) -> dict[str, int]:
    """Addresses of the matrix products and convolutions that object code may call: its symbol tables name them."""
    addresses: dict[str, int] = {}
    for code in (*PRODUCTS.values(), *CONVOLUTIONS.values()):
        names = [name.encode() + b"\0" for name in code.exports(target)]
        if any(name in object for name in names for object in objects):
            library = shared_library(code, target)
            addresses.update((name, library[name]) for name in library.exports)
    return addresses


@once
def shared_library(code: SharedCode, target: Target) -> Library:
    """A shared module, loaded once for this process: the object that came with weft, else compiled once for this
    machine."""
    exports = code.exports(target)
    shipped = shipped_object(code, target)
    if shipped is not None:
        with contextlib.suppress(StateError):
            return load(shipped, exports)
    # by the compiler's files: writing the text only to hash it may cost more than loading the code
    key = program_key(code.name, target)
    return _cached_or_made(key, lambda: compile_object(code.text(target), target), lambda data: load(data, exports))


def services(target: Target) -> Library:
    """What every program calls."""
    return shared_library(LAUNCHING, target)


def clock_reader() -> Callable[[], int]:
    """A function that reads the processor's clock, as native code does."""
    return ctypes.CFUNCTYPE(ctypes.c_int64)(services(host_target())["weft_ticks"])


@once
def native_caller() -> NativeCaller:
    """The process's maker of Python callables for native entries."""
    if not has_gate():
        return NativeCaller(None)
    try:
        return NativeCaller(shared_library(GATE, host_target()))
    except StateError:  # the C-API's symbols are not visible in this process
        return NativeCaller(None)


def profile_filter(hook: Callable[..., Any]) -> ProfileFilter | None:
    """A native filter in front of a profile function; None where there can be none."""
    if not can_filter():
        return None
    try:
        return ProfileFilter(hook, shared_library(PROFILE, host_target()))
    except (StateError, RuntimeError):  # the C-API's symbols are not visible in this process; many threads capture
        return None


@once
def shared_pool() -> Pool:
    """The process's worker pool, started on first use."""
    target = host_target()
    if can_have_workers():
        return Pool(shared_library(POOL, target))
    return Pool(build(pool_module(target.arch, workers=False), POOL_EXPORTS))
