"""Sums and other reductions: the dtypes that they are carried out in, and the nest that combines the parts of several
chunks.
"""

from __future__ import annotations

from weft.ir.graph import Node, Value
from weft.loops.nest import FULL, ROW, Access, Instr, Nest, Ref, Store
from weft.loops.phases import settle_phases
from weft.passes.alias import dtype_of
from weft.types import dtype as dt
from weft.types.dims import Dim, is_one
from weft.types.dtype import DType


def accumulator(combine: str, result: DType, source: DType) -> DType:
    """The dtype in which a reduction is carried out."""
    if combine == "prod" and result.is_floating_point:
        return dt.float64  # products of numbers near 1 round to the same side again and again
    if combine in ("sum", "prod"):
        return dt.compute_dtype(result)
    if combine in ("any", "all"):
        return dt.bool_
    return dt.compute_dtype(source)


def is_rounded(combine: str, dtype: DType) -> bool:
    """Whether each step of a reduction rounds, so that the order of the steps shows."""
    return combine in ("sum", "prod") and dtype.is_floating_point


def held_dtype(combine: str, dtype: DType) -> DType:
    """The dtype in which the results of blocks are combined."""
    return dt.float64 if is_rounded(combine, dtype) else dtype


def combining_nest(parts: Value, result: Value, combine: str, chunks: Dim, width: Dim, node: Node) -> Nest:
    """result[j] = the parts[i, j] combined over i, in order."""
    dtype, target = dtype_of(parts), dtype_of(result)
    assert dtype is not None and target is not None
    is_scalar = is_one(width)
    outer = () if is_scalar else (width,)
    nest = Nest("rows" if is_scalar else "columns", outer, (chunks,), [parts], [result], nodes=(node,))
    load = Access(0, dtype, (1,) if is_scalar else (1, width))
    store = Access(1, target, (0,) if is_scalar else (1, 0))
    nest.accesses = [load, store]
    nest.instrs = [Instr("load", dtype, FULL, what=0), Instr("reduce", dtype, ROW, 1, (Ref(0),), combine, dtype, node)]
    nest.stores = [Store(1, store)]
    settle_phases(nest)
    return nest
