"""Straight-line bodies: the calls that a pointwise body makes for operands of certain dtypes, found once and then repeated.

A body is a function over the scalar protocol; for NumPy operands its path depends on their dtypes alone. Repeating its calls spares the protocol, the
making of constants and the question whether the result has memory and a shape of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.ops.scalar_numpy import BLOCK, NUMPY, run_body
from weft.types.dtype import DType

ndarray = np.ndarray
Function = Callable[..., Any]
PLAIN = frozenset((type(None), bool, int, float, str))  # operands that a body reads in Python: they are part of what it is traced for


class _Value:
    """An intermediate value while a body is traced: its register, and the array operands that it depends on."""

    __slots__ = ("needs", "register")

    def __init__(self, register: int, needs: frozenset[int]) -> None:
        self.register, self.needs = register, needs


class _Tracer:
    """A handler of the scalar protocol that computes with NumPy and notes each call."""

    def __init__(self, operands: Sequence[Any]) -> None:
        self.registers = list(operands)
        self.steps: list[tuple[Function, tuple[int, ...], int]] = []

    def const(self, value: Any, dtype: DType) -> _Value:
        self.registers.append(np.asarray(NUMPY.const(value, dtype)))
        return _Value(len(self.registers) - 1, frozenset())

    def dtype(self, x: _Value) -> DType:
        return NUMPY.dtype(self.registers[x.register])

    def cast(self, x: _Value, dtype: DType) -> _Value:
        value = self.registers[x.register]
        return x if value.dtype == dtype.numpy else self._note(lambda v: NUMPY.cast(v, dtype), (x,))

    def from_bits(self, x: _Value, dtype: DType) -> _Value:
        return self._note(lambda v: NUMPY.from_bits(v, dtype), (x,))

    def __getattr__(self, name: str) -> Function:
        function = getattr(NUMPY, name)
        return lambda *values: self._note(function, values)

    def _note(self, function: Function, values: Sequence[_Value]) -> _Value:
        operands = tuple([v.register for v in values])
        self.registers.append(function(*[self.registers[i] for i in operands]))
        out = len(self.registers) - 1
        self.steps.append((function, operands, out))
        return _Value(out, frozenset().union(*[v.needs for v in values]))


def straight(body: Function, target: np.dtype[Any], finish: Callable[[Any, tuple[Any, ...]], Any], operands: tuple[Any, ...]) -> Function:
    """The body for operands of the dtypes (and missing values) of `operands`, as a function of such operands; its result has dtype `target`.

    finish(value, operands): makes a result's dtype, memory and shape its own where the calls do not see to that.
    """

    def whole(*values: Any) -> Any:
        return finish(run_body(body, values), values)

    tracer = _Tracer(operands)
    given = [o if type(o) in PLAIN else _Value(i, frozenset((i,) if type(o) is ndarray else ())) for i, o in enumerate(operands)]
    try:
        out = body(tracer, *given)
    except Exception:  # a body that does more than call the protocol; what is wrong with the operands, the long way says
        return whole
    if not isinstance(out, _Value) or not tracer.steps or tracer.steps[-1][2] != out.register or not _is_own(tracer.registers, out, operands, target):
        return whole
    if len(tracer.steps) == 1 and isinstance(tracer.steps[0][0], np.ufunc):
        return _single(tracer, len(operands))
    return _several(tracer, operands, whole)


def _is_own(registers: list[Any], out: _Value, operands: tuple[Any, ...], target: np.dtype[Any]) -> bool:
    """Whether the result is no operand, shows no other array's memory, and has every operand's dims."""
    value = registers[out.register]
    arrays = frozenset(i for i, o in enumerate(operands) if type(o) is ndarray)
    others = registers[: out.register]
    return value.dtype == target and out.needs == arrays and getattr(value, "base", None) is None and not any(value is other for other in others)


def _single(tracer: _Tracer, count: int) -> Function:
    function, used, _ = tracer.steps[0]
    constants = tracer.registers
    if used == tuple(range(count)):
        return function
    if count == 1 and len(used) == 2:
        if used[0] == 0:
            second = constants[used[1]]
            return (lambda x: function(x, x)) if used[1] == 0 else (lambda x: function(x, second))
        first = constants[used[0]]
        return lambda x: function(first, x)

    def run(*values: Any) -> Any:
        return function(*[values[i] if i < count else constants[i] for i in used])

    return run


def _several(tracer: _Tracer, operands: tuple[Any, ...], whole: Function) -> Function:
    count = len(operands)
    made = {out for _, _, out in tracer.steps}
    rest = [None if i in made else value for i, value in enumerate(tracer.registers)][count:]
    steps = tuple(tracer.steps)
    first = next(i for i, o in enumerate(operands) if type(o) is ndarray)
    limit = 4 * BLOCK

    def run(*values: Any) -> Any:
        if values[first].size >= limit:
            return whole(*values)
        r = [*values, *rest]
        for function, used, out in steps:
            r[out] = function(*[r[i] for i in used])
        return r[-1]

    return run
