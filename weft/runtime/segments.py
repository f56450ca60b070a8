"""The layout of a program: what its frame holds, its segments, where its results are.
Plain data that can be stored on disk.

A frame is a table of 64-bit words. The first HEADER words are fixed; then one address for each root
(a buffer that something lives in, parameters first), then symbols, numbers, sizes and the tables that kernels read.
Everything here refers to words and roots by number; nothing refers to a graph but the index of a host segment's node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# DONE: whether the latest native segment came to its end.
# TRACE: where kernels note their times (runtime/trace.py), or 0.
POOL, PARALLEL, ARENA, TOTAL, DONE, TRACE, HEADER = 0, 1, 2, 3, 4, 5, 8
NO_MEMORY = -1  # the status of a native segment that could not make memory
# Any other status is 0, or from its lowest bits upwards: 1 + the number of a failed check, the order and the element
# that the check found. So the least of many is that of the first element.
CHECK_BITS, ORDER_BITS, ELEMENT_BITS = 20, 15, 28
LEFT_ON = -1  # the value of `dims` where an array is used with the dims it has


@dataclass(frozen=True)
class TensorSlot:
    """A tensor in a root: dtype name; words of its dims, strides and offset (in elements). No strides word:
    row-major at offset 0."""

    root: int
    dtype: str
    dims: int = LEFT_ON
    ndim: int = 0
    strides: int = LEFT_ON
    offset: int = LEFT_ON


@dataclass(frozen=True)
class NumberSlot:
    """A number in a word: kind is "float", "int" or "bool"."""

    word: int
    kind: str


@dataclass(frozen=True)
class ObjectSlot:
    """Any other Python value, kept beside the words under a root's number."""

    root: int


Slot = TensorSlot | NumberSlot | ObjectSlot


@dataclass(frozen=True)
class Bind:
    """A symbol that a host segment determines: the size of one axis of one of its outputs goes to a word."""

    word: int
    output: int
    axis: int


@dataclass(frozen=True)
class Count:
    """A symbol that native code found: the number in a 0-dim tensor, 0 for a negative one, goes to a word."""

    word: int
    slot: Slot


@dataclass(frozen=True)
class HostSegment:
    """A node that Python runs. exposed: whether native code reads its outputs, which must then lie row-major
    and apart from every input.

    drops: roots whose arrays are not needed afterwards.
    """

    node: int
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    binds: tuple[Bind, ...] = ()
    exposed: bool = False
    drops: tuple[int, ...] = ()


@dataclass(frozen=True)
class NativeSegment:
    """A native function over the frame, or "". plan: a native function that computes sizes from symbols that were bound
    just before, or "".

    buffers: tensors of such sizes, allocated before the entry is called.
    counts: symbols that are bound first, by what native code left.
    """

    entry: str
    plan: str = ""
    buffers: tuple[TensorSlot, ...] = ()
    counts: tuple[Count, ...] = ()


Segment = HostSegment | NativeSegment


@dataclass(frozen=True)
class Result:
    """Where one result of the program comes from.

    kind      "fresh": an array allocated for this call before the first segment
              "held": an array that a host segment left
              "given": the array of a parameter
              "copied": a copy, taken before any write, of a parameter that is written
              "number": a word
              "value": a constant, or an expression over the symbols
    """

    kind: str
    slot: Slot | None = None
    value: Any = None


@dataclass(frozen=True)
class Commit:
    """A write of a host call's result into a parameter's array when nothing can fail any more
    (native code does all others itself)."""

    source: int
    param: int


@dataclass(frozen=True)
class Constant:
    """A tensor that stands in the program, as bytes in hexadecimal."""

    root: int
    dtype: str
    dims: tuple[int, ...]
    data: str


@dataclass(frozen=True)
class Check:
    """What a kernel fails at: the operator and the index of its node among all of the graph's (for the user's line).

    error, text: an error's class and what it says, with {element} and {order} in it; "" for bounds of an index
    """

    op: str
    node: int
    error: str = ""
    text: str = ""


@dataclass(frozen=True)
class Layout:
    """Everything needed to run a program, next to its object code.

    params    one slot for each parameter; the root of parameter i is i
    roots     how many roots there are
    words     length of a frame; `preset` are (word, content) that never change
    symbols   names, in the order of their words from `symbol_word` on; the first `given` are bound on entry,
              the rest by host segments
    plan      native function that computes sizes, offsets and the arena's total from the symbols, or ""
    written   parameters whose arrays the program writes; `commits` are those writes that Python does at the end
    checks    what the status of a native segment means: its CHECK bits - 1 are an index into it
    kernels   native kernels that a call launches; `parallel`: whether one of them may use the worker pool
    copies    full-size copies that a call makes and that no operator of the user's asked for
    notes     a line for each step, for explain
    end       native function that lets go of what the program made memory for while it ran, or ""
    """

    params: tuple[Slot, ...]
    results: tuple[Result, ...]
    segments: tuple[Segment, ...]
    roots: int
    words: int
    preset: tuple[tuple[int, int], ...] = ()
    symbols: tuple[str, ...] = ()
    given: int = 0
    symbol_word: int = HEADER
    plan: str = ""
    written: tuple[int, ...] = ()
    commits: tuple[Commit, ...] = ()
    constants: tuple[Constant, ...] = ()
    checks: tuple[Check, ...] = ()
    kernels: int = 0
    parallel: bool = False
    copies: int = 0
    notes: tuple[str, ...] = ()
    end: str = ""

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the native functions that the runtime calls."""
        native = [s for s in self.segments if isinstance(s, NativeSegment)]
        names = [self.plan, self.end, *(s.plan for s in native), *(s.entry for s in native)]
        return tuple(dict.fromkeys(n for n in names if n))
