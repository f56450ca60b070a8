"""Who is told of what runs: a profiler. Mostly nobody is, and that costs a look at an attribute for each program, each
backward call. (Operators are watched by their routes, which costs nothing while nobody does: layers/watching.py.)

programs    an object with `begin(program, frame)`, called when a program's run begins; see runtime/program.py
steps       a function that stands around the steps of a backward call; see autograd/engine.py
"""

from __future__ import annotations

from typing import Any


class Observers:
    """The observers of this process."""

    __slots__ = ("programs", "steps")

    def __init__(self) -> None:
        self.programs: Any = None
        self.steps: Any = None


observers = Observers()
