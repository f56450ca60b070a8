"""A small runner of lowered graphs: NumPy buffers, one call after the other, the extent cut into parts;
and the graph by evaluate, to compare."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.catalogue  # noqa: F401
from weft.codegen.emit import Module
from weft.codegen.lower.graph import lower_graph
from weft.codegen.native import build
from weft.codegen.target import Target, host_target
from weft.ir.builder import Builder
from weft.ir.graph import Graph, Value, values_in
from weft.loops.kernel import HostCall, KernelCall, LoweredGraph
from weft.ops import array, compute  # noqa: F401
from weft.ops.methods import install_methods
from weft.passes.alias import dims_of, dtype_of
from weft.passes.pipeline import optimize
from weft.types import dims as dm
from weft.types.dtype import DType
from weft.types.tensor_type import FLOAT, tensor_type

install_methods()
Array = np.ndarray[Any, Any]
TABLE = ctypes.c_void_p
SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_void_p] * 4), ctypes.c_int64, ctypes.c_int64)


class Failed(Exception):
    """A bounds check of a kernel failed; args: the node."""


def graph_of(fn: Callable[..., Any], *inputs: Any, symbolic: bool = True) -> tuple[Graph, dict[str, int]]:
    """The graph of a function over handles. inputs: ndarrays and floats; sizes become symbols."""
    b = Builder("f")
    sizes: dict[str, int] = {}

    def size(n: int) -> Any:
        if not symbolic or n == 1:
            return n
        s = b.env.fresh("s", n)
        sizes[str(s)] = n
        return s

    from weft.types import dtype as dt

    params = [
        b.param(tensor_type(dt.from_numpy(
            x.dtype
        ), tuple(size(n) for n in x.shape)) if isinstance(x, np.ndarray) else FLOAT, f"x{i}")
        for i, x in enumerate(inputs)
    ]
    with b.active():
        results = fn(*map(b.handle, params))
    results = results if isinstance(results, tuple) else (results,)
    return optimize(b.graph([b.operand(r) for r in results])), sizes


def numpy_results(graph: Graph, inputs: Sequence[Any], sizes: dict[str, int]) -> list[Array]:
    """The graph by evaluate, node after node."""
    known: dict[Value, Any] = dict(zip(graph.params, inputs, strict=False))
    for node in graph.nodes:
        out = compute.evaluate(node.op, tuple(_argument(a, known, sizes) for a in node.args))
        for value, x in zip(node.outputs, out if isinstance(out, (tuple, list)) else (out,), strict=False):
            known[value] = x
    return [_argument(r, known, sizes) for r in graph.results]


def _argument(operand: Any, known: dict[Value, Any], sizes: dict[str, int]) -> Any:
    if type(operand) is Value:
        return known[operand]
    if type(operand) is tuple:
        return tuple(_argument(o, known, sizes) for o in operand)
    return dm.evaluate(operand, sizes) if isinstance(operand, dm.Expr) else operand


class Runner:
    """A lowered and compiled graph."""

    def __init__(self, graph: Graph, target: Target | None = None) -> None:
        self.target = target or host_target()
        module = Module.for_target(self.target)
        self.lowered: LoweredGraph = lower_graph(graph, module, self.target, with_text=True)
        self.text = module.text()
        names = {s.function for s in self.lowered.steps if isinstance(s, KernelCall)}
        self.library = build(self.text, names, self.target) if names else None

    @property
    def kernels(self) -> list[KernelCall]:
        return [s for s in self.lowered.steps if isinstance(s, KernelCall)]

    @property
    def host_calls(self) -> list[HostCall]:
        return [s for s in self.lowered.steps if isinstance(s, HostCall)]

    def __call__(
        self, inputs: Sequence[Any], sizes: dict[str, int], parts: int = 1, in_place: bool = False
    ) -> list[Array]:
        graph = self.lowered.graph
        self.known: dict[Value, Any] = dict(zip(graph.params, inputs, strict=False))
        self.sizes, self.parts, self.in_place = sizes, parts, in_place
        self.fixed = set(graph.params)
        for at, step in enumerate(self.lowered.steps):
            if isinstance(step, KernelCall):
                self.later = self._used_after(at)
                self._kernel(step)
            else:
                self._host_call(step)  # type: ignore[arg-type]
        return [self.read(r) for r in self.lowered.results]

    def _used_after(self, at: int) -> set[Value]:
        found = {self.lowered.root(v) for r in self.lowered.results for v in values_in(r)}
        for step in self.lowered.steps[at + 1 :]:
            found |= set(step.reads if isinstance(step, KernelCall) else map(self.lowered.root, step.inputs))
        return found

    def read(self, operand: Any) -> Any:
        if type(operand) is not Value:
            return _argument(operand, self.known, self.sizes)
        found = self.lowered.alias.get(operand)
        if found is None:
            return self.known[operand]
        root, g = found
        base = np.ascontiguousarray(self.known[root])
        n = base.dtype.itemsize
        dims = tuple(dm.evaluate(d, self.sizes) for d in g.dims)
        if 0 in dims:
            return np.empty(dims, base.dtype)
        return np.ndarray(
            dims, base.dtype, base, dm.evaluate(g.offset, self.sizes) * n,
            tuple(dm.evaluate(s, self.sizes) * n for s in g.strides),
        )

    def _host_call(self, step: HostCall) -> None:
        out = compute.evaluate(step.node.op, tuple(self._host_argument(a) for a in step.node.args))
        for value, x in zip(step.outputs, out if isinstance(out, (tuple, list)) else (out,), strict=False):
            self.known[value] = np.ascontiguousarray(x) if isinstance(x, np.ndarray) and x.ndim else x

    def _host_argument(self, operand: Any) -> Any:
        if type(operand) is tuple:
            return tuple(self._host_argument(o) for o in operand)
        return self.read(operand)

    def _kernel(self, step: KernelCall) -> None:
        assert self.library is not None
        shared = dict(step.in_place) if self.in_place else {}
        taken: set[Value] = set()
        for o, value in enumerate(step.writes):
            source = step.buffers[shared[o]] if o in shared else None
            if source is not None and source not in self.fixed and source not in self.later and source not in taken:
                taken.add(source)
                self.known[value] = self.known[source].reshape(-1).view(_numpy(dtype_of(value))).reshape(
                    self._dims(value)
                )
            else:
                self.known[value] = np.full(self._dims(value), 77, np.int64).astype(_numpy(dtype_of(value)))
        arrays = [np.asarray(self.known[v]) for v in step.buffers]
        for v, x in zip(step.buffers, arrays, strict=False):
            assert x.dtype == _numpy(dtype_of(v)) and (x.flags.c_contiguous or x.size == 0), (v, x.dtype)
        bufs = (ctypes.c_void_p * max(1, len(arrays)))(*(x.ctypes.data for x in arrays))
        ints = (ctypes.c_int64 * max(1, len(step.ints)))(*(dm.evaluate(d, self.sizes) for d in step.ints))
        numbers = (ctypes.c_double * max(1, len(step.numbers)))(
            *(float(_argument(n, self.known, self.sizes)) for n in step.numbers)
        )
        scratch = np.full(dm.evaluate(step.scratch_bytes, self.sizes) + 64, 99, np.uint8)
        address = (scratch.ctypes.data + 63) // 64 * 64
        extent = dm.evaluate(step.extent, self.sizes)
        call = SIGNATURE(self.library[step.function])
        cuts = sorted({extent * i // self.parts for i in range(self.parts + 1)})
        for begin, end in reversed(list(itertools.pairwise(cuts))):
            status = call(
                ctypes.addressof(bufs), ctypes.addressof(ints), ctypes.addressof(numbers), address, begin, end
            )
            if status:
                raise Failed(step.nodes[step.raises[status - 1]])

    def _dims(self, value: Value) -> tuple[int, ...]:
        return tuple(dm.evaluate(d, self.sizes) for d in dims_of(value))


def _numpy(dtype: DType | None) -> Any:
    assert dtype is not None
    return dtype.numpy


def check(
    fn: Callable[..., Any], *inputs: Any, symbolic: bool = True, tolerance: float = 1e-5, target: Target | None = None
) -> Runner:
    """Lower, run in one part and in three, in place where allowed; compare all with evaluate.
    Returns the runner for counting."""
    graph, sizes = graph_of(fn, *inputs, symbolic=symbolic)
    runner = Runner(graph, target)
    wanted = numpy_results(graph, inputs, sizes)
    first = runner([_copy(x) for x in inputs], sizes)
    compare(runner, first, wanted, tolerance)
    again = runner([_copy(x) for x in inputs], sizes, parts=3, in_place=True)
    for a, b in zip(first, again, strict=False):
        np.testing.assert_array_equal(_plain(a), _plain(b), err_msg="depends on the cuts, or not safe in place")
    return runner


def _copy(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _plain(x: Any) -> Any:
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def compare(runner: Runner, got: Sequence[Any], wanted: Sequence[Any], tolerance: float) -> None:
    for a, b in zip(got, wanted, strict=False):
        x, y = np.asarray(a), np.asarray(b)
        assert x.shape == y.shape, (x.shape, y.shape)
        if y.dtype.kind in "biu":
            np.testing.assert_array_equal(x, y, err_msg="\n".join(k.text for k in runner.kernels))
        else:
            half = {"float16": 1e-3, "bfloat16": 8e-3}.get(y.dtype.name, 0.0)
            np.testing.assert_allclose(
                _plain(x).astype(np.float64), _plain(y).astype(np.float64), rtol=max(tolerance, half),
                atol=max(tolerance, half), err_msg="\n".join(k.text for k in runner.kernels),
            )
