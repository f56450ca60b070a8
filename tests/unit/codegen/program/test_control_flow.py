"""prim::If and prim::Loop in programs: results as NumPy computes them, for conditions and sizes drawn afterwards."""

from __future__ import annotations

import random

import numpy as np
import pytest

import weft.catalogue  # noqa: F401  # defines the operators
from weft.codegen.program.compile import compile_program
from weft.ir.builder import Builder, Handle
from weft.ir.structure import IF, LOOP
from weft.ops.packet import aten
from weft.runtime.cache import Cache
from weft.types import dtype as dt
from weft.types.tensor_type import BOOL, FLOAT, INT, tensor_type

BACKENDS = ("llvm", "numpy")


def _handle(value, builder):
    return Handle(value, builder)


def _values(handles):
    return tuple(h.value if isinstance(h, Handle) else h for h in handles)


def _if(b, condition, then, otherwise):
    """A handle for each result; the arms are functions of the inner builder's world."""
    blocks = []
    for arm in (then, otherwise):
        with b.inner() as inner:
            blocks.append(inner.block(_values(arm(inner))))
    types = tuple(r.type for r in blocks[0].results)
    node = b.emit_raw(IF, _values((condition,)), types, tuple(blocks))
    return [Handle(v, b) for v in node.outputs]


def _loop(b, trip, carried, xs, body, stacked=(), reverse=False, going=True):
    """body(inner, index, carried, slices) -> (condition, next carried, ys)."""
    with b.inner() as inner:
        index = Handle(inner.param(INT, "i"), inner)
        state = [Handle(inner.param(c.value.type), inner) for c in carried]
        slices = [Handle(inner.param(tensor_type(x.dtype, x.dims[1:])), inner) for x in xs]
        condition, following, ys = body(inner, index, state, slices)
        block = inner.block(_values((condition, *following, *ys)))
    types = (*(c.value.type for c in carried), *stacked)
    node = b.emit_raw(LOOP, (*_values((trip, going)), _values(carried), _values(xs), reverse), types, (block,))
    return [Handle(v, b) for v in node.outputs]


def _inside(handle, builder):
    """An outer value as the inner builder's rules see it."""
    return Handle(handle.value, builder)


@pytest.fixture
def builder():
    return Builder("test")


def _tensor(b, *dims):
    return Handle(b.param(tensor_type(dt.float32, dims)), b)


def _random(*dims):
    return np.random.default_rng(random.getrandbits(32)).standard_normal(dims).astype(np.float32)


def _compile(b, results, writes=(), backend="llvm"):
    program = compile_program(b.graph(_values(results), writes), backend=backend, cache=Cache(None))
    if backend == "llvm":
        seen = program.describe()
        assert (seen.native_segments, seen.foreign_segments) == (1, 0), "control flow must be native"
    return program


@pytest.mark.parametrize("backend", BACKENDS)
def test_if(builder, backend):
    n = builder.env.fresh("s", 9)
    flag = Handle(builder.param(BOOL), builder)
    x, y = _tensor(builder, n), _tensor(builder, n)
    z = aten.tanh(x * y)  # used only inside
    p, q = _if(builder, flag, lambda b: (_inside(z, b) + _inside(x, b), _inside(x, b)),
               lambda b: (_inside(z, b) * _inside(y, b), _inside(y, b) * 2.0))
    program = _compile(builder, [p * q, p, q], backend=backend)
    for size in random.sample(range(1, 50), 3):
        for condition in (True, False, True):
            a, b = _random(size), _random(size)
            t = np.tanh(a * b)
            first, second = (t + a, a) if condition else (t * b, b * 2)
            out = program.run([condition, a, b], (size,))
            for got, expected in zip(out, (first * second, first, second), strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
            assert not any(np.shares_memory(o, i) for o in out for i in (a, b))


@pytest.mark.parametrize("backend", BACKENDS)
def test_if_on_a_computed_tensor(builder, backend):
    x = _tensor(builder, 4)
    total = aten.sum(x, None)
    (p,) = _if(builder, aten.gt(total, 0.0), lambda b: (_inside(x, b) + 1.0,), lambda b: (-_inside(x, b),))
    program = _compile(builder, [p], backend=backend)
    for _ in range(6):
        a = _random(4)
        (out,) = program.run([a])
        np.testing.assert_allclose(out, a + 1 if a.sum() > 0 else -a, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence_with_slices_and_stacked_results(builder, backend, reverse):
    steps, n = builder.env.fresh("s", 5), builder.env.fresh("s", 3)
    xs, h, w = _tensor(builder, steps, n), _tensor(builder, n), _tensor(builder, n)
    scaled = w * 0.5

    def body(b, index, carried, slices):
        new = aten.tanh(carried[0] * _inside(scaled, b) + slices[0])
        return True, [new], [new * 2.0]

    last, ys = _loop(builder, steps, [h], [xs], body, [tensor_type(dt.float32, (steps, n))], reverse)
    program = _compile(builder, [last, ys + 1.0], backend=backend)
    for _ in range(3):
        count, size = random.randint(0, 12), random.randint(1, 20)
        x, state, weight = _random(count, size), _random(size), _random(size)
        before, rows = state.copy(), np.zeros((count, size), np.float32)
        expected = state.copy()
        for t in range(count)[:: -1 if reverse else 1]:
            expected = np.tanh(expected * weight * np.float32(0.5) + x[t])
            rows[t] = expected * 2
        out = program.run([x, state, weight], (count, size))
        np.testing.assert_allclose(out[0], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(out[1], rows + 1, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(state, before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_carried_values_that_swap(builder, backend):
    trip = Handle(builder.param(INT), builder)
    p, q = _tensor(builder, 3), _tensor(builder, 3)
    a, b = _loop(builder, trip, [p, q], [], lambda b, i, c, s: (True, [c[1], c[0] + c[1]], []))
    program = _compile(builder, [a, b], backend=backend)
    for count in (0, 1, 2, 7):
        x, y = _random(3), _random(3)
        u, v = x, y
        for _ in range(count):
            u, v = v, u + v
        out = program.run([count, x, y])
        np.testing.assert_allclose(out[0], u, rtol=1e-6)
        np.testing.assert_allclose(out[1], v, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_loop_that_stops_by_its_condition_and_carries_numbers(builder, backend):
    x = _tensor(builder, 4)
    rate = Handle(builder.param(FLOAT), builder)

    def body(b, index, carried, slices):
        value, number = carried
        new = value * number
        return aten.lt(aten.sum(new, None), 100.0), [new, aten.add(number, 0.25)], []

    last, number = _loop(builder, 50, [x, rate], [], body)
    program = _compile(builder, [last, number], backend=backend)
    for _ in range(3):
        a, r = np.abs(_random(4)) + 0.1, 1.0 + random.random()
        expected, k = a, r
        for _ in range(50):
            expected, k = expected * np.float32(k), k + 0.25
            if not expected.sum() < 100:
                break
        out = program.run([a, r])
        np.testing.assert_allclose(out[0], expected, rtol=1e-5)
        assert out[1] == pytest.approx(k)


def test_state_written_from_a_loop(builder):
    p, g = _tensor(builder, 6), _tensor(builder, 6)
    (new,) = _loop(builder, 4, [p], [], lambda b, i, c, s: (True, [c[0] + _inside(g, b)], []))
    program = _compile(builder, [new], ((0, 0),))
    a, step = _random(6), _random(6)
    expected = a.copy()
    for _ in range(4):
        expected = expected + step
    out = program.run([a, step])
    assert out[0] is a
    np.testing.assert_array_equal(a, expected)


def test_nested_control_flow(builder):
    n = builder.env.fresh("s", 6)
    p, g = _tensor(builder, n), _tensor(builder, n)

    def body(b, index, carried, slices):
        positive = aten.gt(aten.sum(carried[0], None), 0.0)
        (stepped,) = _if(
            b, positive, lambda c: (_inside(carried[0], c) - 1.0,), lambda c: (_inside(carried[0], c) + _inside(g, c),)
        )
        (turned,) = _loop(b, index, [stepped], [], lambda c, i, s, x: (True, [s[0] * 0.5 + _inside(g, c)], []))
        return True, [turned], []

    (new,) = _loop(builder, 5, [p], [], body)
    program = _compile(builder, [new])
    for _ in range(3):
        size = random.randint(1, 40)
        a, step = _random(size), _random(size)
        x = a.copy()
        for i in range(5):
            x = x - 1 if x.sum() > 0 else x + step
            for _ in range(i):
                x = x * np.float32(0.5) + step
        np.testing.assert_allclose(program.run([a, step], (size,))[0], x, rtol=1e-3, atol=1e-4)


def test_a_view_from_outside_sends_the_loop_to_python(builder):
    x, h = _tensor(builder, 3, 4), _tensor(builder, 4, 3)
    turned = aten.permute(x, (1, 0))
    (last,) = _loop(builder, 3, [h], [], lambda b, i, c, s: (True, [c[0] + _inside(turned, b)], []))
    program = compile_program(builder.graph(_values([last])), cache=Cache(None))
    a, b = _random(3, 4), _random(4, 3)
    expected = b.copy()
    for _ in range(3):
        expected = expected + a.T
    np.testing.assert_array_equal(program.run([a, b])[0], expected)


def test_values_of_one_iteration_do_not_survive_in_anothers_memory(builder):
    """Many temporaries in a body with a value from outside that is read last:
    its memory must not be taken meanwhile."""
    n = builder.env.fresh("s", 8)
    x = _tensor(builder, n)
    outer = aten.exp(x * 0.1)

    def body(b, index, carried, slices):
        y = carried[0]
        for _ in range(4):
            y = aten.tanh(y + 1.0)
            y = y * aten.sum(y, None)
        return True, [y * _inside(outer, b)], []

    (last,) = _loop(builder, 6, [x], [], body)
    program = _compile(builder, [last, outer])
    for _ in range(3):
        a = _random(random.randint(1, 30))
        o = np.exp(a * np.float32(0.1))
        y = a.copy()
        for _ in range(6):
            for _ in range(4):
                y = np.tanh(y + 1)
                y = y * y.sum()
            y = y * o
        got = program.run([a], (len(a),))
        np.testing.assert_allclose(got[0], y, rtol=1e-2, atol=1e-3)
        np.testing.assert_allclose(got[1], o, rtol=1e-5)
