"""Fourier transforms along one dim: a kernel for the table of a length, and one for all signals."""

from __future__ import annotations

from typing import Any

from weft.codegen.emit import I64
from weft.codegen.fourier.kernels import Kind, emit_fourier, private_elements, side_of
from weft.codegen.fourier.stages import Writer
from weft.codegen.fourier.tables import emit_tables
from weft.codegen.fourier.transform import greatest_size, table_elements
from weft.codegen.lower.accumulate import whole_buffer
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.codegen.scalar.element import memory_type
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.alias import dims_of, dtype_of
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim, is_one
from weft.types.tensor_type import tensor_type

WEIGHT = 8  # units of cost of an element


@lowers(aten.fft_fft)
def lower_fft(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Complex signals."""
    return _transformed(block, node, "complex", "complex", False)


@lowers(aten.fft_ifft)
def lower_ifft(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Complex spectra."""
    return _transformed(block, node, "complex", "complex", True)


@lowers(aten.fft_rfft)
def lower_rfft(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Real signals of even length (passes/legalize.py brings others to complex ones)."""
    return _transformed(block, node, "real", "complex", False)


@lowers(aten.fft_irfft)
def lower_irfft(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """Half spectra of such."""
    return _transformed(block, node, "complex", "real", True)


def _transformed(
    block: BlockLowering, node: Node, reads: str, writes: str, is_inverse: bool
) -> list[KernelCall] | None:
    x, n, dim, norm = node.args
    out, dims = node.output, dims_of(x)
    result = dtype_of(out)
    assert result is not None
    real = result.to_real()
    if real not in (dt.float32, dt.float64) or not dims:
        return None
    axis = normalize_dim(node.op.base, dim, len(dims))
    whole = _length(dims[axis], n, writes)
    is_halved = "real" in (reads, writes)
    if is_halved and (type(whole) is not int or whole % 2):
        return None
    length = dm.floordiv(whole, 2) if is_halved else whole
    source, copy = whole_buffer(block, x, node, real if reads == "real" else real.to_complex())
    inner, outer = dm.product(dims[axis + 1 :]), dm.product(dims[:axis])
    are_rows = is_one(inner)
    signals, groups = (outer, 1) if are_rows else (inner, outer)
    side = side_of(length, signals)
    blocks = dm.floordiv(signals + side - 1, side)
    divisor, is_root = _scale(norm, whole, is_inverse)
    array = dm.floordiv(private_elements(length, side), 4)
    ints = (
        length, side, signals, blocks, dims[axis], dims_of(out)[axis], int(is_inverse), divisor, int(is_root), array)
    lowering = block.lowering
    writer = Writer(lowering.module, memory_type(real, 1), lowering.target, lowering.function)
    table = Value(tensor_type(real, (table_elements(length),)), "roots")
    kind = Kind(reads, writes, are_rows)
    make = lowering.function(
        ("fourier tables", real.short), f"roots_{real.short}",
        lambda name: emit_tables(lowering.module.function(name, I64, PARAMETERS), writer))
    transform = lowering.function(
        ("fourier", kind, real.short), f"{node.op.base}_{real.short}",
        lambda name: emit_fourier(lowering.module.function(name, I64, PARAMETERS), writer, kind))
    cost = dm.product(dims_of(out)) * WEIGHT
    size: Dim = greatest_size(length)
    return [
        *([] if copy is None else [copy]),
        KernelCall(
            make, (table,), 1, (length, int(is_halved)), (), 1, size * WEIGHT, 4 * size * real.itemsize, (), (node,)),
        KernelCall(
            transform, (source, table, out), 1, ints, (), groups * blocks, cost, 4 * array * real.itemsize, (),
            (node,)),
    ]


def _length(have: Dim, n: Dim | None, writes: str) -> Dim:
    """How long the (real) signal is."""
    if n is not None:
        return n
    return 2 * (have - 1) if writes == "real" else have


def _scale(norm: Any, length: Dim, is_inverse: bool) -> tuple[Dim, bool]:
    """What the result is divided by, and whether by its root."""
    if norm == "ortho":
        return length, True
    return (length, False) if is_inverse == (norm != "forward") else (1, False)
