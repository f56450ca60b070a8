"""Code that is alive in this process, by the captured graph that it was compiled from: what captures the same is
compiled once.

Two instances of a class with a compiled method, a notebook's cell that is run again and a function captured anew after
a guard missed mostly record a graph that was recorded before. Each has a program of its own (guards, state, memory);
the machine code below is one.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from weft.ir.graph import Graph
from weft.passes.run import is_watched
from weft.programs.program_cache import is_stampable
from weft.programs.store import UNFIT, Miss, Variants
from weft.support import limits
from weft.support.knobs import knobs
from weft.types.relation import ShapeGuard
from weft.types.shape_env import ShapeEnv

if TYPE_CHECKING:
    from weft.codegen.program.compile import Code


@dataclass(frozen=True, eq=False)
class LiveProgram:
    """Loaded code, and the questions that its passes asked: it serves the sizes that answer them so."""

    code: Code
    guards: tuple[ShapeGuard, ...]

    def match(self, env: ShapeEnv, numbers: None) -> ShapeEnv | Miss:
        """The guards' environment, with those of the code, if the code fits its example."""
        if not all(guard.holds(env.examples) for guard in self.guards):
            return UNFIT
        for guard in self.guards:
            env.guards.setdefault(guard.relation, guard)
        return env


Living = Variants[LiveProgram]
_alive: WeakValueDictionary[str, Living] = WeakValueDictionary()  # as long as somebody has one of them
_recent: deque[Living] = deque(maxlen=limits.RECENT_CODE)


def is_sharable(graph: Graph) -> bool:
    """Whether a program of the same text will do: not for operators of the user's own, nor where the passes
    themselves are looked at."""
    return is_stampable(graph) and not is_watched()


def living_programs(text: str) -> Living:
    """The living code of a captured graph, by its text (program_key)."""
    name = hashlib.sha256(f"{knobs.cpu}\0{knobs.pool}\0{text}".encode()).hexdigest()
    living = _alive.setdefault(name, Living(limits.VARIANTS_OF_CODE))
    _recent.append(living)
    return living


def forget() -> None:
    """Keep no code that nobody runs."""
    _recent.clear()
