"""How many programs a run draws. Tests name the numbers that find the faults of scripts/mutations.txt, WEFT_AGREE
multiplies them (as `./dev mutations` and `./dev sweep` do), and a run that names no width draws a quarter of them: the
suite is to end within minutes, and sweeps are what looks for what nobody drew yet."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("WEFT_AGREE", "1"))


def times(count: int, rarely: int = 1) -> int:
    """As many as the width of this run makes of `count`, one at least. rarely: what is slow is drawn as much less."""
    whole = count * TIMES if "WEFT_AGREE" in os.environ else (count + 3) // 4
    return max(1, whole // rarely)
