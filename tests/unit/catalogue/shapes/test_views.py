"""Views: strides against NumPy, aliasing, symbolic sizes, and the errors users see."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.catalogue.shapes.twins import overlaps
from weft.ir.builder import Builder
from weft.ops.array import Array
from weft.ops.bind import bind
from weft.ops.compute import evaluate, geometry_of
from weft.ops.geometry import Geometry, contiguous, contiguous_strides, merge_strides
from weft.ops.op import OPS
from weft.ops.packet import aten
from weft.support.errors import CaptureError, ShapeError
from weft.types import dtype as dt
from weft.types.shape_env import ShapeEnv, using
from weft.types.tensor_type import tensor_type


def random_layout(rng, x):
    """A strided view of x by a few random steps."""
    for _ in range(rng.integers(0, 4)):
        if x.ndim == 0:
            return x
        step, d = rng.integers(4), rng.integers(x.ndim)
        if step == 0:
            x = np.swapaxes(x, d, rng.integers(x.ndim))
        elif step == 1:
            x = x[(slice(None),) * d + (slice(rng.integers(x.shape[d]), None),)]
        elif step == 2:
            x = x[(slice(None),) * d + (slice(None, None, rng.integers(1, 4)),)]
        elif x.ndim < 5:
            x = np.expand_dims(x, d)
    return x


def random_split(rng, n):
    """Dims whose product is n."""
    dims = []
    while n > 1:
        d = int(rng.choice([d for d in range(2, n + 1) if n % d == 0]))
        dims.append(d)
        n //= d
    dims += [1] * int(rng.integers(0, 3))
    return tuple(int(d) for d in rng.permutation(dims)) if dims else ()


def no_copy_reshape(x, dims):
    """Strides of x viewed with dims, by NumPy; None where it needs a copy."""
    try:
        return np.reshape(x, dims, copy=False).strides
    except ValueError:
        return None


def test_merged_strides_show_the_same_elements_exactly_where_numpy_can(rng):
    viewed = 0
    for _ in range(300):
        shape = tuple(int(d) for d in rng.integers(1, 5, rng.integers(0, 4)))
        root = np.arange(int(np.prod(shape)) or 1, dtype=np.int64).reshape(shape)
        x = random_layout(rng, root)
        dims = random_split(rng, x.size)
        offset = (x.__array_interface__["data"][0] - root.__array_interface__["data"][0]) // 8
        got = merge_strides(Geometry(x.shape, tuple(s // 8 for s in x.strides), offset), dims)
        expected = no_copy_reshape(x, dims)
        assert (got is None) == (expected is None), (x.shape, x.strides, dims, got, expected)
        if got is not None:
            viewed += 1
            shown = np.lib.stride_tricks.as_strided(root.reshape(-1)[offset:], dims, [s * 8 for s in got])
            np.testing.assert_array_equal(shown, x.reshape(dims))
    assert viewed > 50


def test_view_of_a_transpose_is_refused_and_reshape_copies():
    x = weft.tensor(np.arange(6.0).reshape(2, 3))
    with pytest.raises(RuntimeError, match=r"Use \.reshape"):
        x.t().view(6)
    y = x.t().reshape(6)
    y.zero_()
    assert x.sum().item() == 15
    x.reshape(6).zero_()
    assert x.sum().item() == 0


@pytest.mark.parametrize("call,text", [
    (lambda x: x.view(5), r"shape '\[5\]' is invalid for input of size 6"),
    (lambda x: x.view(-1, -1), "only one dimension can be inferred"),
    (lambda x: x.view(4, -1), r"shape '\[4, -1\]' is invalid"),
    (lambda x: x.expand(2, 4), r"must match the existing size \(3\) at non-singleton dimension 1"),
    (lambda x: x.permute(0, 0), "duplicate dims"),
    (lambda x: x.split([1, 2]), "sum exactly to 2"),
    (lambda x: x.narrow(0, 1, 2), r"start \(1\) \+ length \(2\) exceeds dimension size \(2\)"),
    (lambda x: x.diagonal(0, 1, 1), "cannot be identical"),
    (lambda x: x.unfold(1, 4, 1), "maximum size for tensor at dimension 1 is 3 but size is 4"),
    (lambda x: x.transpose(0, 2), r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"),
    (lambda x: x.select(1, 3), "index 3 out of range"),
])
def test_errors_say_both_facts(call, text):
    with pytest.raises((RuntimeError, IndexError), match=text):
        call(weft.zeros(2, 3))


# ---- symbols


def handles(*dims, examples=None):
    env = ShapeEnv()
    symbols = {}

    def size(d):
        if isinstance(d, str):
            return symbols.setdefault(d, env.fresh("s", None if examples is None else examples[d]))
        return d

    builder = Builder("views", env)
    made = [builder.handle(builder.param(tensor_type(dt.float32, tuple(size(d) for d in each)))) for each in dims]
    return builder, made, symbols


def test_attention_heads_keep_their_symbols_without_a_question():
    builder, [x], s = handles(("B", "S", 96))
    with builder.active():
        q, k, v = aten.split(x, 32, 2)
        heads = q.view(s["B"], s["S"], 4, 8).transpose(1, 2)
        assert heads.dims == (s["B"], 4, s["S"], 8)
        assert heads.transpose(1, 2).reshape(s["B"], s["S"], 32).dims == (s["B"], s["S"], 32)
        assert x.reshape(-1, 96).dims == (s["B"] * s["S"], 96)
        assert aten.scaled_dot_product_attention.overloads[0].decompose(
            heads, heads, heads, None, 0.0, True, None, False
        ).dims == heads.dims
        assert k.dims == v.dims
    assert not builder.env.guards


def test_chunk_and_unflatten_of_a_constant_dim():
    builder, [x], s = handles(("B", 512))
    with builder.active():
        parts = aten.chunk.overloads[0].decompose(x, 4, 1)
        assert [p.dims for p in parts] == [(s["B"], 128)] * 4
        assert aten.unflatten.overloads[0].decompose(x, 1, (4, -1)).dims == (s["B"], 4, 128)
    assert not builder.env.guards


def test_slices_of_symbolic_dims_are_guarded_by_relations():
    builder, [x], s = handles(("B", 4), examples={"B": 7})
    with builder.active():
        assert aten.slice(x, 0, 1, None).dims == (s["B"] - 1, 4)
        assert aten.slice(x, 0, None, -1).dims == (s["B"] - 1, 4)
        assert aten.slice(x, 0, 0, 5).dims == (5, 4)
        assert aten.select(x, 0, -1).dims == (4,)
    assert all(g.holds({"s0": n}) for g in builder.env.guards.values() for n in (5, 6, 100))
    assert not all(g.holds({"s0": 4}) for g in builder.env.guards.values())


def test_sizes_known_only_while_running_clamp_without_a_question():
    env = ShapeEnv()
    u = env.fresh("u")
    builder = Builder("run", env)
    x = builder.handle(builder.param(tensor_type(dt.float32, (u, 3))))
    with builder.active():
        assert aten.slice(x, 0, 0, 4).ndim == 2
    with pytest.raises(CaptureError), using(env):
        env.less(u, 4)


# ---- twins


def test_every_view_has_its_twins_and_a_gradient():
    views = [op for op in OPS.values() if op.is_view]
    assert len(views) > 15
    for op in views:
        assert f"{op.schema.namespace}::{op.base}_copy" in {o.name.split(".")[0] for o in OPS.values()}
        assert f"{op.schema.namespace}::{op.base}_scatter" in {o.name.split(".")[0] for o in OPS.values()}
        assert op.vjp is not None, op.name  # (bits have none)


def test_scatters_replace_what_the_view_shows(rng):
    x = rng.normal(size=(3, 4))
    base = weft.from_numpy(x.copy())
    expected = x.copy()
    expected[:, 1] = 5
    np.testing.assert_array_equal(
        weft.select_scatter(base, weft.full((3,), 5.0, dtype=weft.float64), 1, 1).numpy(), expected
    )
    expected = x.copy()
    expected[1:3:2] = -1
    np.testing.assert_array_equal(
        weft.slice_scatter(base, weft.full((1, 4), -1.0, dtype=weft.float64), 0, 1, 3, 2).numpy(), expected
    )
    expected = x.copy()
    np.fill_diagonal(expected, 7)
    np.testing.assert_array_equal(
        weft.diagonal_scatter(base, weft.full((3,), 7.0, dtype=weft.float64)).numpy(), expected
    )
    np.testing.assert_array_equal(base.numpy(), x)
    with pytest.raises(ShapeError, match="expected src to have a size equal to the slice of self"):
        weft.select_scatter(base, weft.zeros(4, dtype=weft.float64), 1, 1)


def test_scatter_through_an_expanded_view_is_refused():
    with pytest.raises(RuntimeError, match="more than one element"):
        aten.expand_scatter(weft.zeros(1, 3), weft.zeros(2, 3), (2, 3))


def test_copies_own_their_memory():
    x = weft.zeros(2, 3)
    for copy in (
        (weft.view_copy(x, (6,)), weft.permute_copy(x, (1, 0)), weft.unbind_copy(x)[0], weft.view_copy(x.t(), (6,)))
    ):
        copy.fill_(1)
        assert copy.is_contiguous()
    assert x.sum().item() == 0


def test_contiguous_geometry_of_empty_dims():
    assert contiguous_strides((2, 0, 3)) == (3, 3, 1)
    assert merge_strides(contiguous((2, 0)), (0, 5)) == (5, 1)


def test_views_that_may_show_an_element_twice_say_so(rng):
    # of the others nobody looks, when they are written through
    tried = 0
    for op in OPS.values():
        if op.view is None or op.samples is None or op.view.overlaps or op.view.is_free:
            continue
        for (base, *rest), named in op.samples(rng):
            shown = evaluate(op, (base, *bind(op, (Array(base), *rest), named)[1:]))
            for part in shown if isinstance(shown, tuple) else (shown,):
                assert not overlaps(geometry_of(part)), op.name
                tried += 1
    assert tried > 40


def test_narrow_copy_fills_a_tensor_that_is_given():
    x, out = weft.arange(6.0).view(2, 3), weft.empty(0)
    assert weft.narrow_copy(x, 1, 1, 2, out=out) is out
    assert out.tolist() == [[1, 2], [4, 5]]
