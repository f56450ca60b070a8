"""A module with all that it calls as one object file: the shared modules are linked into it as LLVM text, and what
nobody reaches from the functions that others may call is left out.

Every function is compiled as it is for a program that runs here: code is generated without optimisation across
functions, so the object's code gives the same bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from weft.codegen.compiler import new_machine, parsed
from weft.codegen.emit import Module
from weft.codegen.shared_code import CONVOLUTIONS, LAUNCHING, PRODUCTS
from weft.codegen.target import X86_LEVELS, Target, aarch64_target, host_target, x86_target
from weft.runtime.pool_ir import pool_module
from weft.support.counters import counters
from weft.support.errors import ValueProblem


def standalone_object(module: Module, exports: Collection[str], target: Target, *, workers: bool) -> bytes:
    """Object code that needs nothing but libc's functions of memory and libm's.

    exports: the functions that others may call. workers: with the worker pool, which needs Linux's threads. Raises
    CodegenError, and ValueProblem for workers on a processor without them. Counts one in `counters.llvm_compiles`.
    """
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    text = module.text()
    context = llvm.create_context()
    try:
        with parsed(text, target, context) as whole:
            for part in _shared_texts(text, target, workers):
                whole.link_in(parsed(part, target, context))
            for function in whole.functions:
                if not function.is_declaration and function.name not in exports:
                    function.linkage = "internal"
            _drop_unused(whole, target)
            counters.llvm_compiles += 1
            return bytes(new_machine(target).emit_object(whole))
    finally:
        context.close()


def _shared_texts(text: str, target: Target, workers: bool) -> Iterator[str]:
    """The text of the shared modules: what every program calls, and the libraries that this one does."""
    yield LAUNCHING.text(target)
    yield pool_module(target.arch, workers=workers)
    for code in (*PRODUCTS.values(), *CONVOLUTIONS.values()):
        if any(f"@{name}(" in text for name in code.exports(target)):
            yield code.text(target)


def _drop_unused(module: Any, target: Target) -> None:
    """Take away what nobody reaches."""
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    options: Any = llvm.create_pipeline_tuning_options
    builder = llvm.create_pass_builder(new_machine(target), options())
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, builder)


def named_target(name: str) -> Target:
    """A target by its name: "native" (this machine), one of the x86-64 levels, "aarch64", or "wasm64" (WebAssembly with
    64-bit addresses and vectors of 128 bits). Raises ValueProblem for others."""
    if name == "native":
        return host_target()
    if name in X86_LEVELS:
        return x86_target(name)
    if name == "aarch64":
        return aarch64_target()
    if name == "wasm64":
        return Target("wasm64-unknown-unknown", "generic", "+simd128,+bulk-memory", 16, 16, has_fma=False)
    raise ValueProblem(f"no target {name!r}; there are native, {', '.join(X86_LEVELS)}, aarch64 and wasm64")
