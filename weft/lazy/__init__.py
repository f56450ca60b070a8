"""Lazy tensors: operators on device "lazy" wait until their values are asked for, and run as one program.

Nothing runs until `mark_step()`, a read (item, bool, print, numpy, tolist) or a conversion to another device. A step
that was seen before is recognised while it is traced, at whatever sizes: sizes, numbers and random seeds are inputs of
its program.
"""

from weft.lazy import computation, config, debug, metrics
from weft.lazy.api import add_step_closure, get_tensor_id, mark_step, reset, sync_multi, upper_bounds, wait_device_ops
from weft.lazy.extraction import extract_compiled_graph
from weft.lazy.metrics import no_recompile, no_sync

__all__ = [
    "add_step_closure", "computation", "config", "debug", "extract_compiled_graph", "get_tensor_id", "mark_step",
    "metrics", "no_recompile", "no_sync", "reset", "sync_multi", "upper_bounds", "wait_device_ops",
]
