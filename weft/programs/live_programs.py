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
from weft.support.knobs import knobs
from weft.types.relation import ShapeGuard
from weft.types.shape_env import ShapeEnv

if TYPE_CHECKING:
    from weft.codegen.program.compile import Code

VARIANTS = 8  # of one graph: its passes may ask what the graph leaves open, and each answer makes another program
RECENT = 32  # kept though nobody runs them: whoever makes trainers one after the other compiles once


@dataclass(frozen=True, eq=False)
class LiveProgram:
    """Loaded code, and the questions that its passes asked: it serves the sizes that answer them so."""

    code: Code
    guards: tuple[ShapeGuard, ...]


_alive: WeakValueDictionary[tuple[str, int], LiveProgram] = WeakValueDictionary()
_recent: deque[LiveProgram] = deque(maxlen=RECENT)


def is_sharable(graph: Graph) -> bool:
    """Whether a program of the same text will do: not for operators of the user's own, nor where the passes
    themselves are looked at."""
    return is_stampable(graph) and not is_watched()


def code_name(text: str) -> str:
    """What the code of a captured graph goes by, made of its text (program_key)."""
    return hashlib.sha256(f"{knobs.cpu}\0{knobs.pool}\0{text}".encode()).hexdigest()


def live_program(name: str, env: ShapeEnv) -> LiveProgram | None:
    """Living code of that name that fits the example's sizes, whose guards are added; None if there is none."""
    for variant in range(VARIANTS):
        live = _alive.get((name, variant))
        if live is not None and all(guard.holds(env.examples) for guard in live.guards):
            for guard in live.guards:
                env.guards.setdefault(guard.relation, guard)
            return live
    return None


def keep_alive(name: str, live: LiveProgram) -> None:
    """Let later captures find this code."""
    free = next((n for n in range(VARIANTS) if (name, n) not in _alive), VARIANTS - 1)
    _alive[name, free] = live
    _recent.append(live)


def forget() -> None:
    """Keep no code that nobody runs."""
    _recent.clear()
