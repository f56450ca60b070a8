"""How many programs a run draws. Tests name the numbers that find the faults of scripts/mutations.txt, WEFT_AGREE
multiplies them (as `./dev mutations` and `./dev sweep` do), and a run that names no width draws half of them."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("WEFT_AGREE", "1"))


def times(count: int) -> int:
    """As many as the width of this run makes of `count`."""
    return count * TIMES if "WEFT_AGREE" in os.environ else (count + 1) // 2
