"""If, Loop and Scan. Outside of a capture they are Python's; inside, choices and loops that hang on values become
prim::If and prim::Loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.onnx.body import Body, Values
from weft.onnx.registry import operator
from weft.onnx.values import Either, Host, Known, as_tensor, number
from weft.support.errors import ParseError
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


def _call(body: Body, scope: Values, arguments: list[Any]) -> list[Any]:
    values = {name: scope[name] for name in body.free if name in scope}
    values.update(zip(body.inputs, arguments, strict=True))
    return body.run(values)


@operator("If")
def if_(condition: Either, *, then_branch: Body, else_branch: Body, scope: Values) -> Any:
    if isinstance(condition, Known) and condition.array.dtype != object:
        return tuple(_call(then_branch if condition.array.reshape(-1)[0] else else_branch, scope, []))
    chosen = as_tensor(condition)
    if modes.capture is None:
        return tuple(_call(then_branch if bool(chosen) else else_branch, scope, []))

    def branch(body: Body) -> Any:
        return lambda: tuple(as_tensor(v) for v in _call(body, scope, []))

    return tuple(weft.cond(chosen, branch(then_branch), branch(else_branch)))


@operator("Loop")
def loop(most: Host, condition: Either, *carried: Either, body: Body, scope: Values) -> Any:
    """The carried values at the end, then what each step gave besides, stacked."""
    limit = None if most is None else number(most, "the trip count of Loop") if _is_read(most) else most
    count = len(carried)
    scans = len(body.outputs) - 1 - count
    captured, start = modes.capture is not None, condition is None or isinstance(condition, Known)
    short = isinstance(limit, int) and start and limit * len(body.steps) <= UNROLLED
    if captured and not scans and not short:
        return _captured(limit, condition, carried, body, scope)
    values = list(carried)
    going = condition is None or _holds(condition)
    gathered: list[list[Any]] = [[] for _ in range(scans)]
    step = 0
    while going and (limit is None or step < limit):
        results = _call(body, scope, [Known(np.array(step), dt.int64), condition_of(condition), *values])
        values = results[1 : 1 + count]
        if captured and not scans and not isinstance(results[0], Known):  # the end hangs on a value after all
            return _captured(limit, results[0], tuple(values), body, scope, step + 1)
        going = _holds(results[0])
        for collected, value in zip(gathered, results[1 + count :], strict=True):
            collected.append(as_tensor(value))
        step += 1
    return tuple([*values, *(_stacked(g, body, 1 + count + i) for i, g in enumerate(gathered))])


UNROLLED = 64  # steps of a loop's body, over all of its rounds, that are captured one by one


def condition_of(condition: Host) -> Any:
    """What a body is told of the condition."""
    return Known(np.array(True), dt.bool_) if condition is None else condition


def _is_read(value: Host) -> bool:
    return isinstance(value, Known) or modes.capture is None


def _holds(condition: Host) -> bool:
    if isinstance(condition, Known):
        return bool(condition.array.reshape(-1)[0])
    return bool(condition)


def _captured(
    limit: Any, condition: Either, carried: tuple[Any, ...], body: Body, scope: Values, first: int = 0
) -> tuple[Any, ...]:
    """The loop as one node, from its step number `first` on: how many steps it takes is found when the program runs."""
    going = weft.tensor(True) if condition is None else as_tensor(condition).reshape(())

    def asks(i: Tensor, go: Tensor, *values: Tensor) -> Tensor:
        return go if limit is None else go & (i < limit)

    def step(i: Tensor, go: Tensor, *values: Tensor) -> tuple[Any, ...]:
        results = [as_tensor(v) for v in _call(body, scope, [i, go, *values])]
        return (i + 1, results[0].reshape(()), *results[1:])

    start = (weft.tensor(first), going, *(as_tensor(v) for v in carried))
    return tuple(weft.while_loop(asks, step, start)[2:])


def _stacked(parts: list[Any], body: Body, output: int) -> Any:
    if parts:
        return weft.stack(parts)
    dims, dtype = body.declared(output)
    return weft.zeros((0, *dims), dtype=dtype)


@operator("Scan")
def scan(
    *inputs: Tensor, body: Body, num_scan_inputs: int, scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None, scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None, directions: list[int] | None = None, opset: int, scope: Values,
) -> Any:
    if opset < 9:
        return _scan_of_batches(inputs, body, num_scan_inputs, directions, scope)
    count = len(inputs) - num_scan_inputs
    states, scanned = list(inputs[:count]), list(inputs[count:])
    axes = scan_input_axes or [0] * num_scan_inputs
    back = scan_input_directions or [0] * num_scan_inputs
    slices = [weft.unbind(x, axis)[:: -1 if b else 1] for x, axis, b in zip(scanned, axes, back, strict=True)]
    outputs = len(body.outputs) - count
    gathered: list[list[Any]] = [[] for _ in range(outputs)]
    for parts in zip(*slices, strict=True):
        results = [as_tensor(v) for v in _call(body, scope, [*states, *parts])]
        states = results[:count]
        for collected, value in zip(gathered, results[count:], strict=True):
            collected.append(value)
    out_axes = scan_output_axes or [0] * outputs
    reverse = scan_output_directions or [0] * outputs
    stacked = []
    for i, (parts_of, axis, b) in enumerate(zip(gathered, out_axes, reverse, strict=True)):
        if not parts_of:
            stacked.append(_stacked(parts_of, body, count + i))
            continue
        stacked.append(weft.stack(parts_of[:: -1 if b else 1], axis))
    return tuple([*states, *stacked])


def _scan_of_batches(
    inputs: tuple[Any, ...], body: Body, count: int, directions: list[int] | None, scope: Values
) -> Any:
    """Version 8: a batch in front of everything, and the lengths of the sequences as the first input."""
    lengths, rest = inputs[0], inputs[1:]
    if lengths is not None:
        raise ParseError("onnx: Scan of version 8 with lengths of sequences; convert the model to version 9")
    batches = []
    for i in range(rest[0].shape[0]):
        outputs = scan(
            *(r[i] for r in rest), body=body, num_scan_inputs=count, scan_input_directions=directions, opset=9,
            scope=scope,
        )  # fmt: skip
        batches.append(outputs)
    return tuple(weft.stack(list(parts)) for parts in zip(*batches, strict=True))
