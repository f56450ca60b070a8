"""Tracing: a composite or a gradient's formula is run once on `Traced` values, and every operator in it adds its
NumPy calls to a plan.

The plan holds for arguments of the same dtypes, shapes and other values. A rule that draws random numbers,
looks at a value or returns a view of an argument has none: `Untraceable`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from weft.ops import compute
from weft.ops.array import ArrayFacts
from weft.ops.geometry import Geometry
from weft.ops.layout import Follows, Operand, joint_strides, order_like
from weft.ops.op import Op
from weft.ops.plan import LARGE, Calls, Plan, Shown, builder
from weft.ops.pointwise_plan import add_pointwise
from weft.ops.quiet import SILENT, reset, set_silent
from weft.ops.route import default_route

ndarray = np.ndarray
Function = Callable[..., Any]


class Untraceable(Exception):
    """The rule does something that cannot be repeated blindly."""


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
    """Runs a rule's operators on arrays and notes their calls."""

    def __init__(self, arrays: Sequence[Any], shown: int, places: bool) -> None:
        self.shown = shown  # how many of the first arrays' memory results may show
        self.places = places  # whether results lie as those of operators
        self.calls = Calls(len(arrays))
        self.values: list[Any] = list(arrays)

    def call(self, op: Op, args: tuple[Any, ...]) -> Any:
        """What __weft_route__ does."""
        if op.effect not in ("pure", "raises"):
            raise Untraceable(f"{op.name} has an effect")
        plain = tuple([_plain(a) for a in args])
        if op.decompose is not None:
            if op.type is not None:
                op.type(*[compute.type_of(a) for a in plain])
            places = self.places
            self.places = places and op.lies is None  # else only the result's place matters
            try:
                out = op.decompose(*args)
            finally:
                self.places = places
            return self._placed(op, args, plain, out)
        if op.scalar is not None and any(type(a) is ndarray for a in plain):
            return self._placed(op, args, plain, self._wrapped(self._pointwise(op, args, plain)))
        function, count = compute.call_of(op, plain)
        register = self.calls.add(function, [self._operand(a) for a in args[:count]])
        traced = self._wrapped(register, args[0].root if op.view is not None else None)
        return self._placed(op, args, plain, traced)

    def _placed(self, op: Op, args: tuple[Any, ...], plain: tuple[Any, ...], out: Any) -> Any:
        """Results as the entry says that they lie, and those of pointwise operators in their operands' joint order."""
        layout = _JOINT if op.lies is None and op.scalar is not None else op.lies
        if layout is None or not self.places:
            return out
        operands, always = _registers(args), not isinstance(layout, Follows)
        placed = [
            self._wrapped(self.calls.place(_placing(layout, i, plain), (t.register, *operands), always))
            if t.ndim > 1 else t
            for i, t in enumerate(out if type(out) is tuple else (out,))
        ]
        return tuple(placed) if type(out) is tuple else placed[0]

    def _pointwise(self, op: Op, args: tuple[Any, ...], plain: tuple[Any, ...]) -> int:
        types = [compute.type_of(a) for a in plain]
        result = op.type(*types)  # type: ignore[misc]
        registers = [a.register if type(a) is Traced else None for a in args]
        is_large = any([type(a) is ndarray and a.size >= LARGE for a in plain])
        register, _ = add_pointwise(self.calls, op, types, result.dtype, plain, registers, is_large)
        return register if result.dims else self.calls.add(np.asarray, (register,))

    def _operand(self, value: Any) -> int:
        """The register of an argument that is or has traced values, or of a constant."""
        if type(value) is Traced:
            return value.register
        if type(value) is tuple and any([type(v) is Traced for v in value]):
            return self.calls.add(_tuple_of, [self._operand(v) for v in value])
        return self.calls.constant(value)

    def _wrapped(self, register: int, root: int | None = None) -> Any:
        value = self._value(register)
        if type(value) in (tuple, list):
            return tuple([self._wrapped(self.calls.add(itemgetter(i), (register,)), root) for i in range(len(value))])
        if type(value) is not ndarray:
            raise Untraceable("a step gives no array")
        return Traced(value, register, register if root is None else root)

    def _value(self, register: int) -> Any:
        """What is in a register, once the calls noted so far are made."""
        values, calls = self.values, self.calls
        for at in range(len(values), calls.count):
            values.append(calls.constants.get(at))
        for function, operands, out in calls.steps[self.made :]:
            values[out] = function(*[values[i] for i in operands])
        self.made = len(calls.steps)
        return values[register]

    made = 0  # calls

    def finish(self, result: Any, args: Sequence[Any]) -> tuple[Plan, Any]:
        """The plan for arguments like `args`, and what its run gave. Raises Untraceable where results show the memory
        of an argument that may not be shown, or each other's."""
        results: list[int] = []
        outputs = self._output(result, results, set())
        values, function = self.values, self.calls.function
        is_one = outputs == self.calls.given and len(results) == 1
        run_results = values[results[0]] if is_one else tuple([values[i] for i in results])
        kept: Any = results[0] if is_one else results
        wide = [i for i, v in enumerate(values[: self.calls.given]) if v.ndim > 1]
        if self.calls.placing and wide and not self.calls.always_places:
            calls, same = self.calls.as_computed(results)
            run = calls.function(same[0] if is_one else same, None, (), _later(lambda: function(kept)), wide)
        else:
            run = function(kept)
        return Plan(run, None if is_one else builder(outputs, args)), run_results

    def _output(self, value: Any, results: list[int], roots: set[int]) -> Any:
        if value is None:
            return None
        if type(value) in (tuple, list):
            return type(value)([self._output(v, results, roots) for v in value])
        if type(value) is not Traced:
            raise Untraceable(f"a result is a {type(value).__name__}")
        input_count = self.calls.given
        if value.register < input_count:
            roots.add(value.root)
            return value.register
        if value.root < self.shown:
            results.append(value.register)
            return Shown(len(results) - 1, value.root)
        if value.root < input_count or value.root in roots:
            raise Untraceable("a result is a view")
        roots.add(value.root)
        results.append(value.register)
        return input_count + len(results) - 1


def _later(make: Callable[[], Function]) -> Function:
    """A function that is made when it is called first."""
    memoized = lru_cache(maxsize=1)(make)
    return lambda *values: memoized()(*values)


def _joint_orders(*args: Any) -> Any:
    operands = [a for a in args if type(a) is Operand]
    dims = np.broadcast_shapes(*[g.dims for g in operands])  # type: ignore[arg-type]
    return (order_like(Geometry(dims, joint_strides(dims, operands))),)


_JOINT = Follows(_joint_orders)


def _registers(value: Any) -> list[int]:
    """The registers of the values in arguments, in order."""
    if type(value) is tuple:
        return [i for v in value for i in _registers(v)]
    return [value.register] if type(value) is Traced else []


def _placing(orders_of: Function, index: int, args: tuple[Any, ...]) -> Function:
    """What lays a result out in the order that `orders_of` gives for arguments like these."""

    strides_by_key: dict[Any, Any] = {}

    def place(out: Any, *operands: Any) -> Any:
        key = (out.shape, out.strides, *[a.strides for a in operands])  # (sizes of operands are the plan's)
        if key not in strides_by_key:
            at = iter(operands)
            order = orders_of(*compute.map_arrays(lambda _: compute.operand_of(next(at)), args))[index]
            strides_by_key[key] = compute.strides_in_order(out, order)
        strides = strides_by_key[key]
        return out if strides is None else compute.with_strides(out, strides)

    return place


def _tuple_of(*values: Any) -> tuple[Any, ...]:
    return values


def _plain(value: Any) -> Any:
    """An argument with arrays in place of traced values. Raises Untraceable for a value of another world."""
    if type(value) is Traced:
        return value.data
    if type(value) is tuple:
        return tuple([_plain(v) for v in value])
    if hasattr(type(value), "__weft_route__"):
        raise Untraceable("a value from elsewhere")
    return value


def trace_rule(
    rule: Function, args: Sequence[Any], arrays: Sequence[Any], shown: int = 0, places: bool = False
) -> tuple[Plan, Any]:
    """The plan of `rule(*args)`, and what its run gave. arrays: those in args, through tuples, in order. shown: how
    many of the arguments may be shown by views among the results. places: whether results lie in memory as those of
    operators. Raises what the operators raise, and Untraceable."""
    recorder = _Recorder(arrays, sum([type(a) is ndarray for a in args[:shown]]), places)
    at = iter(range(len(arrays)))

    def traced(value: Any) -> Any:
        if type(value) is ndarray:
            register = next(at)
            return Traced(value, register, register)
        return tuple([traced(v) for v in value]) if type(value) is tuple else value

    previous = _current.recorder
    _current.recorder = recorder
    token = set_silent(SILENT)
    try:
        with default_route(Traced.__weft_route__):
            return recorder.finish(rule(*[traced(a) for a in args]), args)
    finally:
        reset(token)
        _current.recorder = previous
