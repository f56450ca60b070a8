"""Who is told of what runs: a profiler, a debugger. Mostly nobody is, and that costs a look at an attribute for each
program, each backward call. (Operators are watched by their routes, which costs nothing while nobody does:
layers/watching.py.)

programs    an object with `begin(program, frame)`, called when a program's run begins; see runtime/program.py
steps       a function that stands around the steps of a backward call; see autograd/engine.py
executables a function (executable, inputs, symbols) -> results that is called in place of each program's run; see
            programs/executable.py
"""

from __future__ import annotations

from typing import Any

from weft.support.seams import checked_run


class Observers:
    """The observers of this process."""

    __slots__ = ("_look_for_nan", "executables", "programs", "steps")

    def __init__(self) -> None:
        self.programs: Any = None
        self.steps: Any = None
        self.executables: Any = None
        self._look_for_nan: set[str] = set()

    def look_for_nan(self, who: str, is_wanted: bool) -> None:
        """Let each program that gives a NaN or an infinity name the operator that made it, as long as somebody wants
        that. who: asks for it or no longer does."""
        (self._look_for_nan.add if is_wanted else self._look_for_nan.discard)(who)
        if self.executables is None or self.executables is checked_run:
            self.executables = checked_run if self._look_for_nan else None


observers = Observers()
