"""Top floor: compiled autograd. A backward call of an eager graph becomes a list of steps (schedule.py), a graph
of opaque calls built from the steps alone (graph.py), and a program (program.py, specialize.py) that serves every size.

Start reading at api.py, then schedule.py.
"""

from weft.compiled_autograd.api import disable, enable, interpret, last_graph, miss_log, native, reset, trap_metadata
from weft.compiled_autograd.captured import CapturedGraph
from weft.compiled_autograd.functional import ops, pack, unpack

__all__ = [
    "CapturedGraph", "disable", "enable", "interpret", "last_graph", "miss_log", "native", "ops", "pack", "reset",
    "trap_metadata", "unpack",
]
