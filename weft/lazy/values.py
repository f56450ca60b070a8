"""Deferred values: the results of operators that were called and have not run. What they are computed from is known,
and their types; their bytes come when a program that gives them has run.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ops.methods import OperatorMethods
from weft.ops.op import Op
from weft.support.locations import Mark
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr, substitute, symbol
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type
from weft.types.unbacked import settled_type

if TYPE_CHECKING:
    from weft.lazy.trace import Trace

Array = np.ndarray[Any, Any]


class Latch:
    """What some wait for until another one sets it, once. (An Event that costs a tenth to make.)"""

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._is_set, self._lock = False, allocate_lock()
        self._lock.acquire()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Let those go on that wait."""
        if not self._is_set:
            self._is_set = True
            self._lock.release()

    def wait(self) -> None:
        """Return once it is set."""
        if not self._is_set:
            with self._lock:
                pass


class Cell:
    """Where the bytes of a value come to lie: an array that is there, or that a program which runs elsewhere will bring
    (`done` is set then), or the error that it raised instead.
    """

    __slots__ = ("array", "done", "error")

    def __init__(self, array: Array | None = None, done: Latch | None = None) -> None:
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
    place in its trace; epoch: which of the trace's cuts it comes before; state: the trace's behind it.
    """

    __slots__ = ("args", "epoch", "numbers", "op", "position", "state", "types", "where")

    def __init__(
        self, op: Any, args: tuple[Any, ...], numbers: tuple[Any, ...], types: tuple[TensorType, ...],
        where: Mark | None,
    ) -> None:
        self.op, self.args, self.numbers, self.types, self.where = op, args, numbers, types, where
        self.position = self.epoch = -1
        self.state: Any = None


class SizeOf:
    """In an argument's place: a number that hangs on sizes which the program finds. sources: of each symbol in `expr`
    its name, a value that has this size, and in which dim.
    """

    __slots__ = ("expr", "sources")

    def __init__(self, expr: Expr, sources: tuple[tuple[str, Deferred, int], ...]) -> None:
        self.expr, self.sources = expr, sources

    def renamed(self) -> Expr:
        """The number as a formula of v0, v1, ..., which stand for the sources in order."""
        names = {name: symbol(f"v{i}") for i, (name, _, _) in enumerate(self.sources)}
        out = substitute(self.expr, names)
        assert isinstance(out, Expr)
        return out

    def __str__(self) -> str:
        return str(self.expr)


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
        dtype = self.type_.dtype
        assert dtype is not None
        return dtype

    @property
    def tensor_type(self) -> TensorType:
        return self.type_

    @property
    def device(self) -> str:
        return self.trace.device

    def is_contiguous(self) -> bool:
        """Always: a value lies row-major."""
        return True

    def learn_sizes(self) -> None:
        """Sizes that were not known are."""
        self.type_ = settled_type(self.type_)

    def find(self, values: Sequence[Deferred]) -> None:
        """See that values are computed whose sizes somebody needs."""
        self.trace.compute([v for v in values if v.trace is self.trace], _SIZE)

    def size_at(self, axis: int) -> int:
        """A size that only the bytes say."""
        return int(self.trace.bytes_of(self, _SIZE).shape[axis])

    def read(self) -> Array:
        """The bytes of a value that is not pending. Nobody may write them."""
        assert self.cell is not None
        return self.cell.read()

    @staticmethod
    def __weft_route__(op: Op, args: tuple[Any, ...]) -> Any:
        return _trace_of(args).call(op, args)

    def __repr__(self) -> str:
        return f"<deferred {self.type_}>"


_SIZE = "a size that hangs on values"


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
