"""Lifted numbers: Python floats that became runtime inputs, or were made of sizes. Arithmetic is recorded,
questions are answered from the example and guarded.

A number that outlives its capture (a cache of the user's kept it) is a plain one from then on: that of the call
that was captured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NamedTuple, Protocol, cast
from weakref import ref

import numpy as np

from weft.guards.values import same
from weft.ir.graph import Value
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.record.recorder import GraphRecorder, refusal
from weft.support.errors import CaptureError
from weft.tensor.modes import modes
from weft.types.dims import Expr, evaluate, lower_bound, symbols
from weft.types.numbers import COMPARISONS, MATH, NumberMethods, NumberOperation, are_numbers
from weft.types.relation import lower_bound_of
from weft.types.shape_env import ShapeEnv
from weft.types.sym import SymInt, install_float_maker

Values = Mapping[str, Any]  # of symbols and lifted numbers, at a call
Compute = Callable[[Values], float]


class Facts(NamedTuple):
    """What is certain of a lifted float.

    is_known: a call knows it before it runs: it hangs on no size that the run finds. is_positive: it is never below 0.
    is_sized: it is made of sizes.
    """

    is_known: bool = True
    is_positive: bool = False
    is_sized: bool = False


_GIVEN = Facts()


class NumberRecorder(Protocol):
    """What records a capture's arithmetic on numbers (numbers/lifted.py). floats: the lifted floats that Python has
    seen; run_numbers: calls an operator with numbers."""

    env: ShapeEnv
    recorder: GraphRecorder
    floats: list[ref[SymFloat]]
    run_numbers: Callable[[Op, tuple[Any, ...]], Any]

    def ask_number(
        self, question: Callable[[Values], bool], name: str = ..., value: Callable[[Values], Any] | None = None
    ) -> bool:
        """Answer a question about a number from the example, and guard the answer."""

    def refuse_zero(self, operand: Any, compute: Compute) -> None:
        """A number is divided by."""

    def whole_number(self, value: Value, negated: Value | None) -> SymInt:
        """An integer that the program computes."""

    def example_of(self, compute: Callable[[Values], Any]) -> Any:
        """What is computed of numbers and symbols, in the example."""

    def note_float(self, frame: FrameType) -> None:
        """A symbol is made a plain number on this frame."""

    def note_rows(self, size: Any, frame: FrameType) -> None:
        """Python goes over as many things as a size says, perhaps."""

    def note_question(self, frame: FrameType) -> None:
        """Numbers are compared on this frame, of which no call knows which is less."""


class SymFloat(NumberMethods):
    """A float known when the program runs. `compute(values)` evaluates it from the current Python state and the values
    of a call's symbols."""

    __slots__ = ("__weakref__", "compute", "facts", "numbers", "value")
    __weft_number__ = True
    __weft_number_type__ = float
    is_number = True

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """float, so that `isinstance(k, float)` in the user's code says what it says in eager mode."""
        return float

    def __init__(self, value: Value, numbers: NumberRecorder, compute: Compute, facts: Facts = _GIVEN) -> None:
        """numbers: what records it, until its capture ends."""
        self.value, self.compute, self.facts = value, compute, facts
        self.numbers: NumberRecorder | None = numbers
        numbers.floats.append(ref(self))

    @property
    def is_live(self) -> bool:
        """Whether its capture has not ended."""
        return self.numbers is not None

    def is_same(self, other: NumberMethods) -> bool:
        """Whether it is the same number, in the example if that knows both."""
        assert type(other) is SymFloat
        if self.is_live and other.is_live and not (self.facts.is_known and other.facts.is_known):
            return self.value is other.value
        return bool(self == other)

    def as_float(self) -> SymFloat:
        """The number itself."""
        return self

    def extreme(self, operation: NumberOperation, a: Any, b: Any) -> Any:
        """`max` or `min` of two numbers: floats stay symbolic, otherwise it is asked which is which."""
        are_floats = isinstance(a, float) and isinstance(b, float) and are_numbers((a, b))
        return self._operation(operation, a, b) if are_floats else operation(a, b)

    def settle(self) -> None:
        """The capture has ended: become the number of the call that was captured, and hold nothing else of it."""
        try:
            number = self.now()
        except (CaptureError, ArithmeticError, ValueError):  # nobody knows it, as when it hangs on an unbacked size
            return
        self.numbers, self.compute = None, lambda values: number
        del self.value

    @staticmethod
    def __weft_route__(op: Any, args: tuple[Any, ...]) -> Any:
        args = tuple([a.now() if type(a) is SymFloat and a.numbers is None else a for a in args])
        numbers = next((a.numbers for a in args if type(a) is SymFloat), None)
        return call(op, args) if numbers is None else numbers.run_numbers(op, args)

    def _operation(self, operation: NumberOperation, *operands: Any) -> Any:
        """Record an operation of Python's on numbers. Raises what Python raises in the example; a run raises it too."""
        if self.numbers is None:
            return _plainly(operation, operands)
        if not are_numbers(operands):
            return NotImplemented
        operands = tuple([_lifted_operand(x) for x in operands])
        compute = _joined(operation.python, operands)
        state = self.numbers
        if operation.result == "bool":
            lifted = [x for x in operands if type(x) is SymFloat]
            if not _facts(operation, operands).is_known:
                proven = _proven(operation, *operands)
                if proven is not None:
                    return proven
                state.note_question(sys._getframe(2))
                if state.recorder.reads is not None:
                    return state.recorder.reads.decide(self._emitted(operation, operands))
            question: Any = compute  # it gives a bool
            return state.ask_number(question, lifted[0].name, lifted[0].compute if len(lifted) == 1 else None)
        facts = _facts(operation, operands)
        is_int = operation.is_int(*[float if type(x) is SymFloat else type(x) for x in operands])
        if is_int and not facts.is_known:
            whole = self._emitted(operation, operands)
            negated = None if facts.is_positive else self.numbers.recorder.builder.emit(_NEG, (whole,)).output
            return state.whole_number(whole, negated)
        if facts.is_known:
            example = state.example_of(compute)
            if type(example) is complex:
                raise refusal(f"a number to the power of another one is {example}, a complex number")
            if is_int:
                return self._whole(compute, example)
        overload = _NATIVE.get((operation.entry, len(operands)))
        if overload is None or not (facts.is_known or operation.entry in _NEVER_RAISES):
            number = self._emitted(operation, operands)
            if operation.entry == "prim::pow" and not facts.is_positive:
                self._emitted(MATH["pow"], operands)  # (it raises where Python's power is a complex number)
            return SymFloat(number, self.numbers, compute, facts)
        if operation.entry == "prim::truediv":
            state.refuse_zero(*_operand_and_value(operands[1]))
        elif operation.entry == "prim::neg":
            operands = (operands[0], -1.0)
        elif operation.entry not in _NEVER_RAISES and (facts.is_sized or operation.entry != "prim::pow"):
            state.ask_number(lambda values: _is_defined(compute, values), self.name)
        node = self.numbers.recorder.builder.emit(overload.op, _with_defaults(overload.op, _values(operands)))
        return SymFloat(node.output, self.numbers, compute, facts)

    @property
    def name(self) -> str:
        """What a message calls it."""
        return self.value.name or "a number"

    def _emitted(self, operation: NumberOperation, operands: tuple[Any, ...]) -> Value:
        """A node of the language: it does what Python does, its errors included. (Of comparisons, native code does.)"""
        assert self.numbers is not None
        op = _COMPARED[operation.entry].op if operation.entry in _COMPARED else OPS[operation.entry]
        return self.numbers.recorder.builder.emit(op, _with_defaults(op, _values(operands))).output

    def _whole(self, compute: Compute, example: Any) -> Any:
        """A whole number made of the example's value; guarded is that it stays the same, not the value."""
        assert self.numbers is not None
        self.numbers.ask_number(lambda values: compute(values) == example, self.name, self.compute)
        return example

    def now(self) -> float:
        """Its value in the example."""
        return self.compute({}) if self.numbers is None else self.numbers.example_of(self.compute)

    def ask(self, question: Callable[[float], bool]) -> bool:
        """Answer a question from the example; the answer is guarded."""
        if self.numbers is None:
            return question(self.now())
        mine = self.compute
        return self.numbers.ask_number(
            lambda values: question(mine(values)), self.name, mine
        )

    def __bool__(self) -> bool:
        if self.is_live and not self.facts.is_known:
            return bool(self._operation(COMPARISONS["ne"], self, 0.0))
        return self.ask(lambda v: v != 0)

    def __float__(self) -> float:
        """The example's value, guarded: for code that cannot stay symbolic (functions in C, formatting)."""
        if self.numbers is not None:
            self.numbers.note_float(sys._getframe(1))
        value = self.now()
        self.ask(lambda v: same(v, value))
        return value

    def __int__(self) -> int:
        """Cut off, as the example has it; guarded is that it stays so."""
        if self.numbers is None:
            return int(self.now())
        if not self.facts.is_known:
            self.numbers.note_float(sys._getframe(1))
        mine = self.compute
        return int(self._whole(lambda values: int(mine(values)), int(self.now())))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(float(self), dtype)

    def __getattr__(self, name: str) -> Any:
        """What else a float has (is_integer, hex, ...), of the guarded value."""
        if name.startswith("__") or not hasattr(float, name):
            raise AttributeError(f"'float' object has no attribute '{name}'")
        return getattr(float(self), name)

    def __hash__(self) -> int:
        return hash(float(self))

    def __format__(self, spec: str) -> str:
        return format(float(self), spec)

    def __str__(self) -> str:
        return str(float(self))

    def __repr__(self) -> str:
        return repr(float(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> SymFloat:
        return self

    def __copy__(self) -> SymFloat:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled as the guarded value."""
        return float, (float(self),)


def _recorder_of(number: SymInt) -> NumberRecorder | None:
    """What records arithmetic on a symbolic integer, while its capture is active."""
    capture = modes.capture
    numbers = None if capture is None else cast("NumberRecorder", capture.python_state)
    return numbers if numbers is not None and number.env is numbers.env else None


def float_of(number: SymInt) -> SymFloat | None:
    """A symbolic integer (a size, a lifted number, or made of them) as a lifted float; None if nothing is captured."""
    numbers = _recorder_of(number)
    if numbers is None:
        return None
    expr = number.expr
    node = numbers.recorder.builder.emit(aten.add.Tensor.op, (0.0, expr, 1))
    names, low = symbols(expr), lower_bound(expr, lower_bound_of)
    facts = Facts(names <= numbers.env.examples.keys(), low is not None and low >= 0, any(n[0] in "su" for n in names))
    return SymFloat(node.output, numbers, lambda values: float(evaluate(expr, values)), facts)


class _Notes:
    """Numbers that were made plain, and questions without an answer, are noted by the capture that they belong to."""

    def number(self, number: SymInt, frame: FrameType) -> None:
        numbers = _recorder_of(number)
        if numbers is not None:
            numbers.note_float(frame)

    def index(self, number: SymInt, frame: FrameType) -> None:
        numbers = _recorder_of(number)
        if numbers is not None:
            numbers.note_rows(number, frame)

    def question(self, number: SymInt, frame: FrameType) -> None:
        numbers = _recorder_of(number)
        if numbers is not None:
            numbers.note_question(frame)


install_float_maker(float_of, _Notes())


def _is_defined(compute: Compute, values: Values) -> bool:
    try:
        return type(compute(values)) is float
    except (ArithmeticError, ValueError):
        return False


# what native code does as Python does it where it raises nothing, by entry and number of operands
_NATIVE: dict[tuple[str, int], Any] = {
    ("prim::add", 2): aten.add.Tensor, ("prim::sub", 2): aten.sub.Tensor, ("prim::mul", 2): aten.mul.Tensor,
    ("prim::truediv", 2): aten.div.Tensor, ("prim::pow", 2): aten.pow.Tensor_Tensor, ("prim::neg", 1): aten.mul.Tensor,
    ("math::pow", 2): aten.pow.Tensor_Tensor,
    **{(o.entry, 1): getattr(aten, name).default for name, o in MATH.items() if o.in_c and o.operands == 1},
}
_COMPARED = {f"prim::{name}": getattr(aten, name).Tensor for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_NEG = OPS["prim::neg"]
_NEVER_RAISES = frozenset(("prim::add", "prim::sub", "prim::mul", "prim::neg"))


def _lifted_operand(x: Any) -> Any:
    """A number as an operand: a symbol of the capture as a lifted float, one of an earlier capture as the number that
    it has become."""
    if type(x) is SymInt:
        number = float_of(x)
        return int(x) if number is None else number
    if type(x) is SymFloat:
        return x.now() if x.numbers is None else x
    return x


def _plainly(operation: NumberOperation, operands: tuple[Any, ...]) -> Any:
    return operation(*[x.now() if type(x) is SymFloat and x.numbers is None else x for x in operands])


def _joined(python: Callable[..., Any], operands: tuple[Any, ...]) -> Compute:
    """What a call's numbers give. Functions of one and two operands are written out: guards compute them anew."""
    computes = [x.compute if type(x) is SymFloat else None for x in operands]
    if len(operands) == 2 and computes[0] is not None:
        mine, other = computes[0], operands[1]
        theirs = computes[1]
        return (lambda v: python(mine(v), other)) if theirs is None else (lambda v: python(mine(v), theirs(v)))
    return lambda v: python(*[x if c is None else c(v) for x, c in zip(operands, computes, strict=True)])


def _facts(operation: NumberOperation, operands: tuple[Any, ...]) -> Facts:
    lifted = [x.facts for x in operands if type(x) is SymFloat]
    is_positive = operation.keeps_sign and all([type(x) is SymFloat or x is None or x >= 0 for x in operands])
    return Facts(
        all([f.is_known for f in lifted]), is_positive and all([f.is_positive for f in lifted]),
        any([f.is_sized for f in lifted]),
    )


def _proven(operation: NumberOperation, a: Any, b: Any) -> bool | None:
    """The answer to a comparison of a number that is never below 0 with one that is not above it, if that says it."""
    compare = operation.python
    lifted, bound = (a, b) if type(a) is SymFloat else (b, a)
    if not lifted.facts.is_positive or type(bound) not in (int, float):
        return None
    return _of_signs(compare if lifted is a else lambda x, y: compare(y, x), bound)


def _of_signs(compare: Callable[[float, float], bool], bound: float) -> bool | None:
    """What a comparison with a bound says of 0 and of all that is above, if it is the same."""
    if bound > 0 or bound != bound:
        return None
    least, more = compare(0.0, bound), compare(1.0, bound)
    return least if least is more else None


def _values(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([x.value if type(x) is SymFloat else x for x in operands])


def _operand_and_value(x: Any) -> tuple[Any, Compute]:
    return (x.value, x.compute) if type(x) is SymFloat else (x, lambda values: x)


def _with_defaults(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return args + tuple(a.default for a in op.schema.arguments[len(args) :])


def is_live(value: Any) -> bool:
    """Whether a value is a symbol of a capture that has not ended."""
    return type(value) in (SymInt, SymFloat) and bool(value.is_live)


def operand_of(value: Any) -> Any:
    """The operand of a lifted number, in tuples too (others as they are)."""
    if type(value) is tuple:
        return tuple(map(operand_of, value))
    if isinstance(value, SymFloat):
        return value.value if is_live(value) else value.now()
    if isinstance(value, SymInt):
        return value.expr
    return value


def is_lifted(value: Any) -> bool:
    """Whether a Python value stands for a runtime number."""
    return isinstance(value, (SymFloat, SymInt, Expr))
