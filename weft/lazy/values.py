"""Deferred values: the results of operators that were called and have not run. What they are computed from is known,
and their types; their bytes come when a program that gives them has run.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ops.methods import OperatorMethods
from weft.ops.op import Op
from weft.support.locations import Mark
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

if TYPE_CHECKING:
    from weft.lazy.trace import Trace

Array = np.ndarray[Any, Any]


class Cell:
    """Where the bytes of a value come to lie: an array that is there, or that a program which runs elsewhere will bring
    (`done` is set then), or the error that it raised instead.
    """

    __slots__ = ("array", "done", "error")

    def __init__(self, array: Array | None = None, done: threading.Event | None = None) -> None:
        self.array, self.done = array, done
        self.error: BaseException | None = None

    def read(self) -> Array:
        """The bytes, once they are there. Raises what the program raised that should have brought them."""
        if self.array is None:
            if self.done is not None:
                self.done.wait()
            if self.error is not None:
                raise self.error
        assert self.array is not None, "a value that no program has been asked for"
        return self.array


class Node:
    """One call that waits: the operator (or a recorded rule) and its arguments (deferred values among them).

    numbers: the integers and floats among the arguments, in order. where: the user's line, as a mark. position: the
    place in its trace; epoch: which of the trace's cuts it comes before.
    """

    __slots__ = ("args", "epoch", "numbers", "op", "position", "types", "where")

    def __init__(
        self, op: Any, args: tuple[Any, ...], numbers: tuple[Any, ...], types: tuple[TensorType, ...],
        where: Mark | None,
    ) -> None:
        self.op, self.args, self.numbers, self.types, self.where = op, args, numbers, types, where
        self.position = self.epoch = -1


class Deferred(OperatorMethods):
    """A value of a trace, which operators accept: rules written with operators are traced when called with it.

    It has no aliases and lies row-major. node: the call that gives it, None once its bytes are asked for; cell: the
    bytes.
    """

    __slots__ = ("__weakref__", "cell", "index", "node", "trace", "type_")

    def __init__(self, trace: Trace, type: TensorType, node: Node | None = None, index: int = 0) -> None:
        self.trace, self.type_, self.node, self.index = trace, type, node, index
        self.cell: Cell | None = None

    @property
    def dims(self) -> tuple[Dim, ...]:
        return self.type_.shape

    @property
    def ndim(self) -> int:
        return self.type_.ndim

    @property
    def dtype(self) -> DType:
        found = self.type_.dtype
        assert found is not None
        return found

    @property
    def device(self) -> str:
        return self.trace.device

    def is_contiguous(self) -> bool:
        """Always: a value lies row-major."""
        return True

    def read(self) -> Array:
        """The bytes of a value that is not pending. Nobody may write them."""
        assert self.cell is not None
        return self.cell.read()

    @staticmethod
    def __weft_route__(op: Op, args: tuple[Any, ...]) -> Any:
        return _trace_of(args).call(op, args)

    def __repr__(self) -> str:
        return f"<deferred {self.type_}>"


def computed(trace: Trace, array: Array) -> Deferred:
    """A value whose bytes are there. The array becomes the value's own: row-major, and nobody else's."""
    out = Deferred(trace, tensor_type(dt.from_numpy(array.dtype), array.shape))
    out.cell = Cell(array)
    return out


def _trace_of(args: tuple[Any, ...]) -> Trace:
    for a in args:
        if type(a) is Deferred:
            return a.trace
        if type(a) is tuple:
            for b in a:
                if type(b) is Deferred:
                    return b.trace
    raise AssertionError("no deferred value among the arguments")
