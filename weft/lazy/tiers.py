"""Whether a step is compiled, or run call by call: what never came before, and begins at a line of the user's that has
programs, is not compiled before it comes again. (A loop over lengths that are others each time makes another step each
time.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.ops.compute as compute
from weft.lazy.graphs import Call, InputOf, NumberOf, Numbers, UnbackedNumber
from weft.lazy.recorded import ResultOf
from weft.lazy.values import Array
from weft.programs.executable import own_memory
from weft.programs.store import Variants
from weft.support.errors import WeftError
from weft.types.dims import evaluate

if TYPE_CHECKING:
    from weft.lazy.programs import Plan, Specialized, Writes

AT_ONCE = 32  # calls, of the programs of one line that are compiled whether they come again or not
FEW = 2  # of so many steps without programs each is compiled when it comes twice in a row
OFTEN = 8  # of more, when it has come so often


class CallByCall:
    """The calls of a plan, run one after the other as eager mode does."""

    seconds = 0.0  # it holds the interpreter: a worker gains nothing

    def __init__(self, plan: Plan, writes: Writes) -> None:
        self.writes = writes
        self._calls, self._numbers_from = plan.calls, plan.sizes
        self._results = (*plan.wanted, *plan.unbacked_sizes)

    def took(self, seconds: float) -> None:
        """(A program keeps this, to know whether a worker is worth it.)"""

    def compute(self, arrays: list[Array], numbers: Numbers) -> list[Any]:
        """What the calls give, in arrays that nobody else has."""
        run = _Run(arrays, numbers, self._numbers_from)
        last = self._last_uses()
        for i, call in enumerate(self._calls):
            run.results.append(run.call(call))
            for done in last.get(i, ()):
                run.results[done] = None
        return own_memory([run.argument(place) for place in self._results], arrays)

    def results_of(self, computed: list[Any], arrays: list[Array]) -> list[Array]:
        """The results: arrays that nobody else has, or the inputs that they are written to. (It may be done twice.)"""
        for position, slot in self.writes:
            np.copyto(arrays[slot], computed[position])
            computed[position] = arrays[slot]
        return computed

    def run_apart(self, arrays: list[Array], numbers: Numbers) -> list[Array | BaseException]:
        """Each result by itself, or what computing it raises: of calls of which one raised."""
        run = _Run(arrays, numbers, self._numbers_from)
        for call in self._calls:
            problem = next((p for p in map(run.problem, _places_in(call.args)) if p is not None), None)
            try:
                run.results.append(run.call(call) if problem is None else problem)
            except Exception as error:
                run.results.append(naming(call.op, error))
        return [
            problem if (problem := next(filter(None, map(run.problem, _places_in((place,)))), None)) is not None
            else np.array(run.argument(place), order="C")
            for place in self._results
        ]

    def _last_uses(self) -> dict[int, list[int]]:
        """By call, the earlier ones whose results nobody reads behind it."""
        last = {p.call: i for i, call in enumerate(self._calls) for p in _places_in(call.args) if type(p) is ResultOf}
        for place in _places_in(self._results):
            if type(place) is ResultOf:
                last.pop(place.call, None)
        by_call: dict[int, list[int]] = {}
        for done, i in last.items():
            by_call.setdefault(i, []).append(done)
        return by_call


class _Run:
    """One run. results: of each call; an error where it has none, None where nobody reads them any more."""

    def __init__(self, arrays: list[Array], numbers: Numbers, first: int) -> None:
        self.arrays, self.numbers, self.first = arrays, numbers, first
        self.results: list[Any] = []

    def call(self, call: Call) -> tuple[Any, ...]:
        """The results of one call. Raises what it raises, the user's line in front."""
        args = tuple(map(self.argument, call.args))
        try:
            out = compute.evaluate_in_program(call.op, args)
        except WeftError as error:
            if call.where is None:
                raise
            raise type(error)(f"{call.where}: {error}") from None
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)

    def argument(self, a: Any) -> Any:
        kind = type(a)
        if kind is ResultOf:
            return self.results[a.call][a.index]
        if kind is InputOf:
            return self.arrays[a.turn]
        if kind is NumberOf:
            number = self.numbers[a.turn + self.first]
            return number if type(number) is float else int(number)
        if kind is UnbackedNumber:
            sizes = {f"v{i}": self.argument(place).shape[axis] for i, (place, axis) in enumerate(a.places)}
            return evaluate(a.expr, sizes)
        return tuple(map(self.argument, a)) if kind is tuple else a

    def problem(self, place: Any) -> BaseException | None:
        """What was raised where this value should have been computed."""
        result = self.results[place.call] if type(place) is ResultOf else None
        return result if isinstance(result, BaseException) else None


def _places_in(args: Sequence[Any]) -> list[Any]:
    places: list[Any] = []
    for a in args:
        if type(a) is tuple:
            places.extend(_places_in(a))
        elif type(a) is UnbackedNumber:
            places.extend([place for place, _ in a.places])
        elif type(a) in (ResultOf, InputOf):
            places.append(a)
    return places


def naming(op: Any, error: Exception) -> Exception:
    """The error, its operator named."""
    text = str(error)
    return type(error)(f"{text} (in {op.base})") if isinstance(error, WeftError) and op.base not in text else error


class Line:
    """A line of the user's where steps begin. calls: how many its programs have; kinds: how many plans came without a
    program since one came again that has one; latest: the last of them.
    """

    def __init__(self) -> None:
        self.calls = self.kinds = 0
        self.latest: Variants[Specialized] | None = None

    def may_wait(self, variants: Variants[Specialized]) -> bool:
        """Whether a step is run call by call that has just missed: these are the programs of its plan."""
        if self.calls < AT_ONCE:
            return False
        self.kinds += variants.misses == 1
        comes_again = self.latest is variants and self.kinds <= FEW
        self.latest = variants
        return not comes_again and variants.misses < OFTEN

    def note(self, program: Specialized, calls: int) -> None:
        """A program was compiled."""
        program.first_at = self
        self.calls += calls

    def came_again(self, program: Specialized) -> None:
        """A program runs for the second time."""
        program.first_at = None
        self.kinds = 0


Lines = defaultdict[Any, Line]  # of a device, by where they are
