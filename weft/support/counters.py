"""Counters of work done: captures, compiles, kernels, calls. Tests count work, not only values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Counters:
    """`weft.counters`: plain integers, set back to zero by `reset()`.

    captures        functions captured by weft.compile (re-captures included)
    guard_misses    calls that found a guard changed
    llvm_compiles   modules handed to LLVM for code generation (a disk cache hit is not one)
    kernels         native kernels launched
    native_calls    entries into native code
    foreign_segments  segments run by NumPy or Python between native ones
    allocations     buffers allocated by compiled programs, outputs that escape included
    copies          full-size copies made by programs that no operator of the user's asked for: of what a write to a
                    part leaves alone, and of what state is at the end
    vmap_loops      operators that vmap ran example by example, for want of a batch rule
    eager_programs  native programs made for eager mode on large arrays;
                    neither their compilation nor their runs count elsewhere
    eager_calls     runs of these
    jit_plans       plans made for scripted programs, one for each kind of arguments
    fusion_fallbacks  runs of a group whose sizes fit none of its native programs: they are interpreted
    compiled_backwards  backward calls that ran by a captured graph, under weft.compiled_autograd.enable()
    walked_backwards  those that the engine walked all the same (what is recorded by an outer capture is neither)
    """

    NAMES = (
        "captures", "guard_misses", "llvm_compiles", "kernels", "native_calls", "foreign_segments", "allocations",
        "copies", "vmap_loops", "eager_programs", "eager_calls", "jit_plans", "fusion_fallbacks",
        "compiled_backwards", "walked_backwards",
    )
    __slots__ = NAMES

    captures: int
    guard_misses: int
    llvm_compiles: int
    kernels: int
    native_calls: int
    foreign_segments: int
    allocations: int
    copies: int
    vmap_loops: int
    eager_programs: int
    eager_calls: int
    jit_plans: int
    fusion_fallbacks: int
    compiled_backwards: int
    walked_backwards: int

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Set every counter to zero."""
        for name in self.NAMES:
            setattr(self, name, 0)

    @contextmanager
    def for_eager(self) -> Iterator[None]:
        """What is compiled within is eager mode's own affair."""
        compiled = self.llvm_compiles
        try:
            yield
            self.eager_programs += 1
        finally:
            self.llvm_compiles = compiled

    def as_dict(self) -> dict[str, int]:
        """The counters by name."""
        return {name: getattr(self, name) for name in self.NAMES}

    def __repr__(self) -> str:
        return "counters(" + ", ".join(f"{k}={v}" for k, v in self.as_dict().items()) + ")"


counters = Counters()
