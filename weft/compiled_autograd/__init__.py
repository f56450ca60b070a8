"""Top floor: compiled autograd. A backward call of an eager graph is known by its structure (structure.py); the engine
records it as a graph of opaque calls (recording.py), a program (program.py, specialize.py) for every size.

Start reading at api.py, then cache.py, where a call is run.
"""

from weft.compiled_autograd.api import disable, enable, interpret, last_graph, miss_log, native, reset, trap_metadata
from weft.compiled_autograd.captured import CapturedGraph
from weft.compiled_autograd.functional import ops, pack, unpack

__all__ = [
    "CapturedGraph", "disable", "enable", "interpret", "last_graph", "miss_log", "native", "ops", "pack", "reset",
    "trap_metadata", "unpack",
]
