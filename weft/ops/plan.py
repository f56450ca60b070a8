"""Plans: what a call does in NumPy, found out once and then repeated.

A plan is a list of NumPy calls over registers (the arrays and numbers given, constants, then one value per call),
written out as one Python function.

How it is made. The body of a pointwise operator is run on stand-ins, one element for each operand, by a tracer
of the scalar protocol that notes every call (`trace_body`): for NumPy operands its path depends on their dtypes alone.
A composite or a gradient's formula is run once on traced values, and every operator in it adds its
calls (ops/tracing.py). Pointwise calls: ops/pointwise_plan.py.

How it is kept and found: ops/planned.py. How it is run: it is a function; the code is written in `Calls.function`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from weft.ops.quiet import SILENT, reset, set_silent
from weft.ops.scalar_numpy import BLOCK, NUMPY, copied_order, run_body
from weft.support import limits
from weft.support.generated import FunctionWriter, function_factory
from weft.types.dtype import DType

ndarray = np.ndarray
Function = Callable[..., Any]
# elements of an array from which on a body of several calls does not pass over memory for each of them
LARGE = 4 * BLOCK
# what a body reads in Python: it is part of what it is traced for
PLAIN = frozenset((type(None), bool, int, float, str, DType))


class Shown(NamedTuple):
    """In a rule's outputs: a result that shows memory of an argument, by its number among the arrays given."""

    result: int
    holder: int


class Plan:
    """`run(*arrays)` gives the result, or a tuple of results. build: None for one array of its own, else what makes the
    rule's result of these: see `builder`.
    """

    __slots__ = ("build", "run")

    def __init__(self, run: Function, build: Function | None = None) -> None:
        self.run, self.build = run, build


def builder(outputs: Any, args: Sequence[Any]) -> Function:
    """`build(args, results, wrap, show)`: a rule's result from what its plan gave, `wrap` of each new array, `show` of
    one and of the argument that it shows, an argument itself where the rule gave it back.

    outputs: the rule's result with a number for each array in it: of an argument, or (from the count of the arguments
    on) of a result. args: arguments whose arrays lie where those of every call do.
    """
    return _building(_result_text(outputs, list(_places("args", args))))


@lru_cache(maxsize=limits.RESULTS)
def _building(result: str) -> Function:
    return function_factory("results", (), "build(args, results, wrap, show)", (f"return {result}",))()  # type: ignore[no-any-return]


def _places(name: str, values: Sequence[Any]) -> Iterator[str]:
    """Where the arrays of arguments are, as code."""
    for i, v in enumerate(values):
        if type(v) is tuple:
            yield from _places(f"{name}[{i}]", v)
        elif type(v) is ndarray:
            yield f"{name}[{i}]"


def _result_text(output: Any, holders: list[str]) -> str:
    if output is None:
        return "None"
    if type(output) is Shown:
        return f"show(results[{output.result}], {holders[output.holder]})"
    if type(output) is int:
        return holders[output] if output < len(holders) else f"wrap(results[{output - len(holders)}])"
    parts = "".join(f"{_result_text(o, holders)}, " for o in output)
    return f"[{parts}]" if type(output) is list else f"({parts})"


class Calls:
    """NumPy calls in order: (function, registers of its operands, register of its value)."""

    def __init__(self, input_count: int) -> None:
        self.given = self.count = input_count
        self.constants: dict[int, Any] = {}
        self.steps: list[tuple[Function, tuple[int, ...], int]] = []
        self.writes: int | None = None  # the register of the array that the last call, a ufunc, writes into
        self.placing: dict[int, int] = {}  # registers of values that are others, laid out anew: of those
        self.always_places = False  # whether some are where all that is given lies row-major

    def _register(self) -> int:
        self.count += 1
        return self.count - 1

    def constant(self, value: Any) -> int:
        """A register that holds a value from the start."""
        register = self._register()
        self.constants[register] = value
        return register

    def add(self, function: Function, operands: Sequence[int]) -> int:
        """A call; the register of its value."""
        register = self._register()
        self.steps.append((function, tuple(operands), register))
        return register

    def place(self, function: Function, operands: Sequence[int], always: bool) -> int:
        """A call that lays the first operand out anew where the others do not lie row-major, or always."""
        register = self.add(function, operands)
        self.placing[register] = operands[0]
        self.always_places |= always
        return register

    def as_computed(self, results: Sequence[int]) -> tuple[Calls, list[int]]:
        """The calls for row-major arrays, which place nothing, and where the results are there."""
        calls = Calls(self.given)
        same: dict[int, int] = {}
        calls.constants, calls.count = self.constants, self.count
        for function, operands, out in self.steps:
            if out in self.placing:
                same[out] = same.get(self.placing[out], self.placing[out])
            else:
                calls.steps.append((function, tuple([same.get(i, i) for i in operands]), out))
        return calls, [same.get(i, i) for i in results]

    def inline(self, body: Body, operands: Sequence[int]) -> int:
        """The calls of a pointwise body on operands in these registers."""
        if body.calls is None:
            return self.add(body.whole, operands)
        inner = body.calls
        place = dict(enumerate(operands))
        for register, value in inner.constants.items():
            place[register] = self.constant(value)
        for function, used, out in inner.steps:
            place[out] = self.add(function, [place[i] for i in used])
        if body.is_own:
            return place[body.out]
        return (
            self.add(_copied, [place[body.out]])
            if body.is_operand
            else self.add(body.finish, [place[body.out], *operands])
        )

    def put_into_first(self, body: Body, operands: Sequence[int]) -> int:
        """What a body without calls hands on, one of the operands in these registers or a constant, goes into
        the first array."""
        assert body.calls is not None
        place = dict(enumerate(operands))
        if body.out not in place:
            place[body.out] = self.constant(body.calls.constants[body.out])
        value = place[body.out]
        if body.dtype != body.result.numpy:
            value = self.add(cast_to(body.result), (value,))
        return self.add(put, (0, value))

    def function(
        self, results: int | Sequence[int], large: Function | None = None, arrays: Sequence[int] = (),
        otherwise: Function | None = None, row_major: Sequence[int] = (),
    ) -> Function:
        """A function of the given registers that makes the calls and returns the result, or a tuple of results.
        Values are let go after their last use.

        large: what is called instead, with the same arguments, if one of the given `arrays` is large. otherwise: idem,
        if one of the given `row_major` is not.
        """
        last: dict[int, int] = {}
        for at, (_, operands, _) in enumerate(self.steps):
            last.update(dict.fromkeys(operands, at))
        kept = {results} if isinstance(results, int) else set(results)
        names: dict[int, str] = {i: f"a{i}" for i in range(self.given)}
        names.update({i: f"c{i}" for i in self.constants})
        inputs = ", ".join(f"a{i}" for i in range(self.given))
        lines = (
            [f"if {' or '.join(f'a{i}.size >= {LARGE}' for i in arrays)}: return large({inputs})"]
            if large is not None and arrays
            else []
        )
        if otherwise is not None and row_major:
            tests = " and ".join(f"a{i}.flags.c_contiguous" for i in row_major)
            lines.insert(0, f"if not ({tests}): return otherwise({inputs})")
        free = [f"t{i}" for i in range(len(self.steps), -1, -1)]
        for at, (_, operands, out) in enumerate(self.steps):
            used = [names[i] for i in operands]
            if self.writes is not None and at == len(self.steps) - 1:
                used.append(f"out={names[self.writes]}")
            dead = [names[i] for i in dict.fromkeys(operands) if last[i] == at and i not in kept and names[i][0] == "t"]
            names[out] = dead.pop() if dead else free.pop()
            lines.append(f"{names[out]} = f{at}({', '.join(used)})")
            if dead:
                lines.append(f"del {', '.join(dead)}")
                free.extend(dead)
        is_silent = all([f in _SILENT for f, _, _ in self.steps])
        lines.append(
            "return "
            + (
                names[results]
                if isinstance(results, int)
                else f"({''.join(names[i] + ', ' for i in results)})"
            )
        )
        functions = [f for f, _, _ in self.steps]
        given_names = [names[i] for i in self.constants] + [f"f{i}" for i in range(len(functions))]
        constants = dict(zip(given_names, [*self.constants.values(), *functions], strict=True))
        code = FunctionWriter("plan", f"plan({inputs})", large=large, otherwise=otherwise, **constants, **_SCOPE)
        code.lines += lines if is_silent else [
            "token = set_silent(SILENT)", "try:", *[f"    {line}" for line in lines], "finally:", "    reset(token)",
        ]
        return code.function()


_SCOPE: dict[str, Any] = {"set_silent": set_silent, "reset": reset, "SILENT": SILENT}


# ---- pointwise bodies
class _Value:
    """A value while a body is traced: its register, and the operands with dims that it depends on."""

    __slots__ = ("needs", "register")

    def __init__(self, register: int, needs: frozenset[int]) -> None:
        self.register, self.needs = register, needs


class _Scalars:
    """A handler of the scalar protocol that computes with NumPy on stand-ins, and notes each call."""

    def __init__(self, operands: Sequence[Any]) -> None:
        self.calls = Calls(len(operands))
        self.values: dict[int, Any] = dict(enumerate(operands))

    def const(self, value: Any, dtype: DType) -> _Value:
        register = self.calls.constant(np.asarray(NUMPY.const(value, dtype)))
        self.values[register] = self.calls.constants[register]
        return _Value(register, frozenset())

    def dtype(self, x: _Value) -> DType:
        return NUMPY.dtype(self.values[x.register])

    def cast(self, x: _Value, dtype: DType) -> _Value:
        return x if self.values[x.register].dtype == dtype.numpy else self._note(lambda v: NUMPY.cast(v, dtype), (x,))

    def from_bits(self, x: _Value, dtype: DType) -> _Value:
        return self._note(lambda v: NUMPY.from_bits(v, dtype), (x,))

    def __getattr__(self, name: str) -> Function:
        function = getattr(NUMPY, name)
        return lambda *values: self._note(function, values)

    def _note(self, function: Function, values: Sequence[_Value]) -> _Value:
        operands = [v.register for v in values]
        register = self.calls.add(function, operands)
        self.values[register] = function(*[self.values[i] for i in operands])
        return _Value(register, frozenset().union(*[v.needs for v in values]))


class Body:
    """A pointwise body for operands of certain dtypes. calls: those that it makes (None: it is run as a whole),
    whose value is in register `out`.

    is_own: whether that value has the result's dtype, memory of its own, and the operands' joint shape;
    `finish(value, *operands)` sees to these.
    is_operand: whether it only lacks memory of its own.
    """

    def __init__(self, scalar: Function, stand_ins: Sequence[Any], result: DType) -> None:
        self.scalar, self.result = scalar, result
        tracer = _Scalars(stand_ins)
        arrays = frozenset(i for i, o in enumerate(stand_ins) if type(o) is ndarray and o.ndim)
        traced = [o if type(o) in PLAIN else _Value(i, arrays & {i}) for i, o in enumerate(stand_ins)]
        try:
            out = scalar(tracer, *traced)
        # a body that does more than call the protocol; what is wrong with the operands, the type rule says
        except Exception:
            out = None
        self.calls = tracer.calls if isinstance(out, _Value) else None
        self.out = out.register if isinstance(out, _Value) else 0
        self.is_own = self.is_operand = False
        self.is_constant = self.calls is not None and self.out in self.calls.constants  # which the plan keeps
        self.dtype = tracer.values[out.register].dtype if isinstance(out, _Value) else result.numpy
        if isinstance(out, _Value) and out.needs == arrays:
            self.is_own = self._is_own(tracer.values, out.register)
            self.is_operand = out.register < len(traced) and tracer.values[out.register].dtype == result.numpy

    def _is_own(self, values: dict[int, Any], out: int) -> bool:
        assert self.calls is not None
        value = values[out]
        is_new = (
            bool(self.calls.steps)
            and out == self.calls.steps[-1][2]
            and not any(value is values[i] for i in values if i != out)
        )
        return is_new and value.dtype == self.result.numpy and getattr(value, "base", None) is None

    @property
    def ufunc(self) -> np.ufunc | None:
        """The ufunc of its operands, in their order, that the whole body is; else None."""
        if self.calls is None or len(self.calls.steps) != 1 or not self.is_own:
            return None
        function, operands, _ = self.calls.steps[0]
        return function if isinstance(function, np.ufunc) and operands == tuple(range(function.nin)) else None

    def whole(self, *operands: Any) -> Any:
        """The value of the body itself, long operands in blocks."""
        return self.finish(run_body(self.scalar, operands), *operands)

    def finish(self, out: Any, *operands: Any) -> Any:
        """The value with the dtype, memory and shape that a result has: bodies may hand an operand back,
        or ignore one that broadcasts."""
        if type(out) is not ndarray:
            out = np.asarray(out)
        if out.dtype != self.result.numpy:
            out = NUMPY.cast(out, self.result)
        arrays = [o for o in operands if type(o) is ndarray]
        shape = (
            np.broadcast_shapes(*[a.shape for a in arrays]) if len(arrays) > 1 else (arrays[0].shape if arrays else ())
        )
        if out.shape != shape:
            return np.broadcast_to(out, shape).copy()
        is_shared = self.is_constant or out.base is not None or any(out is a for a in arrays)
        return out.copy(order=copied_order(out)) if is_shared else out


def _copied(x: Any) -> Any:
    return x.copy(copied_order(x))


def put(data: Any, value: Any) -> Any:
    """Write a value of the same dtype into an array, in whose dims it fits. Raises ValueError."""
    if value.ndim > data.ndim:  # NumPy would drop leading dims of size 1
        raise ValueError("the value has more dims than what it is put into")  # the type rule has the words
    data[...] = value
    return data


_SILENT = frozenset((_copied, put, np.where, np.asarray))  # NumPy raises no floating point exceptions in these


def cast_to(dtype: DType) -> Function:
    """An array in another dtype."""
    return lambda x: NUMPY.cast(x, dtype)


def _stand_in(value: Any) -> Any:
    return np.ones((1,) * value.ndim, value.dtype) if type(value) is ndarray else value


def trace_body(scalar: Function, operands: Sequence[Any], result: DType) -> Body:
    """The body for operands like these, which have the dtypes that it computes in."""
    token = set_silent(SILENT)
    try:
        return Body(scalar, [_stand_in(o) for o in operands], result)
    finally:
        reset(token)
