"""The number of threads as programs ask for it. A compiled function that asked goes by the answer."""

from __future__ import annotations

from weft.runtime import pool
from weft.tensor.modes import modes


def get_num_threads() -> int:
    """Threads of a parallel region, the caller included. WEFT_NUM_THREADS, else OMP_NUM_THREADS, else the number of
    available cores."""
    count = pool.get_num_threads()
    if modes.capture is not None:
        modes.capture.python_state.guard(
            "the number of threads",
            lambda: f"the number of threads was {count}, is now {pool.get_num_threads()}",
            lambda: pool.get_num_threads() == count,
        )
    return count
