"""T-VIEW-*: views and in-place writes, by closed forms, differences and the graph's shape."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function, gradcheck, gradgradcheck

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


def twice(function: Callable[..., Any], *inputs: Any) -> None:
    """Right at order 1 and 2."""
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs, fast_mode=True)


# ---- T-VIEW-1
def test_t_view_1_double_backward_through_view_and_write(rng: Rng) -> None:
    def f(t: weft.Tensor) -> weft.Tensor:
        b = t.clone()
        b[0].mul_(b[1].clone())
        return b

    twice(f, leaf(rng, 3, int(rng.integers(1, 4))))


def test_t_view_1_histories_after_a_write(rng: Rng) -> None:
    b = leaf(rng, 3).clone()
    v = b[1:]
    v.mul_(2.0)
    assert b.grad_fn.name() == "CopySlices"
    assert v.grad_fn.name() == "SliceBackward0" and v.grad_fn.next_functions[0][0] is b.grad_fn


# ---- T-VIEW-2
def test_t_view_2_one_counter_per_storage(rng: Rng) -> None:
    b = leaf(rng, 3, 2).clone()
    b[0].mul_(b[1])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()


# ---- T-VIEW-3
def test_t_view_3_a_sibling_sees_the_write(rng: Rng) -> None:
    x = leaf(rng, 3)
    b = x.clone()
    y, z = b[:2], b[1:3]
    y.mul_(2.0)
    np.testing.assert_allclose(z.detach().numpy(), np.array([2.0, 1.0]) * x.detach().numpy()[1:])
    z.sum().backward()
    assert x.grad.tolist() == [0.0, 2.0, 1.0]

    def f(t: weft.Tensor) -> weft.Tensor:
        c = t.clone()
        first, second = c[:2], c[1:3]
        first.mul_(first.detach() * 0 + t[2])
        return second * second

    twice(f, leaf(rng, 3))


# ---- T-VIEW-4
def test_t_view_4_forbidden_writes(rng: Rng) -> None:
    x = leaf(rng, 3)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.add_(1.0)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[:2].add_(1.0)
    for views in (x.clone().unbind(), x.clone().split(1), x.clone().chunk(3)):
        with pytest.raises(RuntimeError, match="returns multiple views"):
            views[0].mul_(2.0)
    for base in (x, x.clone()):
        with weft.no_grad():
            v = base[:2]
        with pytest.raises(RuntimeError, match="created in no_grad mode and is being modified inplace"):
            v.mul_(2.0)
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
    ):
        weft.ones(1, 3).expand(2, 3).add_(1.0)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        weft.ones(3).add_(weft.ones(2, 3))


@pytest.mark.parametrize("make", ["multi", "no_grad"])
def test_t_view_4_stale_special_views_say_so(rng: Rng, make: str) -> None:
    b = leaf(rng, 3).clone()
    if make == "multi":
        v = b.unbind()[0]
    else:
        with weft.no_grad():
            v = b[:2]
    b.mul_(2.0)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        v.grad_fn  # noqa: B018


def test_t_view_4_a_no_grad_view_has_no_history_whatever_was_written_before(rng: Rng) -> None:
    b = leaf(rng, 3).clone()
    b.add_(1.0)
    with weft.no_grad():
        v = b[:2]
    assert v.grad_fn is None and v.is_leaf
    assert weft.ones(3).unbind()[0].add_(1.0).item() == 2.0  # nothing wants a gradient: allowed


# ---- T-VIEW-5
def test_t_view_5_a_write_makes_the_base_require_grad(rng: Rng) -> None:
    x, b = leaf(rng, 2), weft.zeros(3, dtype=weft.float64)
    v = b[1:]
    v.mul_(0.0)
    assert not b.requires_grad
    v.add_(x)
    assert b.requires_grad and v.requires_grad and b.grad_fn.name() == "CopySlices"
    (b * weft.tensor([1.0, 2.0, 3.0], dtype=weft.float64)).sum().backward()
    assert x.grad.tolist() == [2.0, 3.0]


# ---- T-VIEW-6
def test_t_view_6_chains(rng: Rng) -> None:
    def f(t: weft.Tensor) -> weft.Tensor:
        b = t.clone()
        v = b.view(2, 3)
        v[0].mul_(v[1].clone())
        w = v.t()[1:]
        w.mul_(t.view(2, 3).t()[1:])
        return b.sin()

    twice(f, leaf(rng, 6))


def test_t_view_6_topology(rng: Rng) -> None:
    x = leaf(rng, 2, 3)
    b = x.clone()
    v = b.view(6)
    w = v[2:]
    assert w._is_view() and w._base is b and v._base is b and not b._is_view() and b._base is None
    w.mul_(2.0)
    assert b.grad_fn.name() == "CopySlices"
    assert b.grad_fn.next_functions[0][0].name() == "CloneBackward0"
    v.mul_(3.0)
    assert b.grad_fn.next_functions[0][0].name() == "CopySlices"
    b.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.array([3.0, 3, 6, 6, 6, 6]).reshape(2, 3))


# ---- T-VIEW-7
def test_t_view_7_views_of_another_dtype(rng: Rng) -> None:
    def f(t: weft.Tensor) -> weft.Tensor:
        b = t.clone()
        z = weft.view_as_complex(b)
        z.mul_(z.detach() * 0 + 2j)
        return b * b

    twice(f, leaf(rng, 3, 2))

    def g(t: weft.Tensor) -> weft.Tensor:
        z = weft.view_as_complex(t.clone())
        r = weft.view_as_real(z)
        r[..., 0].mul_(t[..., 1])
        return weft.view_as_real(z * z)

    twice(g, leaf(rng, 2, 2))


# ---- T-VIEW-8
class Scaled(Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        return g * 7.0


class Part(Scaled):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x[:1]

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        return weft.cat((g * 5.0, g * 0.0))


class Doubled(Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2.0)

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        return g * 7.0


def test_t_view_8_custom_functions_that_return_inputs_and_views(rng: Rng) -> None:
    x = leaf(rng, 2)
    y = Scaled.apply(x)
    assert y is not x and y._is_view() and y.grad_fn.name() == "ScaledBackward"
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    x.grad = None
    Part.apply(x).sum().backward()
    assert x.grad.tolist() == [5.0, 0.0]
    for made in (Scaled.apply(x.clone()), Part.apply(x.clone())):
        with pytest.raises(RuntimeError, match="created inside a custom Function"):
            made.mul_(2.0)


def test_t_view_8_mark_dirty(rng: Rng) -> None:
    x = leaf(rng, 2)
    y = x * 1.0
    assert Doubled.apply(y) is y
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    x.grad = None
    b = x * 1.0
    v = b[:1]
    assert Doubled.apply(v) is v and b.grad_fn.name() == "CopySlices"
    b.sum().backward()
    assert x.grad.tolist() == [7.0, 1.0]


# ---- T-VIEW-9
def test_t_view_9_only_some_inputs_of_the_write_want_a_gradient(rng: Rng) -> None:
    x, y = leaf(rng, 3), leaf(rng, 2)
    b = x.clone()
    v = b[:2]
    old = v.detach().clone()
    v.mul_(y)
    (gy,) = weft.autograd.grad(b.sum(), y, retain_graph=True)
    np.testing.assert_allclose(gy.numpy(), old.numpy())
    (gx,) = weft.autograd.grad(b.sum(), x)
    np.testing.assert_allclose(gx.numpy(), [*y.tolist(), 1.0])


def test_t_view_9_between_two_writes(rng: Rng) -> None:
    x = leaf(rng, 3)
    b = x.clone()
    v = b[:2]
    v.mul_(2.0)
    (g,) = weft.autograd.grad((b * b).sum(), v.grad_fn.next_functions[0][0] and x)
    np.testing.assert_allclose(g.numpy(), 2 * x.detach().numpy() * np.array([4.0, 4.0, 1.0]))


# ---- T-VIEW-10
def test_t_view_10_the_base_may_go_first(rng: Rng) -> None:
    x = leaf(rng, 3)
    b = x.clone()
    v = b[1:]
    watched = weakref.ref(b)
    del b
    v.mul_(3.0)
    v.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0, 3.0]
    gc.disable()
    try:
        del v
        assert watched() is None
    finally:
        gc.enable()


# ---- in-place view operators and what they leave to older views
def test_in_place_view_operators_carry_history(rng: Rng) -> None:
    def f(t: weft.Tensor) -> weft.Tensor:
        b = t * 1.0
        b.transpose_(0, 1).unsqueeze_(0).squeeze_().t_().swapaxes_(0, 1)
        b.as_strided_((2, 2), (1, 2))
        return b * b

    twice(f, leaf(rng, 2, 3))


def test_older_views_keep_what_they_show(rng: Rng) -> None:
    values = rng.standard_normal(6)
    x = weft.from_numpy(values.copy()).view(2, 3).requires_grad_()
    b = x * 1.0
    z = b.view(6)
    b.transpose_(0, 1)
    assert b.shape == (3, 2) and b.stride() == (1, 3) and z.shape == (6,)
    z[1:3].mul_(weft.tensor([3.0, 5.0], dtype=weft.float64))
    factors = np.array([1.0, 3, 5, 1, 1, 1])
    np.testing.assert_allclose(b.detach().numpy(), (values * factors).reshape(2, 3).T)
    (b * weft.from_numpy(np.arange(6.0).reshape(3, 2))).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), (np.arange(6.0).reshape(3, 2).T.reshape(-1) * factors).reshape(2, 3))


def test_in_place_view_of_a_leaf_is_refused_and_of_a_view_stays_a_view(rng: Rng) -> None:
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        leaf(rng, 2, 3).transpose_(0, 1)
    x = leaf(rng, 2, 3)
    b = x.clone()
    v = b[0]
    v.unsqueeze_(0)
    assert v._base is b and v.shape == (1, 3)
    v.mul_(3.0)
    b.sum().backward()
    assert x.grad.tolist() == [[3.0] * 3, [1.0] * 3]


def test_as_strided_of_a_permuted_tensor(rng: Rng) -> None:
    twice(lambda t: (t * 1.0).t().as_strided((2, 2), (2, 1), 1) ** 2, leaf(rng, 2, 3))

    def f(t: weft.Tensor) -> weft.Tensor:
        b = (t * 1.0).t()
        b.as_strided((2, 2), (2, 1), 1).mul_(3.0)
        return b * b

    twice(f, leaf(rng, 2, 3))


def test_resize_and_set(rng: Rng) -> None:
    x = weft.arange(4.0)
    assert x.resize_(2, 2) is x and x.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    keep = x.view(4)
    x.resize_(8)
    assert x.resize_(2).tolist() == [0.0, 1.0] and keep.tolist() == [0.0, 1.0, 2.0, 3.0]
    x.add_(1)
    assert keep.tolist() == [1.0, 2.0, 2.0, 3.0]
    alone = weft.ones(2) * 3.0
    assert alone.resize_(3).shape == (3,) and alone[:2].tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        leaf(rng, 2).resize_(1)
    with pytest.raises(RuntimeError, match="not resizable"):
        array = np.ones(2)
        weft.from_numpy(array).resize_(5)
    y = weft.arange(6.0)
    z = weft.zeros(1)
    assert z.set_(y) is z and z.data_ptr() == y.data_ptr() and z.tolist() == y.tolist()
    assert z.set_(y.untyped_storage(), 1, (2, 2), (2, 1)).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert z.set_().shape == (0,)


def test_long_chains_of_views(rng: Rng) -> None:
    x = leaf(rng, 4)
    y = x.clone()
    for _ in range(1200):
        y = y.view(2, 2).view(4)
    y.mul_(2.0)
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 4
