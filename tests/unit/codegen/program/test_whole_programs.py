"""Whole programs through the real lowering: random graphs give what the all-NumPy program gives,
for sizes drawn afterwards."""

from __future__ import annotations

import gc
import os
import random
import tracemalloc

import numpy as np
import pytest

import weft.catalogue  # noqa: F401  # defines the operators
from weft.codegen.compiler import compile_object
from weft.codegen.emit import Module
from weft.codegen.lower.graph import lower_graph
from weft.codegen.program.compile import compile_program
from weft.codegen.program.layout import native_layout
from weft.codegen.target import aarch64_target, x86_target
from weft.ir.builder import Builder, Handle
from weft.ops.packet import aten
from weft.runtime.cache import Cache
from weft.support.counters import counters
from weft.types import dtype as dt
from weft.types.tensor_type import FLOAT, tensor_type


def _random_graph(rng):
    """Matrices [s0, 6] and [6], numbers, reductions, views, writes."""
    b = Builder("random")
    n = b.env.fresh("s", 12)
    matrices = [Handle(b.param(tensor_type(dt.float32, (n, 6)), f"m{i}"), b) for i in range(2)]
    vectors = [Handle(b.param(tensor_type(dt.float32, (6,)), f"v{i}"), b) for i in range(3)]
    numbers = [Handle(b.param(FLOAT, f"f{i}"), b) for i in range(2)]
    params = len(b.params)
    for _ in range(rng.randint(3, 14)):
        m, v, f = rng.choice(matrices), rng.choice(vectors), rng.choice(numbers)
        step = rng.randrange(8)
        if step == 0:
            matrices.append(m * v + rng.choice(matrices))
        elif step == 1:
            matrices.append(aten.tanh(m) * f)
        elif step == 2:
            vectors.append(aten.sum(m, (0,)) * 0.125)
        elif step == 3:
            numbers.append(aten.add(aten.mul(f, 0.5), rng.choice(numbers)))
        elif step == 4:
            matrices.append(aten.exp(-(m * m)) + aten.unsqueeze(aten.sum(m, (1,)), 1) * 0.25)
        elif step == 5:
            turned = aten.permute(m, (1, 0))
            vectors.append(aten.sum(turned * f, (1,)) - v)
        elif step == 6:
            vectors.append(aten.cumsum(v, 0))
        else:
            matrices.append(aten.mm(m, aten.unsqueeze(v, 1)) * m)
    results = [*rng.sample(matrices + vectors + numbers, 4), n * 3 - 1]
    writes = []
    for param in rng.sample(range(params - 2), 2):
        family = matrices if param < 2 else vectors
        writes.append((len(results), param))
        results.append(rng.choice(family))
    return b.graph([r.value if isinstance(r, Handle) else r for r in results], writes)


def _inputs(size, seed):
    rng = np.random.default_rng(seed)
    matrices = [rng.standard_normal((size, 6)).astype(np.float32) for _ in range(2)]
    vectors = [rng.standard_normal(6).astype(np.float32) for _ in range(3)]
    return [*matrices, *vectors, *map(float, rng.standard_normal(2))]


@pytest.mark.parametrize("turn", range(8))
def test_native_agrees_with_numpy(turn):
    seed = random.getrandbits(32)
    graph = _random_graph(random.Random(seed))
    native, reference = compile_program(graph, cache=Cache(None)), compile_program(graph, backend="numpy")
    for size in random.sample(range(1, 90), 3):
        ours, theirs = _inputs(size, seed), _inputs(size, seed)
        for _ in range(2):  # the second call starts from the written state
            got, expected = native.run(ours, (size,)), reference.run(theirs, (size,))
            for a, b in zip([*got, *ours], [*expected, *theirs], strict=True):
                np.testing.assert_allclose(
                    a, b, rtol=2e-4, atol=2e-4, err_msg=f"seed {seed}, size {size}\n{native.layout.notes}"
                )
                assert np.shape(a) == np.shape(b)
            for value in [*ours, *theirs]:
                if isinstance(value, np.ndarray):
                    np.clip(value, -3, 3, out=value)
            for a, b in zip(ours, theirs, strict=True):
                if isinstance(a, np.ndarray):
                    a[...] = b


def test_pointwise_program_is_one_native_call(rng):
    b = Builder("f")
    n = b.env.fresh("s", 4)
    x = Handle(b.param(tensor_type(dt.float32, (n, 3))), b)
    program = compile_program(b.graph([(aten.tanh(x) * x + 1.0).value]), cache=Cache(None))
    a = rng.standard_normal((17, 3)).astype(np.float32)
    counters.reset()
    (out,) = program.run([a], (17,))
    np.testing.assert_allclose(out, np.tanh(a) * a + 1, rtol=1e-5)
    assert (counters.native_calls, counters.foreign_segments) == (1, 0)


@pytest.mark.parametrize(
    "target", [aarch64_target(), x86_target("x86-64-v3"), x86_target()], ids=["aarch64", "x86-64-v3", "x86-64"]
)
def test_programs_can_be_emitted_for_other_machines(target):
    graph = _random_graph(random.Random(os.environ["WEFT_TEST_SEED"]))
    module = Module.for_target(target)
    layout = native_layout(lower_graph(graph, module, target), module)
    assert compile_object(module.text(), target)
    assert set(layout.entries) <= set(module.functions)


def test_constants_as_operands_and_results(rng):
    b = Builder("f")
    n = b.env.fresh("s", 4)
    x = Handle(b.param(tensor_type(dt.float32, (n, 3))), b)
    table = rng.standard_normal(3).astype(np.float32)
    c = Handle(b.constant(table), b)
    graph = b.graph([(x * c).value, c.value, c.value, aten.cumsum(c, 0).value])
    a = rng.standard_normal((5, 3)).astype(np.float32)
    for backend in ("llvm", "numpy"):
        program = compile_program(graph, backend=backend, cache=Cache(None))
        first = program.run([a], (5,))
        first[1][:] = 99  # what left the program is the caller's
        out = program.run([a], (5,))
        np.testing.assert_allclose(out[0], a * table, rtol=1e-6)
        np.testing.assert_array_equal(out[1], table)
        np.testing.assert_allclose(out[3], np.cumsum(table), rtol=1e-5, atol=1e-6)


def test_other_dtypes_are_given_to_numpy_and_back(rng):
    b = Builder("f")
    n = b.env.fresh("s", 4)
    x = Handle(b.param(tensor_type(dt.complex64, (n,))), b)
    y = Handle(b.param(tensor_type(dt.float16, (n,))), b)
    k = Handle(b.param(tensor_type(dt.int64, (n,))), b)
    program = compile_program(b.graph([(x * x).value, (y + y).value, (k * k + 1).value], [(2, 2)]), cache=Cache(None))
    u = (rng.standard_normal(7) + 1j * rng.standard_normal(7)).astype(np.complex64)
    v, w = rng.standard_normal(7).astype(np.float16), rng.integers(-9, 9, 7)
    expected = w * w + 1
    out = program.run([u, v, w], (7,))
    np.testing.assert_allclose(out[0], u * u, rtol=1e-5)
    np.testing.assert_array_equal(out[1], v + v)
    np.testing.assert_array_equal(w, expected)
    assert out[2] is w


def test_many_calls_do_not_grow():
    b = Builder("f")
    n = b.env.fresh("s", 4)
    x = Handle(b.param(tensor_type(dt.float32, (n, 3))), b)
    program = compile_program(b.graph([aten.sum(aten.exp(x) * x, (0,)).value]), cache=Cache(None))
    a = np.ones((300, 3), np.float32)
    program.run([a], (300,))
    tracemalloc.start()
    for size in range(1, 300):
        program.run([a[:size]], (size,))
    gc.collect()  # what earlier tests left in cycles goes at its own time
    before = tracemalloc.get_traced_memory()[0]
    for size in range(1, 300):
        program.run([a[:size]], (size,))
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 4096
