"""What the first step cost, and what it was made into."""

from __future__ import annotations

from typing import Any

import weft
from weft.cli.run import Run


def describe_first_step(run: Run, seconds: float) -> str:
    """What is said after the first step of a run, which took `seconds` in all.
    Counters must be those of that step alone."""
    if run.mode == "eager":
        return f"first step {seconds:.2f} s, operator by operator"
    if run.mode == "lazy":
        return f"first step {seconds:.2f} s: {weft.lazy.metrics.traced():,} calls traced, run as one program"
    entry = run.compiled.entries[0]
    operators = _operators(entry.executable)
    capture, compilation = entry.seconds_total - entry.seconds_compile, entry.seconds_compile
    if run.mode == "interpret":
        return f"first step {seconds:.2f} s: capture {capture:.2f} s; {operators:,} operators, interpreted one by one"
    work = weft.counters
    warm = "" if work.llvm_compiles else " (found in the disk cache)"
    return (
        f"first step {seconds:.2f} s: capture {capture:.2f} s, compilation {compilation:.2f} s{warm}\n"
        f"{operators:,} operators became {work.kernels:,} kernels in {_count(work.native_calls, 'native call')}, "
        f"with {_count(work.foreign_segments, 'segment')} left to NumPy"
    )


def _operators(executable: Any) -> int:
    """Operators of the whole step, the backward's opened; asks for no LLVM text, which takes seconds."""
    if hasattr(executable, "optimized"):
        executable.optimized()
        return len(executable.passes.stages["opened"].nodes)
    return len(executable.stages()["opened"].nodes)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
