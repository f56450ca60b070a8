"""KernelCall and its kin: the steps that a lowered graph consists of, as the program builder sees them.

A kernel is one emitted function `i64 @name(ptr bufs, ptr ints, ptr numbers, ptr scratch, i64 begin, i64 end)`.
It does the part [begin, end) of its parallel extent and returns 0, or 1 + k when its bounds check k failed. Tables:
`bufs` holds one address per buffer, `ints` one i64 per entry of `ints`, `numbers` one double per entry of `numbers`.
Parts may run in any order and at the same time; what is computed does not depend on the cuts.

Buffers are contiguous, row-major, of their Value's own type, and never overlap except where `in_place` allows it.
A Value that is no tensor (a number that a node computes) is a buffer of one element: float f64, int i64, bool one byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.ir.graph import Graph, Node, Operand, Value
from weft.ops.geometry import Geometry
from weft.types.dims import Dim


@dataclass(frozen=True)
class KernelCall:
    """One call of an emitted function.

    function      name of the emitted LLVM function; equal nests share one
    buffers       values read, then values written, in pointer table order; temporaries (node is None and no parameter)
                  may be among them
    outputs       how many of `buffers`, at the end, are written
    ints          i64 table: sizes, strides and offsets, as expressions over symbols
    numbers       f64 table: FLOAT parameters (or literal numbers) that the kernel reads at run time
    extent        number of parts of the parallel loop; 1 means there is nothing to split
    cost          rough scalar work of the whole call (elements times weight), for the choice between serial
                  and parallel
    scratch_bytes private memory that each concurrently running part needs (64-byte aligned)
    most_parts    into how many parts it is cut at most, where their private memory is large
    in_place      (output index, buffer index of an input): the output may take the input's memory, for each element
                  is read before and only where it is written
    nodes         what the kernel computes; `raises` are indices into it: bounds check k belongs to nodes[raises[k]]
    text          the nest as readable loops
    copies        (output index, buffer index of an input): the output begins as a copy of the input, unless it lies in
                  its memory
    """

    function: str
    buffers: tuple[Value, ...]
    outputs: int
    ints: tuple[Dim, ...] = ()
    numbers: tuple[Operand, ...] = ()
    extent: Dim = 1
    cost: Dim = 1
    scratch_bytes: Dim = 0
    in_place: tuple[tuple[int, int], ...] = ()
    nodes: tuple[Node, ...] = ()
    raises: tuple[int, ...] = ()
    text: str = ""
    copies: tuple[tuple[int, int], ...] = ()
    most_parts: Dim | None = None

    @property
    def reads(self) -> tuple[Value, ...]:
        """The buffers that are read only."""
        return self.buffers[: len(self.buffers) - self.outputs]

    @property
    def writes(self) -> tuple[Value, ...]:
        """The buffers that are written."""
        return self.buffers[len(self.buffers) - self.outputs :]


@dataclass(frozen=True)
class HostCall:
    """A node without a native lowering: NumPy evaluates it through ops.compute.evaluate.

    `inputs` are the node's Values in order of first use (each is a root, or has an entry in the lowered
    graph's `alias`); `outputs` its results, each a buffer that is written contiguously. Sizes that the node binds
    (`u` symbols in its result types) are known once it has run.
    """

    node: Node
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True)
class BlockStep:
    """prim::If or prim::Loop: the node, and the lowered form of each of its blocks."""

    node: Node
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    blocks: tuple[LoweredGraph, ...]


Step = KernelCall | HostCall | BlockStep


@dataclass
class LoweredGraph:
    """A graph (or block) as steps in a valid order.

    alias: values that are views of materialised buffers, as (root, geometry over it). Every other tensor value
    that a step or result mentions is a root itself. Results are contiguous: those of `results` are roots, or aliases
    that are contiguous at offset 0.
    tables: what loops go over, or stack, that is no buffer: the values that are its rows.
    """

    graph: Graph
    params: tuple[Value, ...]
    results: tuple[Operand, ...]
    steps: list[Step] = field(default_factory=list)
    alias: dict[Value, tuple[Value, Geometry]] = field(default_factory=dict)
    tables: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    notes: list[Any] = field(default_factory=list)

    def root(self, value: Value) -> Value:
        """The buffer that holds a value."""
        place = self.alias.get(value)
        return value if place is None else place[0]
