"""`weft.compile(function, split=True)`: what users call."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from operator import is_
from types import MethodType
from typing import Any

from weft.lazy.split.backend import Split, SplitFloor
from weft.lazy.split.device import Cuts, SplitDevice, Trial
from weft.lazy.split.onlooker import running, without
from weft.support.function_wrapper import FunctionWrapper
from weft.support.generators import resumed_within
from weft.support.handlers import outermost
from weft.support.knobs import knobs
from weft.tensor.modes import floor, modes, switch_inference
from weft.types.sym import SymInt


class SplitFunction(FunctionWrapper):
    """A function that Python runs on each call, its operators deferred. Attributes of the function are available on it.

    A call that asks for no value is one program; each place where a value is asked for cuts it. What was computed
    before is recognised while it is traced, and its programs are run again.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None, backend: str | None = None) -> None:
        super().__init__(function, name, backend)
        self._cuts = Cuts()
        self._idle: list[Split] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if inspect.isgeneratorfunction(self.function):
            return self._stepwise(self.function(*args, **kwargs))
        with self._deferring():
            result = self.function(*args, **kwargs)
        return _with_numbers(result, set())

    @contextmanager
    def _deferring(self) -> Iterator[None]:
        """Within the block, operators of this thread wait; a block within another one is part of it."""
        below = floor()
        if knobs.eager or modes.capture is not None or (below is not None and below.stays):
            yield
            return
        backend = self._idle.pop() if self._idle else Split(SplitDevice(self._cuts, self.backend))
        above = tuple([entry for entry in modes.special or () if entry is not below])
        was_inference = modes.inference
        try:
            with running(backend.where), without():
                modes.special = (backend.floor, *above)
                try:
                    yield
                finally:
                    modes.special = above or None
                    try:
                        backend.where.cut()
                    finally:
                        self._idle.append(backend)
        finally:
            if modes.inference is not was_inference:  # the function leaves it so, and its layer with it
                now, modes.inference = modes.inference, was_inference
                switch_inference(now)

    def _stepwise(self, generator: Any) -> Generator[Any, Any, Any]:
        """The generator's own code runs deferred, what its caller does between two of its values does not."""
        return (yield from resumed_within(self._deferring, generator))

    def tried(self, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
        """What a call gives, run without programs, and whether that is as well for those that follow."""
        trial = self._cuts.trial = Trial()
        try:
            return self(*args, **kwargs), trial.is_small
        finally:
            self._cuts.trial = None

    @property
    def cuts(self) -> dict[str, int]:
        """How often calls were cut, by the user's line and what asked for a value."""
        return dict(self._cuts.found)

    @property
    def devices(self) -> list[SplitDevice]:
        """Where its operators wait, one for each call that ran at the same time; each has its programs."""
        return [backend.where for backend in self._idle]

    def __reduce__(self) -> Any:
        """Pickled by name where a module has it under its name, others as function and back end."""
        if self.is_under_its_name:
            return self.__qualname__
        return SplitFunction, (self.function, self.name, self.backend)

    def explain(self) -> str:
        """The cuts as text."""
        cuts = self._cuts.found
        if not cuts:
            return f"{self.name}: no cuts; each call is one program"
        lines = [f"  {where} ({count} times)" for where, count in cuts.most_common()]
        return "\n".join([f"{self.name}: cut where a value is asked for", *lines])

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> SplitFunction:
        return SplitFunction(copy.deepcopy(self.function, memo), self.name, self.backend)

    def __repr__(self) -> str:
        return f"<split {self.name}>"


def _with_numbers(result: Any, seen: set[int]) -> Any:
    """What a call gives with plain numbers for the sizes that waited and are known now: code in C takes no others.
    Lists and dicts stay the objects that they are. seen: the ids of those that were walked."""
    kind: Any = type(result)
    if kind is SymInt:
        return result.expr if type(result.expr) is int else result
    if id(result) in seen or not (kind is list or kind is dict or issubclass(kind, tuple)):
        return result
    seen.add(id(result))
    if kind is list or kind is dict:
        for key, value in list(result.items() if kind is dict else enumerate(result)):
            if (number := _with_numbers(value, seen)) is not value:
                result[key] = number
        return result
    parts = [_with_numbers(value, seen) for value in result]
    if all(map(is_, parts, result)):
        return result
    return kind._make(parts) if hasattr(kind, "_make") else kind(parts)


_ENDS = (SplitFunction.__call__.__code__, SplitFunction._stepwise.__code__)
outermost.update(_ENDS)
SplitFloor.ends = frozenset(map(id, _ENDS))
