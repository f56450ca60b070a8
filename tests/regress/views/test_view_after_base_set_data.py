"""Views whose base shows other memory, or other sizes, by now; pieces and rows that share memory as PyTorch's do."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_a_view_of_what_shows_other_memory_now(device):
    w = weft.ones(3, 4, device=device).requires_grad_()
    x = w.clone()
    view = x.unsqueeze(0)
    with weft.no_grad():
        x.set_(w)
    view.add_(3)
    np.testing.assert_array_equal(view.clone().detach().cpu().numpy(), 4)
    np.testing.assert_array_equal(x.detach().cpu().numpy(), 1)


def test_data_of_a_view_is_the_same_memory():
    x = weft.ones(2, 3)
    view = x[1:, :2]
    view.data = view.data
    view.swapaxes_(0, 1)
    view.zero_()
    assert view.shape == (2, 1) and x.sum().item() == 4


def test_a_split_function_reshapes_what_older_views_show():
    def step(x: Any) -> Any:
        wide = x.expand(2, 2, 1)
        x.t_()
        (x.sum() + 2 * wide.sum()).backward()
        return x

    grads = []
    for function in (step, weft.compile(step, split=True)):
        w = weft.ones(2, 1).requires_grad_()
        assert function(w * 1).shape == (1, 2)
        grads.append(w.grad.numpy())
    np.testing.assert_array_equal(*grads)


def test_a_view_is_deep_copied_in_a_split_function():
    @weft.compile(split=True)
    def step(x: Any) -> Any:
        mine = copy.deepcopy(x.unsqueeze(1))
        mine.add_(1)
        return mine

    x = weft.ones(2, 2)
    assert step(x).tolist() == [[[2, 2]], [[2, 2]]] and x.sum().item() == 4


@pytest.mark.parametrize("split", [lambda x: x.tensor_split(2, 1), lambda x: x.hsplit(2), lambda x: x.T.vsplit(2)])
def test_each_piece_may_be_written(split):
    w = weft.ones(3, 4).requires_grad_()
    x = w * 1
    first, second = split(x)
    first.mul_(3)
    (x.sum() + second.sum()).backward()
    assert sorted(set(w.grad.reshape(-1).tolist())) == [2, 3]


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_ravel_shows_what_lies_in_a_row_and_copies_the_rest(device):
    x = weft.zeros(3, 2, device=device)
    x.ravel().add_(1)
    column = x[:, 0]
    assert column.ravel().stride() == (1,)
    column.ravel().add_(1)
    x.t().ravel().add_(1)
    assert x.sum().item() == 6


def test_ravel_in_programs():
    def f(x: Any) -> Any:
        x.ravel()[1] = 5
        y = x[:, 0].ravel()
        y[0] = 7
        return y, x.t().ravel()

    wanted, x = f(weft.zeros(3, 2)), weft.zeros(3, 2)
    for found in (weft.compile(f)(x.clone()), weft.func.functionalize(f)(x.clone())):
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_composite_written_in_place_is_made_where_its_tensor_is():
    x = (weft.ones(4, 2).requires_grad_() * 1).to("lazy")
    x.fill_diagonal_(2)
    assert x.sum().item() == 10


def test_functionalized_writes_that_let_nothing_through():
    def f(x: Any) -> Any:
        x[...] = 1
        return x

    w = weft.ones(2).requires_grad_()
    out = weft.func.functionalize(f)(w * 1)
    assert out.requires_grad
    out.sum().backward()
    assert w.grad is None or not w.grad.any()


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_resize_as_the_memory_format_says(device):
    x = weft.zeros(24, device=device)
    assert x.resize_((1, 2, 3, 4), memory_format=weft.channels_last).stride() == (24, 1, 8, 2)
    assert weft.zeros(24, device=device).resize_as_(x, memory_format=weft.preserve_format).stride() == x.stride()
    with pytest.raises(RuntimeError, match="rank 4"):
        x.resize_((2, 3), memory_format=weft.channels_last)


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_complex_elements_begin_at_even_places(device):
    pairs = weft.zeros(3, 3, device=device).as_strided((2, 2), (1, 1))
    with pytest.raises(RuntimeError, match="divisible by 2"):
        weft.view_as_complex(pairs)


def test_functionalized_data_of_a_leaf():
    w = weft.ones(2).requires_grad_()

    def f(w: Any) -> Any:
        w.data = w.data
        return w * 2

    assert weft.func.functionalize(f)(w).tolist() == [2, 2] and w.is_leaf


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_a_view_of_what_shows_less_now_keeps_its_history(device):
    w = weft.ones(3, 2, device=device).requires_grad_()
    x = w * 2
    row = x[1]
    x.as_strided_((1,), (1,))
    (row.sum() + x.sum()).backward()
    assert w.grad.tolist() == [[2, 0], [2, 2], [0, 0]]


def test_a_view_of_an_alias_in_the_middle_of_memory():
    w, x = weft.ones(2, 4).requires_grad_(), weft.arange(12.0).view(3, 4)
    alias = x[1:].detach()
    alias.mul_(w)
    row = alias[0]
    alias.t_()
    row.sum().backward()
    assert w.grad.tolist() == [[4, 5, 6, 7], [0, 0, 0, 0]]


@pytest.mark.parametrize("stop", [lambda w: w.requires_grad_(False), lambda w: w.detach_()])
def test_a_leaf_that_wants_no_gradient_any_more_gets_none(stop):
    w = weft.ones(3).requires_grad_()
    y = w * 2
    stop(w)
    y.sum().backward()
    assert w.grad is None


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_a_view_of_the_same_dtype_is_another_tensor(device):
    x = weft.ones(1, 3, device=device)
    same = x.view(weft.float32)
    x.squeeze_(0)
    same.zero_()
    assert same.shape == (1, 3) and x.sum().item() == 0
