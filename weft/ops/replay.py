"""Replay: composites and gradient formulas are pure functions of operators, so in eager mode they are opened once per kinds of arguments.

The first call runs the rule on `Traced` values, which note every NumPy call that is made; later calls with the same dtypes, shapes and other
arguments repeat those calls on the arrays at hand, without binding, type rules or wrappers. A rule that draws random numbers, looks at a value
or returns a view of an argument is not replayed: `NOT_REPLAYED` sends the caller the long way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.ops import compute
from weft.ops.array import ArrayFacts
from weft.ops.op import Op
from weft.ops.quiet import SILENT, reset, set_silent
from weft.ops.route import default_route
from weft.ops.steps import Function, step_of
from weft.support.knobs import knobs
from weft.support.seams import standalone
from weft.types import dtype as dt
from weft.types.dtype import DType

ndarray = np.ndarray
NOT_REPLAYED = object()
LARGE = 1 << 16  # elements of an array from which on a native program is worth its call
LIMIT = 256  # programs per rule; a rule whose arguments keep changing starts anew
Key = tuple[Any, ...]
Rule = Callable[..., Any]
_EXACT = frozenset((int, bool, str, type(None), DType))


class Untraceable(Exception):
    """The rule does something that cannot be repeated blindly."""


def sign(args: Sequence[Any], key: list[Any], arrays: list[Any], holders: list[Any]) -> None:
    """Add to `key` what a program depends on: dtypes and shapes of arrays, types and values of everything else.

    Arrays, found in an attribute `_data` or as they are, go to `arrays`, and what held them to `holders`. Raises Untraceable.
    """
    for a in args:
        kind = type(a)
        if kind in _EXACT:
            key.append(kind)
            key.append(a)
            continue
        data = getattr(a, "_data", a)
        if type(data) is ndarray:
            key.append(data.dtype)
            key.append(data.shape)
            arrays.append(data)
            holders.append(a)
        elif kind is tuple:
            key.append(len(a))
            sign(a, key, arrays, holders)
        elif kind is float or kind is complex:
            key.append(repr(a))  # 0.0 equals -0.0, and a NaN nothing
        else:
            raise Untraceable(f"a {kind.__name__} among the arguments")


class Program:
    """The NumPy calls of one rule for one signature. Registers: the arrays given, constants, then one value per step."""

    __slots__ = ("outputs", "registers", "steps")

    def __init__(self, steps: Sequence[tuple[Function, tuple[int, ...], int, tuple[int, ...]]], registers: Sequence[Any], outputs: Any) -> None:
        self.steps, self.registers, self.outputs = tuple(steps), list(registers), outputs

    def run(self, arrays: list[Any]) -> list[Any]:
        """The registers after all steps; those that no output names are empty."""
        r = arrays + self.registers[len(arrays) :]
        token = set_silent(SILENT)
        try:
            for function, operands, out, dead in self.steps:
                r[out] = function(*[r[i] for i in operands])
                for i in dead:
                    r[i] = None
        finally:
            reset(token)
        return r


class Traced(ArrayFacts):
    """A value while a rule is traced: the array, its register, and the register whose memory it shows."""

    __slots__ = ("register", "root")

    def __init__(self, data: Any, register: int, root: int) -> None:
        self.data, self.register, self.root = data, register, root

    def item(self) -> Any:
        raise Untraceable("a value is read")

    __bool__ = __len__ = __iter__ = item

    @staticmethod
    def __weft_route__(op: Op, args: tuple[Any, ...]) -> Any:
        recorder = _current.recorder
        if recorder is None:
            raise Untraceable("a value outlived its trace")
        return recorder.call(op, args)


class _Current(threading.local):
    recorder: _Recorder | None = None


_current = _Current()


class _Recorder:
    """Runs a rule's operators and notes their steps."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.registers: list[Any] = list(arrays)
        self.given = len(arrays)
        self.steps: list[tuple[Function, tuple[int, ...], int]] = []

    def call(self, op: Op, args: tuple[Any, ...]) -> Any:
        """What __weft_route__ does."""
        if op.effect not in ("pure", "raises"):
            raise Untraceable(f"{op.name} has an effect")
        if op.decompose is not None:
            if op.type is not None:
                op.type(*[_type_of(a) for a in args])
            return op.decompose(*args)
        function, operands = step_of(op, tuple([_plain(a) for a in args]))
        positions = tuple([self._operand(args, o) for o in operands])
        result = self._step(function, positions)
        root = args[0].root if op.view is not None else None
        return self._wrapped(result, root)

    def _operand(self, args: tuple[Any, ...], operand: Any) -> int:
        """The register of an operand: an argument as it is or converted, or a constant."""
        if operand.position is None:
            return self._constant(operand.value)
        value = args[operand.position]
        if type(value) is Traced:
            register = value.register
        else:
            register = self._step(_tuple_of, tuple([v.register if type(v) is Traced else self._constant(v) for v in value]))
        return register if operand.convert is None else self._step(operand.convert, (register,))

    def _constant(self, value: Any) -> int:
        self.registers.append(value)
        return len(self.registers) - 1

    def _step(self, function: Function, operands: tuple[int, ...]) -> int:
        value = function(*[self.registers[i] for i in operands])
        self.registers.append(value)
        self.steps.append((function, operands, len(self.registers) - 1))
        return len(self.registers) - 1

    def _wrapped(self, register: int, root: int | None) -> Any:
        value = self.registers[register]
        if type(value) in (tuple, list):
            return tuple([self._wrapped(self._step(_item(i), (register,)), root) for i in range(len(value))])
        if type(value) is not ndarray:
            raise Untraceable("a step gives no array")
        return Traced(value, register, register if root is None else root)

    def finish(self, result: Any) -> Program:
        """The program that gives `result`. Raises Untraceable where results show an argument's memory, or each other's."""
        roots: set[int] = set()
        outputs = self._output(result, roots)
        kept = set(_registers_in(outputs))
        last: dict[int, int] = {}
        for at, (_, operands, out) in enumerate(self.steps):
            last.update(dict.fromkeys((*operands, out), at))
        made = {out for _, _, out in self.steps}
        dead: list[list[int]] = [[] for _ in self.steps]
        for register, at in last.items():
            if register in made and register not in kept:
                dead[at].append(register)
        steps = [(f, operands, out, tuple(d)) for (f, operands, out), d in zip(self.steps, dead, strict=True)]
        empty = [None if i < self.given or i in made else value for i, value in enumerate(self.registers)]
        return Program(steps, empty, outputs)

    def _output(self, value: Any, roots: set[int]) -> Any:
        if value is None:
            return None
        if type(value) in (tuple, list):
            return type(value)([self._output(v, roots) for v in value])
        if type(value) is not Traced:
            raise Untraceable(f"a result is a {type(value).__name__}")
        if value.register >= self.given and (value.root < self.given or value.root in roots):
            raise Untraceable("a result is a view")
        roots.add(value.root)
        return value.register


def _tuple_of(*values: Any) -> tuple[Any, ...]:
    return values


def _item(i: int) -> Function:
    return lambda values: values[i]


def _registers_in(outputs: Any) -> list[int]:
    if type(outputs) in (tuple, list):
        return [i for o in outputs for i in _registers_in(o)]
    return [] if outputs is None else [outputs]


def _plain(value: Any) -> Any:
    """An argument with arrays in place of traced values. Raises Untraceable for a value of another world."""
    if type(value) is Traced:
        return value.data
    if type(value) is tuple:
        return tuple([_plain(v) for v in value])
    if hasattr(type(value), "__weft_route__"):
        raise Untraceable("a value from elsewhere")
    return value


def _type_of(value: Any) -> Any:
    return compute.type_of(_plain(value))


_PROGRAMS: dict[Any, dict[Key, Any]] = {}


def replay(owner: Any, rule: Rule, args: Sequence[Any]) -> Any:
    """`rule(*args)` by NumPy: (outputs, registers, holders), or NOT_REPLAYED where the long way must be taken, errors of operators included.

    owner: what the programs are kept under. args: arrays, holders of arrays (see `sign`), other values, and tuples of these. Outputs name
    registers, in the structure of the rule's result (None where it gives None); a register below len(holders) is that argument itself.
    """
    programs = _PROGRAMS.get(owner)
    if programs is None:
        programs = _PROGRAMS[owner] = {}
    listed: list[Any] = [dt.get_default()]
    arrays: list[Any] = []
    holders: list[Any] = []
    try:
        sign(args, listed, arrays, holders)
    except Untraceable:
        return NOT_REPLAYED
    is_large = any([a.size >= LARGE for a in arrays]) and knobs.backend == "llvm"
    if is_large:
        kinds = tuple([k for k in listed if type(k) is not tuple])  # all but the shapes
        listed.append(tuple([a.flags.c_contiguous for a in arrays]))
    key = tuple(listed)
    program: Any = programs.get(key, NOT_REPLAYED)
    if program is None:
        return NOT_REPLAYED
    try:
        if program is not NOT_REPLAYED:
            return program.outputs, program.run(arrays), holders
        if len(programs) >= LIMIT:
            programs.clear()
        native = standalone(owner, rule, args, kinds, arrays) if is_large else None
        if native is not None:
            programs[key] = native
            return native.outputs, native.run(arrays), holders
        recorder = _Recorder(arrays)
        made = programs[key] = _trace(recorder, rule, args)
        return made.outputs, recorder.registers, holders
    except (Untraceable, AttributeError, TypeError):
        programs[key] = None
    except Exception:  # an operator's refusal: the long way says it again, with what it knows of the call
        return NOT_REPLAYED
    return NOT_REPLAYED


def _trace(recorder: _Recorder, rule: Rule, args: Sequence[Any]) -> Program:
    at = iter(range(len(recorder.registers)))

    def traced(value: Any) -> Any:
        data = getattr(value, "_data", value)
        if type(data) is ndarray:
            register = next(at)
            return Traced(data, register, register)
        return tuple([traced(v) for v in value]) if type(value) is tuple else value

    previous = _current.recorder
    _current.recorder = recorder
    token = set_silent(SILENT)
    try:
        with default_route(Traced.__weft_route__):
            return recorder.finish(rule(*[traced(a) for a in args]))
    finally:
        reset(token)
        _current.recorder = previous
