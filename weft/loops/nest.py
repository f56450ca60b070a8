"""The nest: what one kernel does, as data. Axes, accesses to buffers, instructions in order, stores.

    rows      for each outer index: one pass over the inner axes per phase, the last inner axis in vectors;
              reductions give row values
    columns   the last outer axis in vectors, the inner axes one by one; a row value is a vector of columns
    flat      one axis only, cut anywhere into blocks

An instruction's level says where it varies: 0 nowhere, 1 with the outer axes, 2 with the inner axes too.
At level 2 `phase` is the first pass that can compute it; at level 1 the number of passes that must be over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.ir.graph import Node, Value
from weft.ops.op import Op
from weft.types.dims import Dim
from weft.types.dtype import DType

ONCE, ROW, FULL = 0, 1, 2
FLAT_BLOCK = 1024  # elements; the unit in which a flat nest may be cut


@dataclass(frozen=True)
class Access:
    """One way to read or write a buffer: element strides along the outer, then the inner axes,
    and an element offset."""

    buffer: int
    dtype: DType
    strides: tuple[Dim, ...]
    offset: Dim = 0


@dataclass(eq=False)
class Instr:
    """One instruction; its number in the nest's list is its name.

    kind      "load" (access), "literal" (value), "number" (index into numbers), "size" (a dim), "index" (access-like
              linear index), "cast", "apply" (op), "reduce", "column", "total" (combine); "offset" moves an access to
              where its operands say (Gather), "gather" loads each element from where its operands say (Gather)
    args      operands: `Ref(i)`, or immediates
    """

    kind: str
    dtype: DType
    level: int
    phase: int = 0
    args: tuple[Any, ...] = ()
    what: Any = None
    compute: DType | None = None
    node: Node | None = None
    weight: int = 0
    stashed: bool = False


@dataclass(frozen=True)
class Ref:
    """An operand that is an instruction's result."""

    index: int


@dataclass(frozen=True)
class Gather:
    """Dims of an access that are not walked but looked up: for each the element stride and the size.
    An index outside of the size fails the kernel's check; `wraps` lets negative ones count from the end. `count`:
    how many indices there are. Where there are none nothing is looked up, though an index that is the same everywhere
    is looked at before the loops begin."""

    access: int
    strides: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    wraps: bool = False
    count: Dim = 1


@dataclass(frozen=True)
class Store:
    """The value of an instruction written to a buffer."""

    index: int
    access: Access


@dataclass
class Nest:
    """One kernel. Buffers: `reads`, then `writes`. `chunks` is set when rows are dealt out in fixed portions that each
    leave partial results."""

    form: str
    outer: tuple[Dim, ...]
    inner: tuple[Dim, ...]
    reads: list[Value] = field(default_factory=list)
    writes: list[Value] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)
    instrs: list[Instr] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    phases: int = 1
    chunks: Dim | None = None
    nodes: tuple[Node, ...] = ()

    @property
    def axes(self) -> tuple[Dim, ...]:
        """Sizes of all axes, outer first."""
        return self.outer + self.inner


def op_of(instr: Instr) -> Op:
    """The operator of an "apply"."""
    assert isinstance(instr.what, Op)
    return instr.what
