"""Programs without native code: results, writes, symbols, sharing."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

import weft.catalogue  # noqa: F401  # defines the operators
from weft.codegen.program.compile import compile_program
from weft.ir.builder import Builder, Handle
from weft.ops.packet import aten
from weft.support.counters import counters
from weft.support.errors import ValueProblem
from weft.types import dtype as dt
from weft.types.tensor_type import FLOAT, tensor_type


@pytest.fixture
def builder() -> Builder:
    return Builder("test")


def _param(b: Builder, *dims: object, dtype: dt.DType = dt.float32, name: str = "x") -> Handle:
    return Handle(b.param(tensor_type(dtype, tuple(dims)), name), b)


def _run(b: Builder, results: list, inputs: list, symbols: object = (), writes: tuple = ()) -> list:
    graph = b.graph([r.value if isinstance(r, Handle) else r for r in results], writes)
    return compile_program(graph, backend="numpy").run(inputs, symbols)


def test_values_of_a_chain_for_several_sizes(builder):
    n = builder.env.fresh("s", 3)
    x, y = _param(builder, n, 4), _param(builder, n, 4)
    graph = builder.graph([(x * y + x).value, n * 2])
    program = compile_program(graph, backend="numpy")
    for size in random.sample(range(1, 40), 3):
        a, b = (np.random.default_rng(size).standard_normal((size, 4), np.float32) for _ in range(2))
        out, twice = program.run([a, b], {"s0": size})
        np.testing.assert_array_equal(out, a * b + a)
        assert twice == 2 * size


def test_immediates_and_parameters_come_back_as_they_are(builder):
    x = _param(builder, 2)
    a = np.ones(2, np.float32)
    out = _run(builder, [x, 7, 2.5, None, dt.float32], [a])
    assert out[0] is a
    assert out[1:] == [7, 2.5, None, dt.float32]


def test_state_is_written_in_place_and_old_values_survive(builder):
    p, q = _param(builder, 3), _param(builder, 3)
    a, b = np.arange(3, dtype=np.float32), np.full(3, 5, np.float32)
    old_a, old_b = a.copy(), b.copy()
    # swap p and q, and hand out the old p
    out = _run(builder, [q, p, p], [a, b], writes=((0, 0), (1, 1)))
    assert out[0] is a and out[1] is b
    np.testing.assert_array_equal(a, old_b)
    np.testing.assert_array_equal(b, old_a)
    np.testing.assert_array_equal(out[2], old_a)
    assert not np.shares_memory(out[2], a)


def test_results_that_are_views_of_inputs_are_copied(rng, builder):
    x = _param(builder, 3, 4)
    a = rng.standard_normal((3, 4)).astype(np.float32)
    (out,) = _run(builder, [aten.permute(x, (1, 0))], [a])
    assert out.flags.c_contiguous and not np.shares_memory(out, a)
    np.testing.assert_array_equal(out, a.T)


def test_equal_results_are_one_array(builder):
    x = _param(builder, 3)
    y = x + x
    out = _run(builder, [y, y], [np.ones(3, np.float32)])
    assert out[0] is out[1]


def test_failure_leaves_state_alone(builder):
    p, x = _param(builder, 3), _param(builder, 3)
    graph = builder.graph([(p + x).value, (x * x).value], ((0, 0),))
    program = compile_program(graph, backend="numpy")
    a = np.arange(3, dtype=np.float32)
    with pytest.raises(RuntimeError):
        program.run([a, np.ones(4, np.float32)])
    np.testing.assert_array_equal(a, [0, 1, 2])
    out = program.run([a, np.ones(3, np.float32)])
    np.testing.assert_array_equal(a, [1, 2, 3])
    assert out[0] is a


def test_number_arithmetic_is_python_arithmetic(builder):
    lr, beta = (Handle(builder.param(FLOAT, n), builder) for n in ("lr", "beta"))
    x = _param(builder, 3)
    step = aten.mul(lr, aten.add(aten.neg(beta), 1))
    program = compile_program(builder.graph([step.value, (x * step).value]), backend="numpy")
    for _ in range(3):
        u, v = random.random(), random.random()
        number, out = program.run([u, v, np.ones(3, np.float32)])
        assert number == u * (-v + 1) and isinstance(number, float)
        np.testing.assert_array_equal(out, np.ones(3, np.float32) * np.float32(number))


def test_inputs_are_checked(builder):
    x = _param(builder, 3, 3)
    program = compile_program(builder.graph([(x + x).value]), backend="numpy")
    with pytest.raises(ValueProblem, match="contiguous"):
        program.run([np.ones((3, 3), np.float32).T[::-1]])
    with pytest.raises(ValueProblem, match="takes 1 inputs, got 2"):
        program.run([np.ones((3, 3), np.float32)] * 2)


def test_threads_do_not_meet(builder):
    n = builder.env.fresh("s", 3)
    x = _param(builder, n)
    program = compile_program(builder.graph([(x * x + x).value]), backend="numpy")
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(30):
            a = rng.standard_normal(int(rng.integers(1, 50))).astype(np.float32)
            if not np.array_equal(program.run([a], {"s0": len(a)})[0], a * a + a):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_counters_tell_python_from_native(builder):
    x = _param(builder, 3)
    program = compile_program(builder.graph([(x * x + x).value]), backend="numpy")
    counters.reset()
    program.run([np.ones(3, np.float32)])
    assert (counters.native_calls, counters.kernels, counters.foreign_segments) == (0, 0, 1)
    assert program.describe().backend == "numpy"
