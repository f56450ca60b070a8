"""Tile and block sizes of the matrix product for one element type on one target.

The register tile is `rows` x `vectors` accumulators: all registers but those that hold a row of B,
one broadcast element of A and, where there is no fused multiply-add, a product. The cache block is `depth` x `columns`
of B, or `depth` x `block_strips` strips of A where B is packed ahead (driver.py says which): it stays in the
second-level cache while the other operand passes over it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from weft.codegen.emit.types import F32, F64, EmitError, LType, vec
from weft.codegen.target import Target
from weft.types import dims as dm
from weft.types.dims import Dim

DTYPES = {"float32": F32, "float64": F64}
BLOCK_BYTES = 256 * 1024  # half of the smallest second-level cache of the last ten years: the rest is for the others
ROW_BLOCK_BYTES = 128 * 1024  # less than that, for a panel of B and tiles of C pass through it
DEPTH_BYTES = 1024
CACHE_LINE = 64


@dataclass(frozen=True)
class GemmPlan:
    """Sizes in elements. `dtype` is "float32" or "float64"; `lanes` is the vector width;
    `rows` x `vectors` the register tile."""

    dtype: str
    lanes: int
    rows: int
    vectors: int
    depth: int
    columns: int
    block_strips: int
    has_fma: bool
    registers: int

    @property
    def elem(self) -> LType:
        """The element type."""
        return DTYPES[self.dtype]

    @property
    def vector(self) -> LType:
        """The vector type."""
        return vec(self.elem, self.lanes)

    @property
    def panel(self) -> int:
        """Columns of one packed panel of B."""
        return self.vectors * self.lanes

    @property
    def strip(self) -> int:
        """Elements from one k to the next in a packed strip of A: `rows`, rounded up to whole vectors."""
        return _up(self.rows, self.lanes)

    @property
    def suffix(self) -> str:
        """What the names of the emitted functions end with: f32 or f64."""
        return self.elem.suffix

    @property
    def prefix(self) -> str:
        """What the names of the emitted functions begin with."""
        return "weft_gemm"

    def panels(self, n: Dim) -> Dim:
        """Panels of a B with n columns."""
        return dm.floordiv(n + self.panel - 1, self.panel)

    def workspace_bytes(self, n: Dim, k: Dim) -> Dim:
        """Bytes of scratch memory that a call for n columns and k terms needs (64-byte aligned)."""
        columns = self.panels(dm.minimum(n, self.columns)) * self.panel
        return ((self.strip + columns) * dm.minimum(k, self.depth) + self.panel) * self.elem.bytes

    def packed_elements(self, n: Dim, k: Dim) -> Dim:
        """Elements that the whole of B takes when it is packed ahead."""
        return self.panels(n) * self.panel * k


@functools.cache
def plan_gemm(dtype: str, target: Target) -> GemmPlan:
    """The sizes for `dtype` on `target`. Raises EmitError for a dtype without a native product."""
    if dtype not in DTYPES:
        raise EmitError(f"gemm: no native product of {dtype}; there are {', '.join(DTYPES)}")
    size = DTYPES[dtype].bytes
    lanes = target.lanes(size)
    vectors = 3 if target.vector_registers >= 32 and target.vector_bytes <= 16 else 2
    spare = vectors + (1 if target.has_fma else 2)
    rows = min((target.vector_registers - spare) // vectors, 14)
    depth = DEPTH_BYTES // size
    panel = vectors * lanes
    columns = BLOCK_BYTES // size // depth // panel * panel
    strips = ROW_BLOCK_BYTES // size // depth // _up(rows, lanes)
    return GemmPlan(dtype, lanes, rows, vectors, depth, columns, strips, target.has_fma, target.vector_registers)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
