"""The native matrix product against NumPy in float64: every layout, odd sizes, row splits, packing ahead,
batches, other machines."""

from __future__ import annotations

import ctypes
import functools
import itertools
import random
from dataclasses import dataclass
from typing import Any

import numpy
import pytest

from tests.agree.width import times
from weft.codegen.compiler import compile_object
from weft.codegen.emit import EmitError, Function, Module
from weft.codegen.gemm import PARAMETERS, declare_gemm, gemm_symbol
from weft.codegen.gemm.kernel import Tile, store_tile
from weft.codegen.gemm.library import emit_gemm, gemm_module
from weft.codegen.gemm.tiles import GemmPlan, plan_gemm
from weft.codegen.target import Target, aarch64_target, host_target, x86_target
from weft.runtime.engine import Library, load

ODD = (1, 2, 3, 4, 5, 7, 10, 13, 14, 15, 16, 17, 31, 33, 50, 64, 100, 127)
LEVELS = ["native", "x86-64-v3"]
CTYPES = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "void": None}
GUARD = 64


def can_run(level: str) -> bool:
    host = host_target()
    return level == "native" or (host.is_x86 and host.vector_bytes >= 32 and host.has_fma)


@dataclass
class Gemm:
    """The library's functions as Python callables."""

    dtype: numpy.dtype[Any]
    target: Target
    library: Library
    entries: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.entries[name]

    @property
    def plan(self) -> GemmPlan:
        return plan_gemm(self.dtype.name, self.target)

    def workspace(self, n: int, k: int) -> numpy.ndarray:
        return guarded(self.plan.workspace_bytes(n, k))


def guarded(size: int) -> numpy.ndarray:
    """`size` bytes at an aligned address, followed by guard bytes."""
    memory = numpy.full(size + 64 + GUARD, 77, numpy.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size + GUARD]


def intact(memory: numpy.ndarray) -> bool:
    return bool((memory[-GUARD:] == 77).all())


@functools.cache
def build(dtype: str, level: str) -> Gemm:
    target = host_target() if level == "native" else x86_target(level)
    module = Module.for_target(target)
    library = emit_gemm(module, dtype, target)
    loaded = load(compile_object(module.text(), target), library.symbols)
    entries = {}
    for entry in PARAMETERS:
        signature = getattr(library, entry)
        types = [CTYPES[t.text] for t in (signature.result, *signature.params)]
        entries[entry] = ctypes.CFUNCTYPE(types[0], *types[1:])(loaded[signature.name])
    return Gemm(numpy.dtype(dtype), target, loaded, entries)


@pytest.fixture(params=[(d, v) for d in ("float32", "float64") for v in LEVELS], ids=lambda p: "-".join(p))
def gemm(request: pytest.FixtureRequest) -> Gemm:
    dtype, level = request.param
    if not can_run(level):
        pytest.skip(f"this machine cannot run {level}")
    return build(dtype, level)


def draw(rows: int, columns: int, dtype: numpy.dtype[Any]) -> numpy.ndarray:
    """A matrix in one of many layouts: either order, padded rows, strided both ways, backwards, one row repeated."""
    layout = random.randrange(6)
    normal = numpy.random.standard_normal
    if layout == 0:
        return normal((rows, columns)).astype(dtype)
    if layout == 1:
        return normal((columns, rows)).astype(dtype).T
    if layout == 2:
        return normal((rows, columns + 9)).astype(dtype)[:, 4 : 4 + columns]
    if layout == 3:
        return normal((2 * rows, 3 * columns)).astype(dtype)[::2, ::3]
    if layout == 4:
        return normal((rows, columns)).astype(dtype)[::-1, ::-1]
    return numpy.broadcast_to(normal(columns).astype(dtype), (rows, columns))


def strides(*arrays: numpy.ndarray) -> list[int]:
    return [step // x.itemsize for x in arrays for step in x.strides]


def multiply(
    g: Gemm, a: numpy.ndarray, b: numpy.ndarray, c: numpy.ndarray, accumulate: int, cuts: list[int],
    column_cuts: list[int] | None = None,
) -> None:
    """c = a @ b or c += a @ b, one call for each range of rows and columns between consecutive cuts, each with its own
    workspace."""
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    steps = strides(a, b, c)[:-1]
    head = [a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, *steps, accumulate]
    for low, high in itertools.pairwise(cuts):
        for left, right in itertools.pairwise(column_cuts or [0, n]):
            space = g.workspace(n, k)
            g.gemm(*head, space.ctypes.data, low, high, left, right)
            assert intact(space)


def drawn_cuts(size: int) -> list[int]:
    return [0, *sorted(random.choices(range(size + 1), k=2)), size]


def check(got: numpy.ndarray, a: numpy.ndarray, b: numpy.ndarray, start: numpy.ndarray | None = None) -> None:
    wide_a, wide_b = a.astype(numpy.longdouble), b.astype(numpy.longdouble)
    exact = wide_a @ wide_b
    bound = (abs(wide_a) @ abs(wide_b) + 1) * 24 * numpy.finfo(got.dtype).eps
    if start is not None:
        exact += start
        bound += abs(start) * 2 * numpy.finfo(got.dtype).eps
    assert (abs(got - exact) <= bound).all(), float((abs(got - exact) / bound).max())


def draw_sizes() -> tuple[int, int, int]:
    m, n, k = (random.choice(ODD) for _ in range(3))
    if random.random() < 0.15:
        k = random.choice((255, 256, 257, 300, 513, 700))
    if random.random() < 0.1:
        n = random.choice((500, 512, 513, 600, 1100))
    return m, n, k


def test_any_size_layout_and_split(gemm: Gemm) -> None:
    for _ in range(times(200)):
        m, n, k = draw_sizes()
        a, b, accumulate = draw(m, k, gemm.dtype), draw(k, n, gemm.dtype), random.randrange(2)
        start = numpy.random.standard_normal((m, n + 3)).astype(gemm.dtype)
        c, split = start.copy(), start.copy()
        multiply(gemm, a, b, c[:, :n], accumulate, [0, m])
        check(c[:, :n], a, b, start[:, :n] if accumulate else None)
        numpy.testing.assert_array_equal(c[:, n:], start[:, n:])
        multiply(gemm, a, b, split[:, :n], accumulate, drawn_cuts(m), drawn_cuts(n))
        numpy.testing.assert_array_equal(split, c, err_msg=f"{m}x{n}x{k} {strides(a, b)}")


def test_rows_outside_the_range_are_left_alone(gemm: Gemm) -> None:
    m, n, k = 40, random.choice(ODD), random.choice(ODD)
    a, b, c = draw(m, k, gemm.dtype), draw(k, n, gemm.dtype), numpy.full((m, n), 5, gemm.dtype)
    multiply(gemm, a, b, c, 0, [11, 29])
    assert (c[:11] == 5).all() and (c[29:] == 5).all()
    check(c[11:29], a[11:29], b)


@pytest.mark.parametrize("shape", [(0, 5, 6), (5, 0, 6), (5, 6, 0), (3, 4, 0), (7, 1, 0), (0, 0, 0), (1, 1, 0)])
def test_empty_products(gemm: Gemm, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b, c = draw(m, k, gemm.dtype), draw(k, n, gemm.dtype), numpy.full((m, n), 3, gemm.dtype)
    multiply(gemm, a, b, c, 1, [0, m])
    assert (c == 3).all()
    multiply(gemm, a, b, c, 0, [0, m])
    assert (c == 0).all()


def test_not_a_number_stays_in_its_row_and_column(gemm: Gemm) -> None:
    for m, n, k in [draw_sizes() for _ in range(20)]:
        a, b = numpy.ones((m, k), gemm.dtype), numpy.ones((k, n), gemm.dtype)
        row, column = random.randrange(m), random.randrange(n)
        a[row, random.randrange(k)], b[random.randrange(k), column] = numpy.nan, numpy.inf
        c = numpy.empty((m, n), gemm.dtype)
        multiply(gemm, a, b, c, 0, [0, m])
        assert numpy.isnan(c[row]).all()
        others = numpy.delete(c, row, axis=0)
        assert numpy.isinf(others[:, column]).all()
        assert (numpy.delete(others, column, axis=1) == k).all()


def test_b_packed_ahead_gives_the_same_bits(gemm: Gemm) -> None:
    wide = gemm.plan.columns + random.randrange(1, 100)  # A in packed blocks
    for n in (wide, *[draw_sizes()[1] for _ in range(20)]):
        m, _, k = draw_sizes()
        m, n = max(m, 5), max(n, 2)
        if n == wide:
            m = random.choice((5, 100, gemm.plan.rows * (gemm.plan.block_strips + 1) + random.randrange(20)))
        a, b = draw(m, k, gemm.dtype), draw(k, n, gemm.dtype)
        plain, packed = numpy.empty((m, n), gemm.dtype), numpy.empty((m, n), gemm.dtype)
        multiply(gemm, a, b, plain, 0, [0, m])
        store, panels = guarded(gemm.plan.packed_elements(n, k) * gemm.dtype.itemsize), gemm.plan.panels(n)
        cut = random.randrange(panels + 1)
        for low, high in ((cut, panels), (0, cut)):
            gemm.pack_b(b.ctypes.data, n, k, *strides(b), store.ctypes.data, low, high)
        space = gemm.workspace(n, k)
        head = [a.ctypes.data, store.ctypes.data, packed.ctypes.data, m, n, k, *strides(a), n, 0, space.ctypes.data]
        columns = [0, *sorted({random.randrange(panels) * gemm.plan.panel, n})]
        for low, high in ((0, m // 3), (m // 3, m)):
            for left, right in itertools.pairwise(columns):
                gemm.packed(*head, low, high, left, right)
        assert intact(store) and intact(space)
        numpy.testing.assert_array_equal(packed, plain)


def test_an_epilogue_may_replace_the_store() -> None:
    """An epilogue that adds row + 1000 * column to each tile's corner element."""
    if not can_run("native"):
        pytest.skip("needs this machine")
    target = host_target()

    def marked(f: Function, plan: GemmPlan, tile: Tile) -> None:
        store_tile(f, plan, tile)
        place = f.sitofp(f.add(tile.row, f.mul(tile.column, 1000)), plan.elem)
        f.store(f.fadd(f.load(plan.elem, tile.corner), place), tile.corner)

    module = Module.for_target(target)
    library = emit_gemm(module, "float64", target, marked)
    loaded = load(compile_object(module.text(), target), library.symbols)
    types = [CTYPES[t.text] for t in library.gemm.params]
    run = ctypes.CFUNCTYPE(None, *types)(loaded[library.gemm.name])
    plan = plan_gemm("float64", target)
    m, n, k = plan.rows, 2 * plan.panel, 9
    a, b, c = numpy.ones((m, k)), numpy.ones((k, n)), numpy.zeros((m, n))
    space = guarded(plan.workspace_bytes(n, k))
    run(a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, k, 1, n, 1, n, 0, space.ctypes.data, 0, m, 0, n)
    expected = numpy.full((m, n), 9.0)
    expected[0, plan.panel] += 1000 * plan.panel
    numpy.testing.assert_array_equal(c, expected)


def test_other_machines_get_objects_of_their_own() -> None:
    arm = compile_object(gemm_module("float32", aarch64_target()).text(), aarch64_target())
    assert arm[:4] == b"\x7fELF" and arm[18] == 183  # the machine number of AArch64
    plans = {
        name: plan_gemm("float32", t) for name, t in (("v3", x86_target("x86-64-v3")), ("v4", x86_target("x86-64-v4")))
    }
    assert plans["v3"].lanes == 8 and plans["v3"].rows * plans["v3"].vectors + plans["v3"].vectors + 1 <= 16
    assert plans["v4"].lanes == 16 and plans["v4"].rows * plans["v4"].vectors + plans["v4"].vectors + 1 <= 32


def test_declarations_match_what_is_emitted() -> None:
    target = host_target()
    module = Module.for_target(target)
    declared = declare_gemm(module, "float32", target)
    assert declared == emit_gemm(Module.for_target(target), "float32", target)
    assert declared.gemm.name == gemm_symbol("gemm", plan_gemm("float32", target)) == "weft_gemm_f32"
    with pytest.raises(EmitError, match="no native product of int32"):
        plan_gemm("int32", target)
