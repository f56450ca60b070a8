"""The matrix product for arrays in eager mode: one call of the kernels that programs call, cut in the same way."""

from __future__ import annotations

import struct
import threading
from array import array
from typing import Any, NamedTuple

import numpy as np

from weft.codegen.emit import I64, PTR, Module, const
from weft.codegen.gemm.tiles import plan_gemm
from weft.codegen.lower.product import INTS, PACK_INTS, cut_product, emit_packing, emit_product
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
# The words of a frame behind its header: A, B, packed B, C, the kernels' integers, then what launches read,
# and the launches themselves.
_BUFFERS, _NUMBERS, _PACK_NUMBERS = HEADER, HEADER + 4, HEADER + 4 + len(INTS)
_SCRATCH = _PACK_NUMBERS + len(PACK_INTS)
_STRIDE, _EXTENT, _CHUNKS, _KERNEL = range(_SCRATCH + 1, _SCRATCH + 5)
_PACK_EXTENT, _PACK_CHUNKS, _PACK_KERNEL, _LAUNCHES = range(_SCRATCH + 5, _SCRATCH + 9)
_KERNEL_NAME, _PACK_NAME, _ENTRY_NAME = "weft_eager_kernel", "weft_eager_packing", "weft_eager_product"
_CALL = struct.Struct(f"{4 + len(INTS) + len(PACK_INTS) + 8}q")
_RECORDS = (
    Launch(_PACK_KERNEL, _BUFFERS + 1, _PACK_NUMBERS, _NUMBERS, _SCRATCH, _STRIDE, _PACK_EXTENT, _PACK_CHUNKS, 0, 0),
    Launch(_KERNEL, _BUFFERS, _NUMBERS, _NUMBERS, _SCRATCH, _STRIDE, _EXTENT, _CHUNKS, 0, 1),
)
_SIGN = -1 << 62  # strides that run backwards are NumPy's business
_WORDS = _LAUNCHES + len(Launch._fields)


class _Cut(NamedTuple):
    """How products of some sizes are cut, as numbers: ranges, whether B is packed ahead, extent and chunks of each
    kernel, bytes of scratch for each part and of room for B."""

    rows: int
    columns: int
    shared: int
    extent: int
    chunks: int
    pack_extent: int
    pack_chunks: int
    scratch: int
    packed: int


class _Product:
    """The product of one dtype, of matrices or of batches of them."""

    def __init__(self, dtype: str) -> None:
        target, shared = host_target(), services(host_target())
        module = Module.for_target(target)
        emit_packing(module, _PACK_NAME, dtype, target)
        emit_product(module, _KERNEL_NAME, dtype, target, may_share=True)
        launch = module.declare("weft_launch_all", *SERVICES["weft_launch_all"])
        f = module.function(_ENTRY_NAME, I64, [(PTR, "frame")])
        f.ret(f.call(launch, [f.params[0], f.gep(I64, f.params[0], _LAUNCHES), const(I64, len(_RECORDS))]))
        names = (_ENTRY_NAME, _KERNEL_NAME, _PACK_NAME)
        library = build(module.text(), names, target, {name: shared[name] for name in SERVICES})
        self.plan = plan_gemm(dtype, target)
        self.call = native_caller().callable(library[_ENTRY_NAME], (library, shared))
        self.kernel, self.packing = library[_KERNEL_NAME], library[_PACK_NAME]
        self._cuts: Memo[tuple[int, ...], _Cut] = Memo(limits.CUT_PRODUCTS)

    def cut(self, lead: int, m: int, n: int, k: int) -> _Cut:
        """As a program cuts it."""
        cut = self._cuts.get((lead, m, n, k))
        if cut is None:
            c = cut_product(self.plan, lead, m, n, k)
            size = self.plan.elem.bytes
            sizes = (
                c.rows, c.columns, c.shared, c.extent, parts(c.extent, c.cost), c.panels, parts(c.panels, c.pack_cost),
                aligned(c.scratch_bytes), aligned(c.elements * size),
            )
            cut = self._cuts[lead, m, n, k] = _Cut(*(evaluate(d, {}) for d in sizes))
        return cut


class _Frame:
    """The words of one thread's calls."""

    def __init__(self) -> None:
        self.words = array("q", bytes(8 * _WORDS))
        self.address = self.words.buffer_info()[0]
        pool = shared_pool()
        self.words[POOL], self.words[PARALLEL] = pool.address, pool.parallel
        words = [word for record in _RECORDS for word in record]
        struct.pack_into(f"{len(words)}i", self.words, 8 * _LAUNCHES, *words)


class _Frames(threading.local):
    mine: _Frame | None = None


_frames = _Frames()
_products: dict[np.dtype[Any], _Product | None] = {}


@once
def _make(dtype: np.dtype[Any]) -> _Product | None:
    """None where there is no native code."""
    try:
        with counters.for_eager():
            return _Product(dtype.name)
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
    product = _products.get(dtype)
    if product is None:
        product = _products[dtype] = _make(dtype)
    mask, shift = dtype.itemsize - 1, 2 if dtype.itemsize == 4 else 3
    if product is None or (ra | ca | rb | cb | sa | sb) & (mask | _SIGN) or not m * n * k * lead:
        return None
    out = np.empty((m, n) if len(dims) == 2 else (lead, m, n), dtype)
    cut = product.cut(lead, m, n, k)
    frame = _frames.mine
    if frame is None:
        frame = _frames.mine = _Frame()
    arena = borrow()
    room = cut.packed + cut.scratch * cut.chunks
    if arena.size < room:
        arena.reserve(room)
    strides_b = rb >> shift, cb >> shift
    packed = arena.address
    buffers = address_of(a), address_of(b), packed, address_of(out)
    strides = 0, ra >> shift, ca >> shift, 0, *strides_b, sa >> shift, sb >> shift
    _CALL.pack_into(
        frame.words, 8 * _BUFFERS, *buffers, m, n, k, *strides, cut.rows, cut.columns, cut.shared, n, k, 0, *strides_b,
        packed + cut.packed, cut.scratch, cut.extent, cut.chunks, product.kernel, cut.pack_extent, cut.pack_chunks,
        product.packing,
    )
    product.call(frame.address)
    give_back(arena)
    return out
