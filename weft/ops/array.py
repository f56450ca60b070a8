"""Array: a NumPy array that operators accept. Rules (vjp, decompose) run on it when only values are wanted:
interpreter, eager composites."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ops import compute
from weft.ops.methods import OperatorMethods
from weft.ops.op import Op
from weft.ops.route import default_route
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.dtype import DType


class ArrayFacts(OperatorMethods):
    """What a value whose `.data` is a NumPy array says of it."""

    __slots__ = ("data",)
    data: np.ndarray[Any, Any]

    @property
    def dims(self) -> tuple[Dim, ...]:
        dims: tuple[int, ...] = self.data.shape
        return dims

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def dtype(self) -> DType:
        return dt.from_numpy(self.data.dtype)

    @property
    def device(self) -> str:
        return "cpu"


class Array(ArrayFacts):
    """A value without autograd: `.data` is the NumPy array."""

    __slots__ = ()

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data

    def item(self) -> Any:
        return self.data.item()

    @staticmethod
    def __weft_route__(op: Op, args: tuple[Any, ...]) -> Any:
        return wrap(compute.evaluate_in_program(op, unwrap(args)))


def unwrap(value: Any) -> Any:
    """Arrays out of their wrappers, through tuples and lists."""
    if type(value) is Array:
        return value.data
    if type(value) in (tuple, list):
        return tuple(unwrap(v) for v in value)
    return value


def wrap(value: Any) -> Any:
    """ndarrays into wrappers, through tuples and lists."""
    if isinstance(value, np.ndarray):
        return Array(value)
    if isinstance(value, (tuple, list)):
        return tuple(wrap(v) for v in value)
    return value


def run_rule(rule: Any, args: tuple[Any, ...]) -> Any:
    """Run a decompose or vjp rule on ndarrays; ndarrays out."""
    with default_route(Array.__weft_route__):
        return unwrap(rule(*[wrap(a) for a in args]))


compute.install_rule_runner(run_rule)
