"""The process's native services: build a module (cached), and the shared worker pool and call gate made with it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable

from weft.codegen.compiler import compile_object, object_key
from weft.codegen.target import Target, host_target
from weft.runtime.cache import user_cache
from weft.runtime.engine import Library, load
from weft.runtime.native_call import GATE_EXPORTS, GATE_IR, NativeCaller, has_gate
from weft.runtime.pool import Pool, can_have_workers
from weft.runtime.pool_ir import POOL_EXPORTS, pool_module
from weft.support.errors import StateError

_making = threading.RLock()


def object_code(module_text: str, target: Target) -> bytes:
    """Object code of `module_text`, from the disk cache if it is there. Raises CodegenError."""
    cache = user_cache()
    key = object_key(module_text, target)
    data = cache.get(key)
    if data is None:
        data = compile_object(module_text, target)
        cache.put(key, data)
    return data


def build(module_text: str, exports: Iterable[str], target: Target | None = None) -> Library:
    """Compile (or fetch) and load a module for this process. Raises CodegenError, StateError."""
    target = target or host_target()
    return load(object_code(module_text, target), exports)


def native_caller() -> NativeCaller:
    """The process's maker of Python callables for native entries."""
    with _making:
        return _native_caller()


@functools.cache
def _native_caller() -> NativeCaller:
    if not has_gate():
        return NativeCaller(None)
    try:
        return NativeCaller(build(GATE_IR, GATE_EXPORTS))
    except StateError:  # the C-API's symbols are not visible in this process
        return NativeCaller(None)


def shared_pool() -> Pool:
    """The process's worker pool, started on first use."""
    with _making:
        return _shared_pool()


@functools.cache
def _shared_pool() -> Pool:
    target = host_target()
    return Pool(build(pool_module(target.arch, workers=can_have_workers()), POOL_EXPORTS))
