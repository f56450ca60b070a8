"""Into how many parts a kernel is cut, and what memory these need."""

from __future__ import annotations

from functools import lru_cache

from weft.loops.kernel import KernelCall
from weft.plan.arena import aligned
from weft.support import limits
from weft.types import dims as dm
from weft.types.dims import Dim

# Cost (elements times weight) of a part that is worth another thread. A unit is 0.03 ns (tanh) to 0.2 ns
# (a sum of arrays) on one core, so this is 4 to 25 us; a region costs its caller half a microsecond, or some 20 us when
# the workers are asleep.
GRAIN = 1 << 17
MAX_CHUNKS = 32


def chunk_count(call: KernelCall) -> Dim:
    """Into how many parts a kernel is cut: by its sizes alone, so that results are the same for every
    number of threads."""
    count = parts(call.extent, call.cost)
    return count if call.most_parts is None else dm.minimum(count, call.most_parts)


@lru_cache(limits.RESULTS)
def parts(extent: Dim, cost: Dim) -> Dim:
    """How many parts are worth their threads, of an extent that costs so much."""
    return 1 if extent == 1 else dm.maximum(1, dm.minimum(dm.minimum(extent, MAX_CHUNKS), cost // GRAIN))


def scratch_bytes(call: KernelCall) -> Dim:
    """Private memory of all parts of a kernel."""
    return aligned(call.scratch_bytes) * chunk_count(call) if call.scratch_bytes != 0 else 0
