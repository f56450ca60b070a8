"""`weft.compile(function, split=True)`: one program where a call can be one, else Python with programs between the
values that it asks for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from weft.compile.assumptions import Assumptions
from weft.compile.driver import CompiledFunction, is_watched
from weft.compile.program.entry import AFTER_A_RUN
from weft.record.writes import ArgumentChange
from weft.support import limits, pytree
from weft.support.errors import OR_SPLIT, CaptureError, NotFiniteError, Unsupported, ValuesThatWait
from weft.support.knobs import knobs
from weft.support.seams import split_function
from weft.tensor.modes import floor, modes


class WholeOrSplit(CompiledFunction):
    """A function that runs as whole programs until no program can do what it does; from then on Python runs on each
    call, and what lies between two places where a value is asked for is a program.

    A truth value that Python asks a tensor for makes no difference: there is a program for each answer. What a whole
    program refuses, or raises, has left nothing behind: Python then runs that call.
    """

    calls_hooks = False

    def __init__(self, function: Callable[..., Any], name: str | None = None, backend: str | None = None) -> None:
        super().__init__(function, name, backend)
        self.assumptions = Assumptions(reads_values=True)
        self._is_generator = inspect.isgeneratorfunction(function)
        self.is_whole = not self._is_generator  # whether calls are still tried as programs
        self.runs_eagerly = False
        self._split: Any = None
        self._calls = self._captures = self._failures = self._python_calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.is_whole or (modes.special is not None and (floor() is not None or is_watched())):
            return self._as_python(args, kwargs)
        if knobs.eager or modes.capture is not None:
            return self.function(*args, **kwargs)
        self.note_call()
        try:
            return super().__call__(*args, **kwargs)
        except NotFiniteError:  # (somebody looks for it)
            raise
        except Exception as error:
            if AFTER_A_RUN in vars(error):  # the call has been made
                raise
            self._note_failure(error)
        return self._as_python(args, kwargs)  # (if it is the function's own error, this raises it)

    def note_call(self) -> None:
        self._calls += 1

    def _as_python(self, args: Any, kwargs: Any) -> Any:
        """Run Python: with programs, or, where what is computed is too small for them, operator by operator. Now and
        then a call is looked at anew."""
        if not self.is_whole and not self._is_generator:
            self._python_calls += 1
            number = self._python_calls
            if number == 1 or (number >= limits.CALLS_BEFORE_A_TRIAL and not number & (number - 1)):
                result, self.runs_eagerly = self.split.tried(*args, **kwargs)
                return result
            if self.runs_eagerly:
                return self.function(*args, **kwargs)
        return self.split(*args, **kwargs)

    @property
    def split(self) -> Any:
        """The function with Python on each call."""
        if self._split is None:
            self._split = split_function(self.function, self.name, self.backend)
        return self._split

    @property
    def cuts(self) -> dict[str, int]:
        """How often calls were cut, by the user's line and what asked for a value."""
        return {} if self._split is None else self._split.cuts

    @property
    def devices(self) -> list[Any]:
        """Where operators wait of calls that were no whole programs."""
        return [] if self._split is None else self._split.devices

    def explain(self) -> str:
        """The cuts as text."""
        text: str = self.split.explain()
        return text

    def why_as_written(self, error: Exception) -> str | None:
        """Calls are split instead, but for those whose tensors wait anyway."""
        return super().why_as_written(error) if isinstance(error, ValuesThatWait) else None

    def capture(self, leaves: list[Any], spec: pytree.TreeSpec, backend: str | None = None) -> Any:
        """Capture one program. Raises CaptureError where calls keep needing new ones."""
        self._captures += 1
        if self._captures > max(limits.CAPTURES_OF_A_SPLIT_FUNCTION, self._calls // 4):
            raise CaptureError(f"{self.name}: what it depends on changes at every call; Python runs on each call")
        return super().capture(leaves, spec, backend)

    def _note_failure(self, error: Exception) -> None:
        """A call was no program. One that Python would refuse as well says nothing about the next one."""
        self._failures += 1
        if isinstance(error, (CaptureError, Unsupported, ArgumentChange)) or self._failures > limits.FAILURES:
            self.is_whole = False
            why = str(error).removesuffix(OR_SPLIT)
            self._say(f"{why} ({self.name} is no whole program: Python runs on each call)")
            self.entries.remove(lambda entry: True)

    def __repr__(self) -> str:
        return super().__repr__() if self.is_whole else f"<split {self.name}>"
