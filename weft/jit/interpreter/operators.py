"""Operators of a program as functions of Tensors and Python's values."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from weft.ir.graph import Node
from weft.ir.opaque import plan_of_opaque
from weft.jit.autodiff.gradients import formulas_of
from weft.layers.factories import laid_out_like, on_device
from weft.layers.walk import inplace
from weft.ops.call_signatures import shortest_route
from weft.ops.op import OPS, Op
from weft.ops.route import call
from weft.support.locations import Location
from weft.types.tensor_type import ListType

_WARN = OPS["prim::warn"]
_SHOWN: dict[str, dict[Any, Any]] = {}  # by files, what Python notes of warnings that it has shown


def function_of(op: Op, node: Node) -> Callable[..., Any]:
    """What computes a node on Tensors and Python's values."""
    plan = plan_of_opaque(op)
    if plan is not None:
        return formulas_of(plan, node)
    if op is _WARN and node.where is not None:
        return functools.partial(_warn, node.where)
    if op.host:
        assert op.kernel is not None
        return op.kernel
    if op.writes is not None:
        return functools.partial(_in_place, op.writes, _list_positions(op.writes))
    if not op.tensor_positions and not op.tensor_list_positions:
        places = [i for i, a in enumerate(op.schema.arguments) if a.name == "device"]
        if places:
            return functools.partial(_make, op, _list_positions(op), places[0])
    if op.like:
        return functools.partial(_run_like, op)
    returns_list = len(node.outputs) == 1 and isinstance(node.outputs[0].type, ListType)
    return functools.partial(_run_listing if returns_list else _run, op, _list_positions(op))


def _warn(where: Location, message: str) -> None:
    """A warning at a line of the program, shown as often as Python shows those of one line."""
    shown = _SHOWN.setdefault(where.file, {})
    warnings.warn_explicit(message, UserWarning, where.file, where.line, registry=shown)


def _list_positions(op: Op) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(op.schema.arguments) if a.is_list)


def _bound(positions: tuple[int, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Lists of the program as the tuples that operators take."""
    if not positions:
        return args
    operands = list(args)
    for i in positions:
        if operands[i] is not None:
            operands[i] = tuple(operands[i])
    return tuple(operands)


def _run(op: Op, positions: tuple[int, ...], *args: Any) -> Any:
    args = _bound(positions, args)
    return shortest_route(op, args)(op, args)


def _make(op: Op, positions: tuple[int, ...], device: int, *args: Any) -> Any:
    """A factory's tensor, on the device that it is asked for."""
    with on_device(args[device]):
        return call(op, _bound(positions, args))


def _run_like(op: Op, source: Any, *args: Any) -> Any:
    """A factory's tensor, in memory as the one that it is like."""
    return laid_out_like(call(op, (source, *args)), source)


def _run_listing(op: Op, positions: tuple[int, ...], *args: Any) -> Any:
    return list(_run(op, positions, *args))


def _in_place(op: Op, positions: tuple[int, ...], *args: Any) -> Any:
    return inplace(op, _bound(positions, args))


def spoken_name(node: Node) -> str:
    """The operator that a node calls, as errors name it; nothing for those of the language, whose place says it."""
    if node.op is OPS["prim::CallBuiltin"]:
        return str(node.args[0])
    schema = node.op.schema
    return "" if node.op.host or schema.namespace == "prim" else f"{schema.namespace}::{schema.base}"
