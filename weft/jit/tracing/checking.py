"""Checks of a trace: recorded again, it must be the same graph, and compute what the function computes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft.jit.program import Program
from weft.jit.tracing.values import TracerWarning
from weft.nn.modules.module import Module
from weft.support.errors import WeftError
from weft.support.warn import warn
from weft.tensor.tensor import Tensor


class TracingCheckError(WeftError, RuntimeError):
    """A trace that is another one when it is recorded again: the function's Python hangs on values or on state."""


def check_trace(
    func: Any, again: Callable[[Sequence[Any]], Program], traced: Any, program: Program, inputs: Sequence[Any],
    tolerance: float,
) -> None:
    """Raises TracingCheckError where recording with these inputs gives another graph; warns where the trace gives
    another result than what was traced.
    """
    state = {n: t.clone() for n, t in func.state_dict().items()} if isinstance(func, Module) else None
    grads = [(p, p.grad) for p in func.parameters()] if isinstance(func, Module) else []
    for parameter, grad in grads:
        parameter.grad = None if grad is None else grad.clone()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TracerWarning)
            _compare_graphs(program, again(_copied(inputs)))
            expected, actual = func(*_copied(inputs)), traced(*_copied(inputs))
    finally:
        if state is not None:
            func.load_state_dict(state)
        for parameter, grad in grads:
            parameter.grad = grad
    if not _close(expected, actual, tolerance):
        warn(
            "weft.jit.trace: the trace, run again on its example inputs, gives another result than the function. "
            "Does it draw random numbers, or keep state?",
            TracerWarning,
        )  # fmt: skip


def _compare_graphs(first: Program, second: Program) -> None:
    lines = [str(p.graph).split("\n") for p in (first, second)]
    pairs = [(a, b) for a, b in zip(*lines, strict=False) if _without_place(a) != _without_place(b)]
    if pairs or len(lines[0]) != len(lines[1]):
        one, other = pairs[0] if pairs else (f"{len(lines[0])} lines", f"{len(lines[1])} lines")
        raise TracingCheckError(
            "Tracing failed sanity checks! Graphs differed across invocations: the function's Python branches on "
            f"values, or keeps state; script that part (weft.jit.script).\n  first:  {one.strip()}\n"
            f"  again:  {other.strip()}"
        )


def _without_place(line: str) -> str:
    return line.partition("  # ")[0]


def _copied(inputs: Sequence[Any]) -> list[Any]:
    return list(
        weft.utils.pytree.tree_map(lambda t: t.detach().clone() if isinstance(t, Tensor) else t, list(inputs))
    )


def _close(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, Tensor):
        return (
            isinstance(b, Tensor)
            and a.shape == b.shape
            and a.dtype == b.dtype
            and bool(weft.allclose(a, b, rtol=tolerance, equal_nan=True) if a.is_floating_point() else weft.equal(a, b))
        )
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(
            _close(x, y, tolerance) for x, y in zip(a, b, strict=True)
        )
    return all(_close(a[k], b[k], tolerance) for k in a) if isinstance(a, dict) else bool(a == b)
