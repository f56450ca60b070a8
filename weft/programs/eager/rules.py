"""Standalone kernels: one operator or gradient formula as a program of its own, for large arrays in eager mode.

A rule is captured once for dtypes, ranks and the pattern of equal sizes, with sizes as symbols, and goes through
the compiler like any graph; its program is kept on disk like any other. What is left to NumPy: rules with effects,
views, results whose sizes only the run tells, and what the compiler itself would hand to NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft.ir.builder import Builder, Handle
from weft.ir.graph import Graph, Value
from weft.ops.op import Op
from weft.programs.executable import Compiled
from weft.programs.store import UNFIT, Miss, ProgramStore
from weft.runtime.heap import keep_freed_memory
from weft.runtime.program import Program
from weft.runtime.segments import HostSegment
from weft.support import limits
from weft.support.counters import counters
from weft.support.errors import WeftError
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.tensor_type import tensor_type

Array = np.ndarray[Any, Any]
Rule = Callable[..., Any]


class StandaloneKernel:
    """A program with the sizes of its arrays bound. Registers are those of a plan (ops/plan.py):
    the arrays given, then the results."""

    __slots__ = ("outputs", "program", "sizes")

    def __init__(self, program: Program, sizes: tuple[int, ...], outputs: Any) -> None:
        self.program, self.sizes, self.outputs = program, sizes, outputs

    def run(self, arrays: list[Any]) -> list[Any]:
        """The registers after the run."""
        return arrays + self.program.run(
            [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in arrays], self.sizes
        )


class _Refused(Exception):
    """The rule stays with NumPy."""


class _Captured:
    """A rule as a graph and as a program."""

    def __init__(self, owner: Any, rule: Rule, args: Sequence[Any], arrays: Sequence[Array]) -> None:
        self.builder = Builder("standalone")
        sizes = _Sizes(arrays)
        env = self.builder.env
        self.symbols = {size: env.fresh("s", size) for size in sizes.distinct}
        self.names = tuple(str(s) for s in self.symbols.values())
        self.given = len(arrays)
        params = iter([self._param(a) for a in arrays])
        handles = [_replaced(a, params) for a in args]
        try:
            with self.builder.active():
                result = self.builder.call(owner, tuple(handles)) if isinstance(owner, Op) else rule(*handles)
        except AttributeError as error:
            if isinstance(error.obj, Handle):  # such as `item`: handles have no values
                raise _Refused("a value is read") from None
            raise
        self.results: list[Value] = []
        self.outputs = self._output(result)
        if not self.results:
            raise _Refused("nothing is computed")
        graph = self.builder.graph(self.results)
        self._check(graph, arrays)
        with counters.for_eager():
            self.program = Compiled(graph, "llvm").program
        self.program.is_for_eager = True
        self.program.let_go(arena=True)
        layout = self.program.layout
        if any(isinstance(s, HostSegment) for s in layout.segments):
            raise _Refused("the compiler has no kernel for a part of it")
        if any(r.kind == "given" for r in layout.results):
            raise _Refused("a result is an argument itself: a copy of it has memory of its own")
        self.order = tuple(self.names.index(name) for name in layout.symbols[: layout.given])
        self.guards = tuple(graph.env.guards.values())

    def _param(self, array: Array) -> Handle:
        dims: tuple[Dim, ...] = tuple([self.symbols.get(d, d) for d in array.shape])
        return self.builder.handle(self.builder.param(tensor_type(dt.from_numpy(array.dtype), dims)))  # type: ignore[no-any-return]

    def _output(self, result: Any) -> Any:
        """The registers of a result: an argument's own, or one behind the arguments."""
        if result is None:
            return None
        if type(result) in (tuple, list):
            return type(result)([self._output(r) for r in result])
        if not isinstance(result, Handle) or result.is_number or result.value in self.results:
            raise _Refused("a result is no tensor of its own")
        if result.value in self.builder.params:
            return self.builder.params.index(result.value)
        self.results.append(result.value)
        return self.given + len(self.results) - 1

    def _check(self, graph: Graph, arrays: Sequence[Array]) -> None:
        nodes = list(graph.walk())
        if graph.env.has_unbacked or any(n.op.effect not in ("pure", "raises") for n in nodes):
            raise _Refused("an effect, or a size that only the run tells")
        if all(n.op.fill is not None or n.op.is_splat or n.op.like for n in nodes):
            raise _Refused("one number everywhere: NumPy fills as fast, and pages of zeros come when they are touched")
        if any(n.op.reads_any_strides for n in nodes) and (
            len(nodes) == 1 or not all(a.flags.c_contiguous for a in arrays)
        ):
            raise _Refused("an operand is read as it lies")
        if any(_root(v) in self.builder.params for v in self.results):
            raise _Refused("a result shows an argument's memory")

    def match(self, arrays: Sequence[Array], distinct: tuple[int, ...]) -> tuple[int, ...] | Miss:
        """The sizes in the program's order, if it holds for them."""
        values = dict(zip(self.names, distinct, strict=True))
        return tuple([distinct[i] for i in self.order]) if all(g.holds(values) for g in self.guards) else UNFIT


def _root(value: Value) -> Value:
    """The value whose memory a value shows."""
    while value.node is not None and value.node.op.view is not None:
        value = value.node.args[0]
    return value


def _replaced(value: Any, params: Iterator[Any]) -> Any:
    """An argument with parameters in place of arrays, or of what holds them."""
    if type(value) is tuple:
        return tuple([_replaced(v, params) for v in value])
    return next(params) if isinstance(getattr(value, "_data", value), np.ndarray) else value


class _Sizes:
    """Sizes of arrays: `distinct` in the order of their first use, `pattern` by their places in that order;
    0 and 1 stand for themselves."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        places: dict[int, int] = {}
        self.pattern = tuple(
            [tuple([d if d < 2 else places.setdefault(d, len(places)) + 2 for d in a.shape]) for a in arrays]
        )
        self.distinct = tuple(places)


# by rule, for what its other arguments say and the pattern of its sizes
_stores: dict[Any, ProgramStore[Any, _Captured]] = {}
_lock = threading.RLock()


def standalone(
    owner: Any, rule: Rule, args: Sequence[Any], key: Sequence[Any], arrays: Sequence[Array]
) -> StandaloneKernel | None:
    """The kernel of `rule(*args)` for arrays of these sizes; None where NumPy must do it.
    key: all that the rule depends on but sizes."""
    sizes = _Sizes(arrays)
    kinds = (tuple(key), sizes.pattern, tuple([a.flags.c_contiguous for a in arrays]))
    with _lock:
        store = _stores.get(owner)
        if store is None:
            store = _stores[owner] = ProgramStore(limits.PROGRAMS_OF_AN_OPERATOR, limits.PROGRAMS_OF_AN_OPERATOR)
        match = store.find(kinds, arrays, sizes.distinct)
        if match is None:
            if not store.may_add(kinds):
                return None
            keep_freed_memory()
            try:
                store.variants(kinds).add(_Captured(owner, rule, args, arrays))
            except (_Refused, WeftError, ImportError) as error:  # (without LLVM there is no native code)
                store.refuse(kinds, error)
                return None
            match = store.find(kinds, arrays, sizes.distinct)
            assert match is not None
    captured, numbers = match
    return StandaloneKernel(captured.program, numbers, captured.outputs)
