"""Native code that is the same for every program: matrix products, convolutions, launches, the worker pool, the call
gate, the filter of profile events."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.codegen.convolution import declare_convolution
from weft.codegen.emit import Module
from weft.codegen.gemm import declare_gemm
from weft.codegen.gemm.tiles import DTYPES
from weft.codegen.program.launch import SERVICES, emit_services
from weft.codegen.target import Target
from weft.runtime.native_call import GATE_EXPORTS, GATE_IR
from weft.runtime.pool_ir import POOL_EXPORTS, pool_module
from weft.runtime.profile_filter import PROFILE_EXPORTS, PROFILE_IR

_HERE = Path(__file__).parent
_PRODUCT_SOURCES = ("emit", "gemm", "target.py")
_CONVOLUTION_SOURCES = (*_PRODUCT_SOURCES, "convolution")


@dataclass(frozen=True)
class SharedCode:
    """A module that is compiled once for a machine.

    name      tells it from the others, and names its file
    text      its LLVM text for a target
    exports   the names that its users look up
    content   what its text hangs on beside the target: the text itself, or, where that takes long to write,
              a digest of the sources that write it
    """

    name: str
    text: Callable[[Target], str]
    exports: Callable[[Target], Sequence[str]]
    content: Callable[[Target], str]


def _product(dtype: str) -> SharedCode:
    return SharedCode(
        f"product_{dtype}",
        lambda target: _product_text(dtype, target),
        lambda target: declare_gemm(Module.for_target(target), dtype, target).symbols,
        lambda target: f"product of {dtype} by {_source_digest(_PRODUCT_SOURCES)}",
    )


def _product_text(dtype: str, target: Target) -> str:
    from weft.codegen.gemm.library import gemm_module  # deferred: it mostly comes compiled

    return gemm_module(dtype, target).text()


def _convolution(dtype: str) -> SharedCode:
    return SharedCode(
        f"convolution_{dtype}",
        lambda target: _convolution_text(dtype, target),
        lambda target: declare_convolution(Module.for_target(target), dtype).symbols,
        lambda target: f"convolution of {dtype} by {_source_digest(_CONVOLUTION_SOURCES)}",
    )


def _convolution_text(dtype: str, target: Target) -> str:
    from weft.codegen.convolution.library import convolution_module  # deferred: it mostly comes compiled

    return convolution_module(dtype, target).text()


@functools.cache
def _source_digest(names: tuple[str, ...]) -> str:
    """Digest of the contents of modules and packages beside this one."""
    digest = hashlib.blake2b(digest_size=20)
    for name in names:
        path = _HERE / name
        for source in sorted(path.rglob("*.py")) if path.is_dir() else (path,):
            digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()


def _by_text(name: str, text: Callable[[Target], str], exports: Sequence[str]) -> SharedCode:
    return SharedCode(name, text, lambda target: exports, text)


def _services(target: Target) -> str:
    module = Module.for_target(target)
    emit_services(module)
    return module.text()


PRODUCTS = {dtype: _product(dtype) for dtype in DTYPES}
CONVOLUTIONS = {dtype: _convolution(dtype) for dtype in DTYPES}
LAUNCHING = _by_text("services", _services, tuple(SERVICES))
POOL = _by_text("pool", lambda target: pool_module(target.arch, workers=True), POOL_EXPORTS)
GATE = _by_text("gate", lambda target: GATE_IR, GATE_EXPORTS)
PROFILE = _by_text("profile", lambda target: PROFILE_IR, PROFILE_EXPORTS)
SHARED_CODE = (*PRODUCTS.values(), *CONVOLUTIONS.values(), LAUNCHING, POOL, GATE, PROFILE)
