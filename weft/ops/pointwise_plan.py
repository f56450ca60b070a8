"""Plans of pointwise calls: what becomes of their arguments before the body, and of its value behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from weft.ops.compute import in_order, is_default, operand_of
from weft.ops.geometry import Geometry
from weft.ops.layout import joint_strides
from weft.ops.op import Op
from weft.ops.plan import Calls, Plan, cast_to, put, trace_body
from weft.ops.rules import Pointwise
from weft.ops.scalar_numpy import NUMPY
from weft.support import limits
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import tensor_type

ndarray = np.ndarray
Function = Callable[..., Any]


def plan_pointwise(op: Op, args: Sequence[Any], large: Function | None = None, store: Function | None = None) -> Plan:
    """The plan of a pointwise call for arrays of these dtypes (0-dim or not) and numbers of these types, absent or not;
    other values are part of it.

    large: what to call, with the same arguments, where an array is large and the body is more than one call;
    if None, the plan is for large arrays.
    store: for a plan that writes its result into the first array, how a result that no ufunc can put
    there is put there.
    """
    rule: Any = op.type
    types = tuple([tensor_type(dt.from_numpy(a.dtype), (1,) * a.ndim) if type(a) is ndarray else a for a in args])
    calls = Calls(len(args))
    registers = [i if type(a) is ndarray or type(a) in _NUMBERS else None for i, a in enumerate(args)]
    result = rule.result_dtype(types)
    arrays = [i for i, a in enumerate(args) if type(a) is ndarray and a.ndim]
    is_put = store is not None and (rule.into_self or arrays == [0]) and result.numpy == args[0].dtype
    out, is_long = add_pointwise(calls, op, types, result, args, registers, large is None, is_put)
    if is_put and calls.steps and calls.steps[-1][0] is put:
        return Plan(calls.function(out))
    if rule.into_self:
        out = calls.add(_within_self, (out, 0))
    if store is not None:
        out = _written_into(calls, out, store, result.numpy == args[0].dtype)
    elif not arrays:
        out = calls.add(np.asarray, (out,))  # (of 0-dim arrays ufuncs give numbers)
    large = large if is_long else None
    if store is not None or not arrays:
        return Plan(calls.function(out, large, arrays))
    plain = calls.function(out, large, arrays)
    laid = _in_joint_order(plain) if op.lies is None else _in_order(op, plain)
    return Plan(calls.function(out, large, arrays, laid, arrays))


def _in_order(op: Op, compute: Function) -> Function:
    """A plan whose result lies as the entry says."""
    layout: Any = op.lies

    def run(*values: Any) -> Any:
        return in_order(compute(*values), layout(*[operand_of(v) if type(v) is ndarray else v for v in values])[0])

    return run


def _in_joint_order(compute: Function) -> Function:
    """A plan whose result lies as the operands' joint order says, where not all are row-major: NumPy takes row-major
    order where they disagree, and an order of its own where elements repeat."""

    def run(*values: Any) -> Any:
        out = compute(*values)
        layouts = [x for v in values if type(v) is ndarray for x in (v.shape, v.strides)]
        wanted = _joint_strides(out.shape, out.strides, out.itemsize, *layouts)
        if wanted is None:
            return out
        laid: Any = ndarray(out.shape, out.dtype, np.empty(out.size, out.dtype), 0, wanted)
        laid[...] = out
        return laid

    return run


@lru_cache(maxsize=limits.RESULTS)
def _joint_strides(dims: Any, strides: Any, itemsize: int, *layouts: Any) -> Any:
    """The strides in bytes of a result for operands of these shapes and strides; None where it has them already."""
    operands = [Geometry(*each) for each in zip(layouts[::2], layouts[1::2], strict=True)]
    wanted: Any = tuple([s * itemsize for s in joint_strides(dims, operands)])
    is_there = 0 in dims or all([a == b or n == 1 for a, b, n in zip(strides, wanted, dims, strict=True)])
    return None if is_there else wanted


def _written_into(calls: Calls, out: int, store: Function, is_alike: bool) -> int:
    """The last ufunc writes into the first array itself, where it gives the result as it is;
    NumPy sees to operands that overlap (but NumPy 2.4 writes wrong negatives where `out` has strides).
    """
    function, _, last = calls.steps[-1]
    if not is_alike or last != out or not isinstance(function, np.ufunc) or function is np.negative:
        return calls.add(store, (0, out))
    calls.writes = 0
    return out


def add_pointwise(
    calls: Calls, op: Op, types: Sequence[Any], result: DType, values: Sequence[Any], sources: Sequence[int | None],
    is_large: bool = False, is_put: bool = False,
) -> tuple[int, bool]:
    """Add the calls of a pointwise operator: the register of its value, and whether it is more than one ufunc.
    sources: the registers of arrays, and of numbers that come with each call; None for what is known now. is_large:
    the body, if it is long, is run in blocks. is_put: a value that the body only hands on goes into the first array.
    """
    rule: Any = op.type
    assert isinstance(rule, Pointwise) and op.scalar is not None
    wide, looks = rule.operand_dtype(tuple(types)), rule.looks_at_numbers(tuple(types))
    operands: list[Any] = []
    registers: list[int] = []
    for i, (argument, value, register) in enumerate(zip(op.schema.arguments, values, sources, strict=True)):
        operand: Any = value
        if register is not None and looks and type(value) is not ndarray:
            register = calls.add(_checked(rule, tuple(types), i), (register,))
        if argument.kind == "Scalar" and is_default(value, argument.default):
            operand = register = None
        elif argument.name in rule.keep and argument.kind == "Tensor" and type(value) in _NUMBERS:
            operand = np.asarray(value)
            register = None if register is None else calls.add(np.asarray, (register,))
        elif argument.name in rule.keep or value is None or argument.kind not in ("Tensor", "Scalar"):
            operand, register = value, register if type(value) is ndarray else None
        elif type(value) is not ndarray:
            operand = np.asarray(NUMPY.const(value, wide))
            register = None if register is None else calls.add(_number_as(wide), (register,))
        elif value.dtype != wide.numpy:
            operand = np.empty((0,) * value.ndim, wide.numpy)
            register = calls.add(cast_to(wide), (register,))  # type: ignore[arg-type]
        operands.append(operand)
        registers.append(calls.constant(operand) if register is None else register)
    body = trace_body(op.scalar, operands, result)
    if is_put and body.calls is not None and not body.calls.steps:
        return calls.put_into_first(body, registers), False
    if is_large and body.ufunc is None:
        return calls.add(body.whole, registers), True
    return calls.inline(body, registers), body.ufunc is None


_NUMBERS = frozenset((int, float, complex, bool))


def _number_as(dtype: DType) -> Function:
    """Python numbers of one type as arrays of a dtype; those seen before are at hand (no zero of floats:
    it has two signs)."""
    seen: dict[Any, Any] = {}

    def cast(value: Any) -> Any:
        array = seen.get(value)
        if array is None:
            array = np.asarray(NUMPY.const(value, dtype))
            if len(seen) < 64 and (value or type(value) is int):
                seen[value] = array
        return array

    return cast


def _checked(rule: Pointwise, types: tuple[Any, ...], position: int) -> Function:
    def check(value: Any) -> Any:
        rule.check_numbers((*types[:position], value, *types[position + 1 :]))
        return value

    return check


def _within_self(out: Any, first: Any) -> Any:
    """The result of an operator that writes must have the dims of its first operand."""
    if out.shape != first.shape:
        raise ValueError("the operands do not fit into the first one")  # the type rule has the words
    return out
