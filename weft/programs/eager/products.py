"""The matrix product for arrays in eager mode: one call of the kernel that programs call, with the same parts,
so that its bits are a program's."""

from __future__ import annotations

import struct
import threading
from array import array
from typing import Any

import numpy as np

from weft.codegen.emit import I64, PTR, Module, const
from weft.codegen.gemm.tiles import plan_gemm
from weft.codegen.lower.product import INTS, ROWS, emit_product, product_sizes
from weft.codegen.native import build, native_caller, services, shared_pool
from weft.codegen.program.launch import SERVICES
from weft.codegen.target import host_target
from weft.plan.arena import aligned
from weft.plan.frame import Launch
from weft.plan.parts import parts
from weft.runtime.address import address_of
from weft.runtime.arena import borrow, give_back
from weft.runtime.engine import once
from weft.runtime.segments import HEADER, PARALLEL, POOL
from weft.support import limits
from weft.support.counters import counters
from weft.support.errors import WeftError
from weft.support.memo import Memo
from weft.types.dims import evaluate

Array = np.ndarray[Any, Any]
# The words of a frame behind its header: A, B, C, the kernel's integers, then what a launch reads,
# and the launch itself.
_BUFFERS, _NUMBERS = HEADER, HEADER + 3
_SCRATCH = _NUMBERS + len(INTS)
_STRIDE, _EXTENT, _CHUNKS, _KERNEL, _LAUNCH = range(_SCRATCH + 1, _SCRATCH + 6)
_KERNEL_NAME, _ENTRY_NAME = "weft_eager_kernel", "weft_eager_product"
_CALL = struct.Struct(f"{3 + len(INTS) + 5}q")
_RECORD = Launch(_KERNEL, _BUFFERS, _NUMBERS, _NUMBERS, _SCRATCH, _STRIDE, _EXTENT, _CHUNKS, 0)
_SIGN = -1 << 62  # strides that run backwards are NumPy's business
_WORDS = _LAUNCH + (len(_RECORD) + 1) // 2


class _Product:
    """The product of one dtype: of matrices, or of batches of them."""

    def __init__(self, dtype: str, is_batched: bool) -> None:
        target, shared = host_target(), services(host_target())
        module = Module.for_target(target)
        emit_product(module, _KERNEL_NAME, dtype, target, is_batched)
        launch = module.declare("weft_launch_all", *SERVICES["weft_launch_all"])
        f = module.function(_ENTRY_NAME, I64, [(PTR, "frame")])
        f.ret(f.call(launch, [f.params[0], f.gep(I64, f.params[0], _LAUNCH), const(I64, 1)]))
        library = build(module.text(), (_ENTRY_NAME, _KERNEL_NAME), target, {name: shared[name] for name in SERVICES})
        self.plan, self.is_batched = plan_gemm(dtype, target), is_batched
        self.call = native_caller().callable(library[_ENTRY_NAME], (library, shared))
        self.kernel = library[_KERNEL_NAME]
        self._cuts: Memo[tuple[int, ...], tuple[int, int, int]] = Memo(limits.CUT_PRODUCTS)

    def cut(self, lead: int, m: int, n: int, k: int) -> tuple[int, int, int]:
        """Bytes of scratch for each part, extent, parts: as a program cuts it."""
        cut = self._cuts.get((lead, m, n, k))
        if cut is None:
            rows, cost, scratch = product_sizes(self.plan, lead, m, n, k)
            extent = lead if self.is_batched else rows
            each, count = (evaluate(d, {}) for d in (aligned(scratch), parts(extent, cost)))
            cut = self._cuts[lead, m, n, k] = (each, evaluate(extent, {}), count)
        return cut


class _Frame:
    """The words of one thread's calls."""

    def __init__(self) -> None:
        self.words = array("q", bytes(8 * _WORDS))
        self.address = self.words.buffer_info()[0]
        pool = shared_pool()
        self.words[POOL], self.words[PARALLEL] = pool.address, pool.parallel
        struct.pack_into(f"{len(_RECORD)}i", self.words, 8 * _LAUNCH, *_RECORD)


class _Frames(threading.local):
    mine: _Frame | None = None


_frames = _Frames()
_products: dict[tuple[np.dtype[Any], bool], _Product | None] = {}


@once
def _make(dtype: np.dtype[Any], is_batched: bool) -> _Product | None:
    """None where there is no native code."""
    try:
        with counters.for_eager():
            return _Product(dtype.name, is_batched)
    except (ImportError, WeftError):
        return None


def multiply(a: Array, b: Array) -> Array | None:
    """a @ b, for matrices of one float dtype or batches of as many, whatever their strides;
    None where NumPy must do it."""
    dims, dtype = a.shape, a.dtype
    if b.dtype != dtype:
        return None
    lead, sa, sb = 1, 0, 0
    if len(dims) == 2:
        (m, k), (ra, ca), (_, n), (rb, cb) = dims, a.strides, b.shape, b.strides
    elif len(dims) == 3:
        (lead, m, k), (sa, ra, ca), (_, _, n), (sb, rb, cb) = dims, a.strides, b.shape, b.strides
    else:
        return None
    key = (dtype, lead != 1)
    product = _products.get(key)
    if product is None:
        product = _products[key] = _make(*key)
    mask, shift = dtype.itemsize - 1, 2 if dtype.itemsize == 4 else 3
    if product is None or (ra | ca | rb | cb | sa | sb) & (mask | _SIGN) or not m * n * k * lead:
        return None
    out = np.empty((m, n) if len(dims) == 2 else (lead, m, n), dtype)
    scratch, extent, chunks = product.cut(lead, m, n, k)
    frame = _frames.mine
    if frame is None:
        frame = _frames.mine = _Frame()
    arena = borrow()
    if arena.size < scratch * chunks:
        arena.reserve(scratch * chunks)
    _CALL.pack_into(
        frame.words,
        8 * _BUFFERS,
        address_of(a),
        address_of(b),
        address_of(out),
        ROWS,
        m,
        n,
        k,
        0,
        ra >> shift,
        ca >> shift,
        0,
        rb >> shift,
        cb >> shift,
        sa >> shift,
        sb >> shift,
        arena.address,
        scratch,
        extent,
        chunks,
        product.kernel,
    )
    product.call(frame.address)
    give_back(arena)
    return out
