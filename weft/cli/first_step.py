"""What the first step cost, and what it was made into."""

from __future__ import annotations

import weft
from weft.cli.run import Run


def describe_first_step(run: Run, seconds: float) -> str:
    """One or two lines, after the first step of a run took `seconds` in all."""
    if run.mode == "eager":
        return f"first step {seconds:.2f} s, operator by operator"
    work = weft.counters
    return f"first step {seconds:.2f} s: {work.captures} capture, {work.kernels} kernels, {work.native_calls} native call"
