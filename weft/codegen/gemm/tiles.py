"""Tile and block sizes of the matrix product for one element type on one target.

The register tile is `rows` x `vectors` accumulators: all registers but those that hold a row of B,
one broadcast element of A and, where there is no fused multiply-add, a product. The cache block is `depth` x `columns`
of B (it stays in the second-level cache while strips of A pass over it).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from weft.codegen.emit.types import F32, F64, EmitError, LType, vec
from weft.codegen.target import Target

DTYPES = {"float32": F32, "float64": F64}
BLOCK_BYTES = 512 * 1024
DEPTH_BYTES = 1024


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

    def workspace_bytes(self, m: int, n: int, k: int) -> int:
        """Bytes of scratch memory that one call of the driver needs for an [m, k] x [k, n] product
        (64-byte aligned)."""
        depth, columns = min(k, self.depth), _up(min(n, self.columns), self.panel)
        return ((self.strip + columns) * depth + self.panel) * self.elem.bytes if m > 0 else 0

    def packed_bytes(self, n: int, k: int) -> int:
        """Bytes that the whole of B takes when it is packed ahead."""
        return _up(n, self.panel) * k * self.elem.bytes


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
    return GemmPlan(dtype, lanes, rows, vectors, depth, columns, target.has_fma, target.vector_registers)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
