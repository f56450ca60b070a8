"""Native programs over toy kernels: one call, planned memory, state in place, host segments,
checks, the disk cache."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import numpy as np
import pytest
from toy_lowering import CHECKED, POSITIVE_ROWS, RESHAPE, ToyLowering

import weft.catalogue  # noqa: F401  # defines the operators
from weft.codegen.program.compile import compile_program
from weft.ir.builder import Builder, Handle
from weft.ops.packet import aten
from weft.runtime.cache import Cache
from weft.support.counters import counters
from weft.support.errors import IndexBoundsError
from weft.support.locations import Location
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.tensor_type import FLOAT, INT, tensor_type


@pytest.fixture
def builder() -> Builder:
    return Builder("test")


@pytest.fixture
def n(builder):
    return builder.env.fresh("s", 20)


def _param(b, *dims, dtype=dt.float32, name="x"):
    return Handle(b.param(tensor_type(dtype, tuple(dims)), name), b)


def _apply(op, *handles):
    b = next(h.builder for h in handles if isinstance(h, Handle))
    return b.call(op, handles)


def _graph(b, results, writes=()):
    return b.graph([r.value if isinstance(r, Handle) else r for r in results], writes)


def _native(b, results, writes=(), **options):
    lower = options.pop("lower", None) or ToyLowering()
    return compile_program(_graph(b, results, writes), lower=lower, **options)


def _random(*dims):
    return np.random.default_rng(random.getrandbits(32)).standard_normal(dims).astype(np.float32)


def test_a_chain_is_one_native_call_for_every_size(builder, n):
    x, y = _param(builder, n), _param(builder, n)
    program = _native(builder, [(x * y + x) * y + -x, n + 1])
    for size in (*random.sample(range(1, 3000), 4), 0):
        a, b = _random(size), _random(size)
        counters.reset()
        out, more = program.run([a, b], {"s0": size})
        np.testing.assert_array_equal(out, (a * b + a) * b + -a)
        assert more == size + 1
        assert (counters.native_calls, counters.kernels, counters.foreign_segments) == (1, 5, 0)


def test_arena_is_reused_within_and_between_calls(builder, n):
    x = _param(builder, n)
    y = x
    for _ in range(30):
        y = y * y + x
    program = _native(builder, [y], lower=ToyLowering(in_place=False))
    assert program.arena_bytes({"s0": 16}) <= 3 * 64
    assert program.arena_bytes({"s0": 1000}) <= 3 * 4032
    program.run([_random(500)], {"s0": 500})
    counters.reset()
    program.run([_random(400)], {"s0": 400})
    assert counters.allocations == 1  # the result


def test_in_place_kernels_need_no_second_buffer(builder, n):
    x = _param(builder, n)
    y = x * x
    for _ in range(10):
        y = -y
    program = _native(builder, [y])
    assert program.arena_bytes({"s0": 16}) == 0  # all of them lie in the result
    a = _random(33)
    np.testing.assert_array_equal(program.run([a], (33,))[0], a * a)


def test_buffers_of_other_sizes_share_slots_when_that_is_safe_for_all_sizes(builder):
    s, t = builder.env.fresh("s", 50), builder.env.fresh("s", 60)
    x, y = _param(builder, s), _param(builder, t)
    p = (x * x + x) * x
    q = (y * y + y) * y
    program = _native(builder, [p + p, q + q], lower=ToyLowering(in_place=False))
    for sizes in ((10, 10), (700, 1), (1, 700), (64, 65)):
        a, b = _random(sizes[0]), _random(sizes[1])
        first, second = program.run([a, b], sizes)
        np.testing.assert_array_equal(first, (a * a + a) * a * 2)
        np.testing.assert_array_equal(second, (b * b + b) * b * 2)


def test_state_is_updated_in_its_own_memory(builder):
    p, g = _param(builder, 7), _param(builder, 7)
    program = _native(builder, [p + g * g], ((0, 0),))
    a, b = _random(7), _random(7)
    before = a.copy()
    out = program.run([a, b])
    assert out[0] is a
    np.testing.assert_array_equal(a, before + b * b)
    assert program.arena_bytes(()) == 64  # the product alone: the sum goes straight to the parameter


def test_state_whose_old_value_is_needed_is_copied_last(builder):
    p, g = _param(builder, 7), _param(builder, 7)
    new = p + g
    program = _native(builder, [new, new * p, p], ((0, 0),))
    a, b = _random(7), _random(7)
    before = a.copy()
    out = program.run([a, b])
    np.testing.assert_array_equal(a, before + b)
    np.testing.assert_array_equal(out[1], (before + b) * before)
    np.testing.assert_array_equal(out[2], before)
    assert not np.shares_memory(out[2], a)


def test_parameters_can_be_swapped(builder):
    p, q, r = (_param(builder, 5) for _ in range(3))
    program = _native(builder, [q, r, p], ((0, 0), (1, 1), (2, 2)))
    arrays = [_random(5) for _ in range(3)]
    old = [a.copy() for a in arrays]
    out = program.run(arrays)
    for i in range(3):
        assert out[i] is arrays[i]
        np.testing.assert_array_equal(arrays[i], old[(i + 1) % 3])


def test_one_value_written_to_two_parameters(builder):
    p, q = _param(builder, 5), _param(builder, 5)
    new = p * q
    program = _native(builder, [new, new, new], ((0, 0), (1, 1)))
    a, b = _random(5), _random(5)
    expected = a * b
    out = program.run([a, b])
    np.testing.assert_array_equal(a, expected)
    np.testing.assert_array_equal(b, expected)
    assert out[2] is a


def test_results_that_are_views_get_their_own_memory(builder, n):
    x = _param(builder, n, 4)
    y = x * x
    flat = _apply(RESHAPE, y, (n * 4,))
    same = _apply(RESHAPE, x, (4, n))
    program = _native(builder, [flat, y, same, x])
    a = _random(6, 4)
    out = program.run([a], (6,))
    np.testing.assert_array_equal(out[0], (a * a).reshape(-1))
    np.testing.assert_array_equal(out[1], a * a)
    np.testing.assert_array_equal(out[2], a.reshape(4, 6))
    assert out[3] is a
    assert not any(np.shares_memory(p, q) for i, p in enumerate(out) for q in out[:i])


def test_foreign_segments_between_native_ones(builder, n):
    x = _param(builder, n, 4)
    y = x * x
    turned = aten.permute(y, (1, 0))
    z = aten.exp(_apply(RESHAPE, y + y, (4, n)) + 0.0 * turned) * 2.0
    program = _native(builder, [z, turned], lower=ToyLowering(host_calls=("aten::exp",)))
    for size in random.sample(range(1, 60), 3):
        a = _random(size, 4) * 0.1
        counters.reset()
        out, view = program.run([a], (size,))
        flat = (a * a + a * a).reshape(4, size)
        np.testing.assert_allclose(out, np.exp(flat + 0 * (a * a).T) * 2, rtol=1e-6)
        np.testing.assert_array_equal(view, (a * a).T)
        assert view.flags.c_contiguous and counters.foreign_segments >= 1 and counters.native_calls >= 2


def test_sizes_that_are_known_only_while_running(builder, n):
    x = _param(builder, n, 3)
    with builder.active():
        rows = _apply(POSITIVE_ROWS, x * x + x)
    y = rows * rows + rows
    count = y.dims[0]
    program = _native(builder, [y, count, x * x], lower=ToyLowering(scratch=40))
    for size in (*random.sample(range(1, 200), 3), 0):
        a = _random(size, 3)
        out, number, plain = program.run([a], (size,))
        b = a * a + a
        b = b[b[:, 0] > 0]
        np.testing.assert_array_equal(out, b * b + b)
        assert number == len(b)
        np.testing.assert_array_equal(plain, a * a)


def test_numbers_are_computed_by_the_program(builder, n):
    lr, beta = (Handle(builder.param(FLOAT, name), builder) for name in ("lr", "beta"))
    steps = Handle(builder.param(INT, "steps"), builder)
    x = _param(builder, n)
    rate = aten.mul(lr, aten.add(aten.neg(beta), 1))
    program = _native(builder, [x * rate, rate, aten.add(steps, n), aten.lt(lr, beta)])
    a = _random(9)
    for _ in range(3):
        u, v, k = random.random(), random.random(), random.randrange(10**9)
        counters.reset()
        out, number, total, less = program.run([u, v, k, a], (9,))
        assert (number, total, less) == (u * (-v + 1), k + 9, u < v)
        np.testing.assert_array_equal(out, a * np.float32(number))
        assert (counters.native_calls, counters.foreign_segments) == (1, 0)


def test_a_failed_check_names_operator_and_line_and_leaves_state_alone(builder, n):
    p, x = _param(builder, 6), _param(builder, n)
    builder.where = Location("model.py", 42)
    checked = _apply(CHECKED, x, x)
    builder.where = None
    program = _native(builder, [p + p, checked * x], ((0, 0),), lower=ToyLowering(cost=1 << 24))
    state, a = _random(6), np.abs(_random(5000)) + 1
    before = state.copy()
    a[random.randrange(5000)] = -1
    with pytest.raises(IndexBoundsError, match=r"test::checked.*model\.py:42"):
        program.run([state, a], (5000,))
    np.testing.assert_array_equal(state, before)
    program.run([state, np.abs(a)], (5000,))
    np.testing.assert_array_equal(state, before * 2)


def test_large_kernels_are_cut_by_their_sizes(builder, n):
    x = _param(builder, n)
    program = _native(builder, [x * x + x], lower=ToyLowering(cost=n * 64, scratch=24))
    for size in (1, 3, 5000, 100_003):
        a = _random(size)
        np.testing.assert_array_equal(program.run([a], (size,))[0], a * a + a)
    assert program.layout.parallel


def test_concurrent_and_reentrant_calls_have_their_own_frames(builder, n):
    x = _param(builder, n)
    program = _native(builder, [aten.exp(x * x + x) * x], lower=ToyLowering(host_calls=("aten::exp",)))
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(40):
            a = rng.standard_normal(int(rng.integers(1, 3000))).astype(np.float32)
            if not np.array_equal(program.run([a], (len(a),))[0], np.exp(a * a + a) * a):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_passing_inputs_and_results_are_not_kept(builder, n):
    x = _param(builder, n)
    program = _native(builder, [x * x])
    for size in (5, 6, 7):
        a = _random(size)
        out = program.run([a], (size,))
    watched = weakref.ref(a), weakref.ref(out[0])
    del a, out
    gc.collect()
    assert watched[0]() is None and watched[1]() is None


def test_arrays_of_host_calls_are_let_go_after_their_last_use(builder, n):
    x = _param(builder, n)
    first = aten.exp(x)
    second = aten.exp(first * first)
    third = aten.exp(second * second)
    program = _native(builder, [third * third], lower=ToyLowering(host_calls=("aten::exp",)))
    host_calls = [s for s in program.layout.segments if hasattr(s, "drops")]
    roots = [s.outputs[0].root for s in host_calls]
    assert [set(s.drops) & set(roots) for s in host_calls] == [set(), {roots[0]}, {roots[1]}]
    a = _random(6) * 0.1
    expected = a
    for _ in range(3):
        expected = np.exp(expected) ** 2
    np.testing.assert_allclose(program.run([a], (6,))[0], expected, rtol=1e-5)


def test_inputs_may_move_and_be_replaced(builder):
    x, y = _param(builder, 4), _param(builder, 4)
    program = _native(builder, [x * y])
    pool = [_random(4) for _ in range(3)]
    for _ in range(20):
        a, b = random.choice(pool), random.choice(pool)
        np.testing.assert_array_equal(program.run([a, b])[0], a * b)


def test_a_warm_start_lowers_and_compiles_nothing(builder, n, tmp_path):
    p, x = _param(builder, 4), _param(builder, n)
    lr = Handle(builder.param(FLOAT, "lr"), builder)
    results = [p + p, x * lr, n, 2.5, None, dt.float64, aten.exp(x)]
    graph = _graph(builder, results, ((0, 0),))
    a, b, rate = _random(4), _random(11), random.random()
    # what all programs share is compiled by the first of them
    compile_program(graph, lower=ToyLowering(), cache=Cache(None))
    outs = []
    for expected in (1, 0):
        lower, cache = ToyLowering(), Cache(tmp_path)
        counters.reset()
        program = compile_program(graph, lower=lower, cache=cache, cache_key="some text")
        assert (counters.llvm_compiles, lower.calls) == (expected, expected)
        outs.append(program.run([a.copy(), b, rate], (11,)))
    assert outs[0][2:6] == outs[1][2:6] == [11, 2.5, None, dt.float64]
    for first, second in zip(*outs, strict=True):
        np.testing.assert_array_equal(first, second)
    lower = ToyLowering()
    compile_program(graph, lower=lower, cache=Cache(tmp_path), cache_key="other text")
    assert lower.calls == 1


def test_a_graph_is_not_asked_for_when_the_cache_has_everything(builder, n, tmp_path):
    x = _param(builder, n)
    graph = _graph(builder, [x * x])
    compile_program(graph, lower=ToyLowering(), cache=Cache(tmp_path), cache_key="text")

    def never():
        raise AssertionError("the graph was asked for")

    program = compile_program(never, cache=Cache(tmp_path), cache_key="text")
    a = _random(5)
    np.testing.assert_array_equal(program.run([a], (5,))[0], a * a)


def test_a_damaged_cache_entry_is_compiled_anew(builder, n, tmp_path):
    x = _param(builder, n)
    graph = _graph(builder, [x * x])
    compile_program(graph, lower=ToyLowering(), cache=Cache(tmp_path), cache_key="text")
    (entry,) = tmp_path.glob("*.o")
    cache = Cache(tmp_path)
    cache.put(entry.stem, b"\x05\0\0\0\0\0\0\0[2,{}]rubbish")
    lower = ToyLowering()
    program = compile_program(graph, lower=lower, cache=cache, cache_key="text")
    assert lower.calls == 1
    a = _random(5)
    np.testing.assert_array_equal(program.run([a], (5,))[0], a * a)


def test_description_counts(builder, n):
    x = _param(builder, n)
    program = _native(builder, [aten.exp(x * x) * x], lower=ToyLowering(host_calls=("aten::exp",)))
    seen = program.describe((100,))
    assert (seen.segments, seen.native_segments, seen.foreign_segments, seen.kernels) == (3, 2, 1, 2)
    assert seen.arena_bytes == 448 and len(seen.steps) == 3
    assert dm.evaluate(n, {"s0": 3}) == 3
