"""The process's native services: build a module (cached), and the shared worker pool and call gate made with it."""

from __future__ import annotations

from collections.abc import Iterable

from weft.codegen.compiler import compile_object, object_key
from weft.codegen.emit import Module
from weft.codegen.gemm import declare_gemm, gemm_module
from weft.codegen.gemm_plan import plan_gemm
from weft.codegen.program_key import program_key
from weft.codegen.target import Target, host_target
from weft.runtime.cache import user_cache
from weft.runtime.engine import Library, load, once
from weft.runtime.native_call import GATE_EXPORTS, GATE_IR, NativeCaller, has_gate
from weft.runtime.pool import Pool, can_have_workers
from weft.runtime.pool_ir import POOL_EXPORTS, pool_module
from weft.support.errors import StateError


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
    code = object_code(module_text, target)
    return load(code, exports, products_in(code, target))


def products_in(code: bytes, target: Target) -> dict[str, int]:
    """Addresses of the matrix product functions that object code may call: its symbol table names them."""
    found: dict[str, int] = {}
    for dtype in ("float32", "float64"):
        suffix = plan_gemm(dtype, target).suffix.encode()
        if b"weft_gemm_" + suffix in code or b"weft_gemm_batched_" + suffix in code:
            library = product_library(dtype, target)
            found.update((name, library[name]) for name in library.exports)
    return found


@once
def product_library(dtype: str, target: Target) -> Library:
    """The process's matrix product of a dtype, compiled once per machine and loaded once per process."""
    cache = user_cache()
    key = program_key(f"matrix product {dtype}", target)  # by the compiler's files: writing the text only to hash it costs more than loading the code
    code = cache.get(key)
    if code is None:
        code = compile_object(gemm_module(dtype, target).text(), target)
        cache.put(key, code)
    return load(code, declare_gemm(Module.for_target(target), dtype, target).symbols)


@once
def native_caller() -> NativeCaller:
    """The process's maker of Python callables for native entries."""
    if not has_gate():
        return NativeCaller(None)
    try:
        return NativeCaller(build(GATE_IR, GATE_EXPORTS))
    except StateError:  # the C-API's symbols are not visible in this process
        return NativeCaller(None)


@once
def shared_pool() -> Pool:
    """The process's worker pool, started on first use."""
    target = host_target()
    return Pool(build(pool_module(target.arch, workers=can_have_workers()), POOL_EXPORTS))
