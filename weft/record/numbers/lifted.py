"""Numbers and facts of Python state that a capture depends on: lifted numbers as runtime inputs, questions about them,
and extra guards."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final, NoReturn, Protocol, TypeVar
from weakref import ref

from weft.guards.rewrite import Substitutes
from weft.guards.values import number_kind
from weft.ir.graph import Operand, Value
from weft.ir.structure import STEPS
from weft.ops.op import Op
from weft.ops.route import call
from weft.record.numbers.lifted_math import FUNCTIONS, LENGTHS, LOOPS, QUESTIONS, code_that_loads
from weft.record.numbers.sym_float import SymFloat, Values, is_lifted
from weft.record.recorder import GraphRecorder
from weft.record.restart import Restart
from weft.support.errors import CaptureError
from weft.support.locations import Location, user_location
from weft.tensor.tensor import Tensor
from weft.types.dims import Dim
from weft.types.sym import SymInt
from weft.types.tensor_type import FLOAT

T = TypeVar("T")
_MOST_CODES: Final = 64


@dataclass(eq=False)
class NumberInput:
    """A Python number that is read at every call: its graph parameter (floats) or symbol (integers),
    and where it comes from.

    leaf: the place among the call's arguments; None for state, which `getter` reads. element: which element it is of
    the tensor there, if it is one.
    key: what its value goes by among the values of a call's symbols. place: what it goes by in every program of the
    function. since: how many calls of Python there were when it was first met.
    """

    name: str
    getter: Callable[[], Any]
    leaf: int | None
    param: int | None
    key: str
    place: Hashable
    since: int = 0
    element: int | None = None


@dataclass(eq=False)
class NumberGuard:
    """A question about lifted numbers and the values of a call's symbols, with the answer
    that the program depends on."""

    question: Callable[[Values], bool]
    answer: bool
    where: Location | None
    name: str
    value: Callable[[Values], Any]
    example: Any

    def holds(self, values: Values) -> bool:
        try:
            return bool(self.question(values)) is self.answer
        except (ArithmeticError, ValueError):  # what has no answer is left to the function itself
            return False

    def miss(self, values: Values) -> str:
        """What changed."""
        answer = "" if type(self.example) is bool else ", for which a question has another answer"
        try:
            return f"{self.where}: {self.name} was {self.example}, is now {self.value(values)}{answer}"
        except (ArithmeticError, ValueError) as problem:
            return f"{self.where}: {self.name} was {self.example}, is now not there: {problem}"


class Renewal(Protocol):
    """What a guard on state knows about tensors that were replaced: others may take their places,
    if all else is as it was."""

    def renewed(self) -> dict[int, Tensor] | None:
        """The tensors that take the places of those with these ids; None where more than that has changed."""

    def settle(self) -> None:
        """From now on the program is for what is there now."""


@dataclass(eq=False)
class StateGuard:
    """A fact about Python state inside weft (an optimizer's groups) that the program depends on;
    `describe` says what changed."""

    describe: Callable[[], str]
    check: Callable[[], bool]
    where: Location | None
    renewal: Renewal | None = None

    def miss(self) -> str:
        """What changed."""
        return f"{self.where}: {self.describe()}"


class LiftedNumbers:
    """Python numbers as inputs of a program, the questions asked about them, and facts of Python state
    that it depends on."""

    def __init__(self, recorder: GraphRecorder, calls: Callable[[], int]) -> None:
        """calls: how many calls of Python the program has so far."""
        self.recorder, self.env, self._calls = recorder, recorder.env, calls
        self.run_numbers: Callable[[Op, tuple[Any, ...]], Any] = call  # with what makes tensors of numbers, if there is
        self._kept: list[Any] = []
        self.numbers: list[NumberInput] = []
        self.floats: list[ref[SymFloat]] = []  # those that Python has seen
        self.number_guards: list[NumberGuard] = []
        self.state_guards: dict[Any, StateGuard] = {}
        self._lifted: dict[tuple[int, Any], Any] = {}
        self._examples: dict[str, float] = {}
        self._divisors: set[Value] = set()  # that are known not to be 0
        self.may_change: Callable[[Any], bool] = lambda size: False  # whether loops may serve other values of a size
        self.lifted_codes: Sequence[CodeType] = ()  # captured with functions of math's that take symbols
        self._restart: Restart | None = None

    def lift(self, container: Any, key: Any, name: str, index: int | None = None) -> Any:
        """A number of a container (an optimizer's parameter group), or item `index` of a tuple in it (its betas),
        as an input of the program.

        It is read anew from the container's current value at every call. What is no number is given back as it is.
        """

        def read() -> Any:
            return container[key] if index is None else container[key][index]

        value = read()
        if number_kind(value) is None or is_lifted(value):  # (the function itself reads it too)
            return value
        number = self._lifted.get((id(container), (key, index)))
        if number is None:
            place = (id(container), (key, index))
            number = self._lifted[place] = self.lift_number(name, read, float(value), True, place)
            self._kept.append(container)
        return number

    def lift_elements(self, argument: Tensor, leaf: int) -> list[Any]:
        """The integers of a tensor argument, as inputs of the program."""
        flat = argument._data.reshape(-1)
        elements = []
        for i in range(flat.size):
            key = id(argument), i
            if key not in self._lifted:
                self._lifted[key] = self.lift_number(
                    f"arg{leaf}[{i}]", lambda i=i: int(flat[i]), flat[i], False, (leaf, i), leaf, i  # type: ignore[misc]
                )
            elements.append(self._lifted[key])
        self._kept.append(argument)
        return elements

    def guard(
        self, key: Any, describe: Callable[[], str], check: Callable[[], bool], renewal: Renewal | None = None
    ) -> None:
        """The program holds only while `check()` does; `describe()` then says what was and what is.
        A later guard under the same key takes an earlier one's place.

        renewal: for tensors that may be replaced by others.
        """
        self.state_guards[key] = StateGuard(describe, check, user_location(2), renewal)

    def release(self, ids: Container[int]) -> None:
        """Let go of tensors whose places others have taken."""
        self._kept = [value for value in self._kept if id(value) not in ids]

    def keep(self, value: Any) -> None:
        """Keep objects alive as long as the program, so that nothing else takes an identity that its guards compare."""
        self._kept.append(value)

    def lift_number(
        self, name: str, getter: Callable[[], Any], example: Any, as_float: bool, place: Hashable,
        leaf: int | None = None, element: int | None = None,
    ) -> Any:
        """A Python number read at every call."""
        if as_float:
            value = self.recorder.root.param(FLOAT, name)
            param = len(self.recorder.root.params) - 1
            key = f"%{param}"
            self.numbers.append(NumberInput(name, getter, leaf, param, key, place, self._calls()))
            self._examples[key] = float(example)
            return SymFloat(value, self, lambda values: float(values[key]))
        symbol = self.env.fresh("i", int(example))
        self.numbers.append(NumberInput(name, getter, leaf, None, str(symbol), place, self._calls(), element))
        return SymInt(symbol, self.env)

    def ask_number(
        self, question: Callable[[Values], bool], name: str = "the answer to a question about numbers",
        value: Callable[[Values], Any] | None = None,
    ) -> bool:
        """Answer a question about a lifted number (its name and value, for the message) from the example,
        and guard the answer."""
        answer = bool(self.example_of(question))
        value = question if value is None else value
        self.number_guards.append(NumberGuard(question, answer, user_location(3), name, value, self.example_of(value)))
        return answer

    def refuse_zero(self, operand: Operand, compute: Callable[[Values], float]) -> None:
        """A number is divided by: raise ZeroDivisionError where it is 0, and guard that it is not. Sizes that only
        the run knows are left to it.
        """
        if operand in self._divisors:
            return
        try:
            example = self.example_of(compute)
        except CaptureError:
            return
        if example == 0:
            raise ZeroDivisionError("float division by zero")
        if isinstance(operand, Value):
            self._divisors.add(operand)
            self.ask_number(lambda values: compute(values) != 0, operand.name or "a divisor", compute)

    def whole_number(self, value: Value, negated: Value | None) -> SymInt:
        """An integer that the program computes: a symbol that it binds, or the difference of two, of which one is 0.
        negated: the opposite number; None if it is known not to be negative."""
        return SymInt(self._bound(value) - (0 if negated is None else self._bound(negated)), self.env)  # type: ignore[arg-type]

    def _bound(self, value: Value) -> Dim:
        """The symbol of a number that the program computes (or a 0-dim tensor has); 0 for a negative one."""
        bound = self.recorder.builder.emit(STEPS, (value,)).output.tensor_type.shape[0]
        self.env.origins[str(bound)] = (user_location(2), "")
        return bound

    def stand_in(self, value: Value, key: str, example: float) -> SymFloat:
        """A number that stands for a value of the graph, which every call knows by this key."""
        self._examples[key] = example
        return SymFloat(value, self, lambda values: float(values[key]))

    def note_float(self, frame: FrameType) -> None:
        """A symbol is made a plain number on this frame, perhaps by a function of math's. Raises Restart if the frame's
        code is to be captured with those that take symbols."""
        self._note_taken(frame, FUNCTIONS)

    def note_question(self, frame: FrameType) -> None:
        """Numbers are compared on this frame, perhaps by `max` or `min`, of which no call knows which is less. Raises
        Restart, as `note_float`."""
        self._note_taken(frame, QUESTIONS)

    def note_rows(self, size: Any, frame: FrameType) -> None:
        """Python goes over as many things as a size says, perhaps by `range`, `zip` or `enumerate`. Raises Restart, as
        `note_float`, where a loop may be one of that size."""
        if self.may_change(size):
            self._note_taken(frame, LOOPS)

    def note_length(self, frame: FrameType) -> None:
        """A size is made a plain integer by `len`, perhaps called on this frame. Raises Restart, as `note_float`."""
        self._note_taken(frame, LENGTHS)

    def _note_taken(self, frame: FrameType, substitutes: Substitutes) -> None:
        if len(self.lifted_codes) < _MOST_CODES:
            code = code_that_loads(frame, substitutes, self.lifted_codes)
            if code is not None:
                self.restart(Restart(lifted=(code,)))

    def restart(self, restart: Restart) -> NoReturn:
        """Raises a Restart, once more at the end where the user's code catches it."""
        self._restart = self._restart or restart
        raise self._restart

    def settle_taken(self) -> None:
        """Raises the Restart that the user's code has caught, if there is one."""
        if self._restart is not None:
            raise self._restart

    def settle_numbers(self) -> None:
        """The capture has ended: numbers that something keeps are plain from now on."""
        self.env.is_over = True
        for number_ref in self.floats:
            number = number_ref()
            if number is not None:
                number.settle()
        self.floats.clear()

    @property
    def examples(self) -> Values:
        """What numbers and symbols are in the call that is captured, by their keys."""
        return ChainMap(self.env.examples, self._examples)

    def example_of(self, compute: Callable[[Values], T]) -> T:
        """What is computed of lifted numbers and symbols, in the example. Raises CaptureError if it hangs on what
        is only known while the program runs."""
        try:
            return compute(self.examples)
        except KeyError:
            raise CaptureError(
                f"{user_location(3)}: Python asks for the value of a number that hangs on a size which is only known "
                "while the program runs; keep it in a tensor, or move the line out of the compiled function"
            ) from None
