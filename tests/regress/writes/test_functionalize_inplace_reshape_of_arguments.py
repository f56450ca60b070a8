"""functionalize: arguments that are reshaped in place, and writes without history."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.func import functionalize


def rows(count: int) -> Any:
    return weft.arange(count * 2.0).view(count, 2).clone()


def test_views_of_an_argument_that_is_reshaped_behind_them():
    def f(x: Any) -> Any:
        some = x[::2]
        x.unsqueeze_(0)
        some.add_(1)
        x.transpose_(1, 2)
        return some, x[0]

    x, y = rows(3), rows(3)
    wanted, found = f(x), functionalize(f)(y)
    assert y.shape == x.shape and y.stride() == x.stride()
    for a, b in zip(wanted, found, strict=True):
        assert b.stride() == a.stride()
        np.testing.assert_array_equal(b.numpy(), a.numpy())
    found[0].zero_()
    wanted[0].zero_()
    np.testing.assert_array_equal(y.numpy(), x.numpy())


@pytest.mark.parametrize("name", ["t_", "squeeze_"])
def test_an_argument_with_a_history_is_reshaped(name):
    w = weft.ones(2, 3).requires_grad_()
    x = w * 2
    out = functionalize(lambda x: getattr(x, name)() * 3)(x)
    (out.sum() + x.sum()).backward()
    np.testing.assert_array_equal(w.grad.numpy(), 8)


def test_writes_under_no_grad_leave_a_leaf_and_a_history():
    def f(w: Any, x: Any) -> Any:
        with weft.no_grad():
            w.mul_(3)
            w[0].add_(1)
            x[0].fill_(3)
        return (w * w).sum() + x.sum()

    w = weft.ones(2, 3).requires_grad_()
    x = w * 2
    found = functionalize(f)(w, x)
    assert w.is_leaf and x.requires_grad
    np.testing.assert_array_equal(w.detach().numpy(), [[4, 4, 4], [3, 3, 3]])
    found.backward()
    np.testing.assert_array_equal(w.grad.numpy(), [[10, 10, 10], [8, 8, 8]])


def test_a_view_has_the_history_of_where_it_was_made():
    def f(x: Any) -> Any:
        first = x[0]
        with weft.no_grad():
            total, second = first.sum(), x[1]
        return first.sum(), total, second, x.data

    out = functionalize(f)(weft.ones(2, 3).requires_grad_() * 2)
    assert [t.requires_grad for t in out] == [True, False, False, False]


def test_a_leaf_is_not_reshaped_under_grad_mode():
    w = weft.ones(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        functionalize(lambda w: w.t_() * 1)(w)


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_a_view_reshaped_under_no_grad_keeps_its_history(device):
    x = (weft.ones(2, 1, 2).requires_grad_() * 1).to(device)
    view = x.mT
    x.clamp_(-2, 2)
    with weft.no_grad():
        view.unsqueeze_(0)
    assert view.requires_grad and view.shape == (1, 2, 2, 1)


def test_complex_elements_of_a_dim_of_one():
    pairs = weft.ones(3, 2).unfold(1, 2, 1)
    assert weft.view_as_complex(pairs).stride() == (1, 0)


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_a_write_through_windows_of_an_argument_that_lies_permuted(remove: Any) -> None:
    def function(x: Any) -> Any:
        windows = x.unfold(0, 2, 1).squeeze()
        flat = windows.flatten()
        flat.gt_(0)
        return x, windows, flat

    found = []
    for run in (function, functionalize(function, remove=remove)):
        x = (weft.arange(8.0) - 3).view(4, 2, 1)
        found.append([t.tolist() for t in (*run(x.transpose(0, 1)), x)])
    assert found[0] == found[1]
