"""Lowered graphs against NumPy: programs drawn at test time over dtypes, sizes (0, 1, odd), broadcasting,
views, reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from run_lowered import Array, Failed, Runner, check, graph_of

from weft.codegen.target import host_target, x86_target
from weft.ops.packet import aten
from weft.types import dtype as dt

SIZES = (0, 1, 2, 3, 7, 16, 17, 31, 64, 65, 100, 129)
DTYPES = [dt.float32, dt.float64, dt.int64, dt.int32, dt.uint8, dt.int8, dt.bool_, dt.float16, dt.bfloat16]


def draw(rng: np.random.Generator, dims: tuple[int, ...], dtype: dt.DType = dt.float32) -> Array:
    """Numbers of this dtype, small enough that nothing overflows."""
    if dtype.is_floating_point:
        return rng.standard_normal(dims).astype(dtype.numpy)
    if dtype is dt.bool_:
        return rng.integers(0, 2, dims).astype(bool)
    return rng.integers(0 if not dtype.is_signed else -5, 6, dims).astype(dtype.numpy)


def sizes(rng: np.random.Generator, count: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.choice(SIZES, count))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pointwise_of_every_dtype(rng: np.random.Generator, dtype: dt.DType) -> None:
    dims = sizes(rng, 2)
    x, y = draw(rng, dims, dtype), draw(rng, dims[1:], dtype)
    check(lambda x, y: (x * y + x, aten.lt(x, y), aten.where(x < y, x, y)), x, y)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [(0,), (1,), (0, 1), None])
def test_sum_of_every_dtype(rng: np.random.Generator, dtype: dt.DType, dim: tuple[int, ...] | None) -> None:
    x = draw(rng, sizes(rng, 2), dtype)
    check(lambda x: (x.sum(dim), x * x), x, tolerance=1e-4)
    check(lambda x: x.sum(dim, keepdim=True), x, tolerance=1e-4)


@pytest.mark.parametrize("name", ["amax", "amin", "prod", "any", "all", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int64, dt.uint8, dt.bool_, dt.float16], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions(rng: np.random.Generator, name: str, dtype: dt.DType, dim: int) -> None:
    dims = tuple(max(1, n) for n in sizes(rng, 2))
    x = draw(rng, dims, dtype)
    if name == "prod" and dtype.is_floating_point:
        x = (np.sign(x.astype(np.float32)) * (1 + x.astype(np.float32) / 100)).astype(x.dtype)
    if name in ("argmax", "argmin") and dtype in (dt.bool_,):
        return
    check(lambda x: getattr(aten, name)(x, (dim,) if name in ("amax", "amin") else dim), x, tolerance=1e-3)


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin"])
def test_nan_wins(rng: np.random.Generator, name: str) -> None:
    x = draw(rng, (5, 67))
    x[1, 3] = x[1, 40] = x[2, 66] = x[3, 0] = np.nan
    x[4] = -np.inf if name.endswith("max") else np.inf
    for dim in (0, 1):
        check(lambda x, dim=dim: getattr(aten, name)(x, (dim,) if name.startswith("am") else dim), x)


def test_first_of_equals(rng: np.random.Generator) -> None:
    x = rng.integers(0, 3, (7, 200)).astype(np.float32)
    check(lambda x: (aten.argmax(x, 1), aten.argmin(x, 0), aten.argmax(x)), x)


def test_softmax_and_layer_norm_are_one_kernel(rng: np.random.Generator) -> None:
    rows, columns = sizes(rng, 2)
    x, w = draw(rng, (rows, max(columns, 1))), draw(rng, (max(columns, 1),))

    def softmax(x: Any) -> Any:
        e = (x - aten.amax(x, (1,), True)).exp()
        return e / e.sum(1, keepdim=True)

    def layer_norm(x: Any, w: Any) -> Any:
        centred = x - x.sum(1, keepdim=True) / columns
        return centred * aten.rsqrt((centred * centred).sum(1, keepdim=True) / 9 + 1e-3) * w

    assert len(check(softmax, x).kernels) == 1
    if columns:
        assert len(check(layer_norm, x, w).kernels) == 1


def test_row_column_and_total_sums_share_a_pass(rng: np.random.Generator) -> None:
    x, w = draw(rng, (200, 130)), draw(rng, (130,))
    runner = check(lambda x, w: (x * w, (x * w).sum(0), (x * w).sum(1), (x * w).sum()), x, w, tolerance=1e-3)
    assert sum(k.buffers[0] in runner.lowered.params for k in runner.kernels) == 1


VIEWS: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "transpose": ((5, 37), lambda x: aten.t(x)),
    "permute": ((3, 5, 17), lambda x: aten.permute(x, (2, 0, 1))),
    "select": ((4, 33), lambda x: x.select(1, -2)),
    "slice": ((4, 33), lambda x: aten.slice(x, 1, 3, 30, 2)),
    "expand": ((1, 33), lambda x: aten.expand(x, (6, 33))),
    "flatten a transpose": ((6, 7), lambda x: aten.reshape(aten.t(x), (-1,))),
    "diagonal": ((9, 7), lambda x: aten.diagonal(x)),
    "unsqueeze": ((5, 7), lambda x: x.unsqueeze(1)),
    "split": ((6, 8), lambda x: aten.split(x, 3, 1)[1]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(rng: np.random.Generator, name: str) -> None:
    dims, view = VIEWS[name]
    x = draw(rng, dims)
    check(lambda x: view(x) * 2, x)
    check(lambda x: view(x * 3) + 1, x)
    check(lambda x: view(x), x)
    check(lambda x: (view(x.exp()), x.exp()), x)
    check(lambda x: view(x * 2).sum(), x, symbolic=False)


def test_leaves(rng: np.random.Generator) -> None:
    x = draw(rng, (3, 7))
    check(
        lambda x: (aten._iota(7) * x, x + aten.ones((7,)), aten.full((3, 1), 2.5) * x, aten.zeros((4,)), aten._iota(9)),
        x,
    )
    check(lambda x: aten.t(aten.expand(aten._iota(3), (7, 3))) * x, x)


def test_numbers_are_run_time_inputs(rng: np.random.Generator) -> None:
    x = draw(rng, (40,))
    runner = check(lambda x, lr: (x * lr + (lr * 2 - 1), lr * 3), x, 0.25)
    assert any(k.numbers for k in runner.kernels)


def test_equal_nests_share_a_function(rng: np.random.Generator) -> None:
    inputs = [draw(rng, (n, 5)) for n in (3, 8, 30)]
    runner = check(lambda *xs: tuple(x * 2 + aten.exp(x) for x in xs), *inputs)
    assert len(runner.kernels) == 3 and len({k.function for k in runner.kernels}) == 1


def test_a_chain_stays_one_kernel_and_its_view_readers_follow(rng: np.random.Generator) -> None:
    x = draw(rng, (30, 20))
    runner = check(lambda x: aten.t((x * 2).exp() + 1).sum(0), x, tolerance=1e-4)
    assert len(runner.kernels) == 2


def _random_program(rng: np.random.Generator) -> Callable[..., Any]:
    steps = [
        (int(rng.integers(0, 9)), int(rng.integers(0, 100)), int(rng.integers(0, 100)))
        for _ in range(int(rng.integers(3, 14)))
    ]

    def program(*xs: Any) -> Any:
        values = list(xs)
        made = []
        for kind, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            if kind < 3:
                out = (a * b, a + b, aten.maximum(a, b))[kind]
            elif kind == 3:
                out = aten.sin(a)
            elif kind == 4:
                out = a * 0.5 - a.sum(j % 2, keepdim=True) * 0.01 if a.ndim == 2 else a.sum()
            elif kind == 5:
                out = a.sum(j % 2) * 0.1 if a.ndim == 2 else a - 1
            elif kind == 6:
                out = aten.amax(a, (1,), True) if a.ndim == 2 else a * a
            elif kind == 7:
                out = aten.sum(a) * 0.01
            else:
                out = (
                    aten.t(a) if a.ndim == 2 and a.dims[0] == a.dims[1] else a.unsqueeze(0) * 0.5 if a.ndim == 1
                    else a + 1
                )
            values.append(out)
            made.append(out)
        return tuple(made)

    return program


@pytest.mark.parametrize("turn", range(25))
def test_random_programs(rng: np.random.Generator, turn: int) -> None:
    n = int(rng.choice([1, 2, 5, 16, 33, 70]))
    x, y, z = draw(rng, (n, n)), draw(rng, (n,)), draw(rng, (n, 1))
    check(_random_program(rng), x, y, z, symbolic=bool(turn % 2), tolerance=2e-3)


def test_narrow_targets(rng: np.random.Generator) -> None:
    x, w = draw(rng, (9, 45)), draw(rng, (45,))
    level = "x86-64-v3" if host_target().is_x86 else None
    target = x86_target(level) if level else host_target()
    check(
        lambda x, w: ((x * w).exp(), (x * w).sum(1), x.sum(0), aten.argmax(x, 1)), x, w, tolerance=1e-4, target=target
    )


def test_constant_sizes_are_not_part_of_a_function(rng: np.random.Generator) -> None:
    a, b = draw(rng, (64, 64)), draw(rng, (128, 192))
    runner = check(lambda a, b: (a.sum(1), b.sum(1)), a, b, symbolic=False, tolerance=1e-4)
    assert len({k.function for k in runner.kernels}) == 1


def test_lowering_records_no_guard(rng: np.random.Generator) -> None:
    graph, _ = graph_of(lambda x: (aten.t(x) * 2 + x).sum(0), draw(rng, (6, 6)))
    before = dict(graph.env.guards)
    from weft.codegen.emit import Module
    from weft.codegen.lower.graph import lower_graph

    lower_graph(graph, Module.for_target(host_target()), host_target())
    assert graph.env.guards == before


# ---- nodes that are kernels of their own
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
def test_products(rng: np.random.Generator, dtype: dt.DType) -> None:
    m, n, k, b = (int(v) for v in rng.choice(SIZES, 4))
    x, y = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
    runner = check(
        lambda x, y: (aten.mm(x, y), aten.mm(aten.t(y), aten.t(x)), aten.mm(aten.t(x), x)), x, y, tolerance=1e-3
    )
    assert not runner.host_calls
    x, y = draw(rng, (b % 9, m, k), dtype), draw(rng, (b % 9, n, k), dtype)
    runner = check(lambda x, y: aten.bmm(x, aten.transpose(y, 1, 2)), x, y, tolerance=1e-3)
    assert not runner.host_calls


def test_a_batch_of_one_is_cut_by_rows(rng: np.random.Generator) -> None:
    x, y = draw(rng, (1, 300, 40)), draw(rng, (1, 40, 50))
    runner = check(
        lambda x, y: (aten.bmm(x, y), aten.mm(aten.select(x, 0, 0), aten.select(y, 0, 0))), x, y, tolerance=1e-3,
        symbolic=False,
    )
    batched, single = runner.kernels
    assert batched.extent == single.extent > 1 and batched.function == single.function


def test_linear_layer_and_its_gradients(rng: np.random.Generator) -> None:
    x, w, b, g = draw(rng, (33, 20)), draw(rng, (17, 20)), draw(rng, (17,)), draw(rng, (33, 17))

    def layer(x: Any, w: Any, b: Any, g: Any) -> Any:
        h = aten.relu(aten.mm(x, aten.t(w)) + b)
        back = aten.where(h > 0, g, 0.0)
        return h, back.sum(0), aten.mm(aten.t(back), x), aten.mm(back, w)

    runner = check(layer, x, w, b, g, tolerance=1e-3)
    assert not runner.host_calls


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_cat(rng: np.random.Generator, dim: int, count: int) -> None:
    other = int(rng.integers(1, 40))
    parts = [draw(rng, tuple(n if d == dim else other for d in (0, 1))) for n in rng.integers(0, 30, count).tolist()]
    runner = check(lambda *xs: (aten.cat(xs, dim), aten.stack([xs[0] * 2, xs[0], xs[0]], dim)), *parts)
    assert not runner.host_calls


def test_scatters_and_copies(rng: np.random.Generator) -> None:
    x, row, column, block = draw(rng, (6, 9)), draw(rng, (9,)), draw(rng, (6,)), draw(rng, (3, 9))
    runner = check(lambda x, r, c, b: (
        aten.select_scatter(x, r, 0, 2), aten.select_scatter(x * 2, c, 1, -1), aten.slice_scatter(x, b, 0, 1, 6, 2),
        aten.select_copy(x, 1, 3), aten.diagonal_scatter(x + 1, c, 0),
        aten.slice_scatter(aten.zeros((6, 9)), b, 0, 3, 6)), x, row, column, block)
    assert not runner.host_calls


def test_pad(rng: np.random.Generator) -> None:
    x = draw(rng, (5, 7))
    runner = check(lambda x: (aten.constant_pad_nd(x, [1, 2, 0, 3], 1.5), aten.constant_pad_nd(x, [-1, 2], 0)), x)
    assert not runner.host_calls


def test_picking(rng: np.random.Generator) -> None:
    table, x = draw(rng, (11, 37)), draw(rng, (6, 5, 20))
    rows, ids = rng.integers(0, 11, (4, 3)), rng.integers(0, 5, 9)
    runner = check(lambda t, r: (aten.embedding(t, r), aten.embedding(aten.t(aten.t(t) * 2), r)), table, rows)
    assert not runner.host_calls
    runner = check(
        lambda x, i: (aten.index_select(x, 1, i), aten.index_select(x, 2, i), aten.index_select(x, -3, i)), x, ids
    )
    assert not runner.host_calls
    for dim in (0, 1, 2):
        index = rng.integers(0, x.shape[dim], tuple(int(rng.integers(1, n + 1)) for n in x.shape))
        index32 = index.astype(np.int32)
        runner = check(
            lambda x, i, j, dim=dim: (aten.gather(x, dim, i), aten.gather(aten.permute(x, (0, 1, 2)), dim, j)), x,
            index, index32, symbolic=False,
        )
        assert not runner.host_calls
    wrapped, other = rng.integers(-5, 5, (4, 1)), rng.integers(-6, 5, 3)
    runner = check(
        lambda x, i, j: (aten.index(x, [None, i]), aten.index(x, [j, i]), aten.index(x, [i])), x, wrapped, other,
        symbolic=False,
    )
    assert not runner.host_calls


@pytest.mark.parametrize("wrong", [-1, 11, 1 << 40])
def test_bounds_are_checked(rng: np.random.Generator, wrong: int) -> None:
    table, rows = draw(rng, (11, 37)), rng.integers(0, 11, 20)
    for program in (
        lambda t, r: aten.embedding(t, r) * 2, lambda t, r: aten.gather(t, 0, aten.unsqueeze(r, 1)),
        lambda t, r: aten.index_select(t, 1, r),
    ):
        graph, sizes = graph_of(program, table, rows)
        runner = Runner(graph)
        runner([table, rows], sizes)
        bad = rows.copy()
        bad[int(rng.integers(0, 20))] = 37 if wrong == 11 else wrong
        with pytest.raises(Failed):
            runner([table, bad], sizes)


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
def test_rows_are_added_by_index(rng: np.random.Generator, dtype: dt.DType) -> None:
    width = int(rng.choice([1, 7, 16, 64, 100, 200]))
    base, rows, grad = draw(rng, (11, width), dtype), rng.integers(0, 11, (5, 6)), draw(rng, (5, 6, width), dtype)
    runner = check(
        lambda g, r: (
            aten.embedding_dense_backward(g, r, 11, -1, False), aten.embedding_dense_backward(g * 2, r, 11, 3, False)
        ),
        grad, rows,
    )
    assert not runner.host_calls
    ids, source = rng.integers(0, 11, 20).astype(np.int32), draw(rng, (20, width), dtype)
    runner = check(lambda b, i, s: (aten.index_add(b * 2, 0, i, s), aten.index_add(b, 0, i, s * 3)), base, ids, source)
    assert not runner.host_calls


def test_gradients_of_slices_update_parts(rng: np.random.Generator) -> None:
    parts = [draw(rng, (5, 8)) for _ in range(4)]

    def program(*gs: Any) -> Any:
        total = aten.select_scatter(aten.zeros((5, 6, 8)), gs[0], 1, 5)
        for t, g in zip((3, 0, 3), gs[1:], strict=False):
            total = total + aten.select_scatter(aten.zeros((5, 6, 8)), g, 1, t)
        return total * 2

    runner = check(program, *parts, symbolic=False)
    assert not runner.host_calls and all(k.function != "zeros" for k in runner.kernels)
    adds = [n for n in runner.lowered.graph.nodes if n.op.base == "add"]
    assert len(adds) == 4 and all(n.outputs[0].tensor_type.dims == (5, 8) for n in adds)  # one of zeros, to the first


def test_losses_over_classes_fuse(rng: np.random.Generator) -> None:
    x, t = draw(rng, (40, 33)), rng.integers(0, 33, 40)

    def loss(x: Any, t: Any) -> Any:
        logs = aten._log_softmax(x, 1, None)
        index = aten.unsqueeze(t, 1)
        picked = aten.gather(logs, 1, index)
        back = aten.scatter_add(aten.zeros((40, 33)), 1, index, aten.ones((40, 1)))
        return picked.sum(), aten.exp(logs) - back

    runner = check(loss, x, t, tolerance=1e-4, symbolic=False)
    assert sum(runner.lowered.graph.params[0] in k.buffers for k in runner.kernels) == 1
    graph, sizes = graph_of(loss, x, t, symbolic=False)
    bad = t.copy()
    bad[3] = 33
    with pytest.raises(Failed):
        Runner(graph)([x, bad], sizes)
