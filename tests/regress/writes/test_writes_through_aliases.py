"""Aliases of a memory that a write did not reach, or that showed other bytes: each was a random program,
and is shrunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.func import functionalize

MODES: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "functionalize": functionalize,
    "copies": lambda f: functionalize(f, remove="mutations_and_views"),
    "compile": lambda f: weft.compile(f, backend="interpret"),
}


@pytest.fixture(params=MODES)
def mode(request: Any) -> Callable[[Any], Any]:
    """A way to call a function."""
    return MODES[request.param]


def test_a_write_to_a_detached_view(mode: Any) -> None:
    def f(x: Any) -> Any:
        x[1:].detach().mul_(3)
        return x * 1

    x = weft.tensor([1.0, 2.0, 3.0])
    assert mode(f)(x).tolist() == x.tolist() == [1, 6, 9]


def test_a_write_through_data_of_data(mode: Any) -> None:
    def f(x: Any) -> Any:
        x.data.data.add_(1)
        return x + x

    x = weft.tensor([1.0, 2.0])
    assert mode(f)(x).tolist() == [4, 6] and x.tolist() == [2, 3]


def test_arguments_that_show_the_same_memory(mode: Any) -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        y.add_(10)
        z.mul_(2)
        return x * 1

    base = weft.arange(4.0)
    assert mode(f)(base, base[1:], base.view(2, 2).t()).tolist() == base.tolist() == [0, 22, 24, 26]


def test_as_strided_counts_from_where_the_memory_begins(mode: Any) -> None:
    def f(x: Any) -> Any:
        x[1].detach().as_strided((2,), (2,), 1).zero_()
        return x * 1

    x = weft.arange(6.0).view(2, 3)
    assert mode(f)(x).tolist() == [[0, 0, 2], [0, 4, 5]]


def test_as_strided_beyond_what_an_argument_shows(mode: Any) -> None:
    def f(x: Any) -> Any:
        x.add_(1)
        return x.as_strided((3,), (2,), 0) * 1, x

    base = weft.arange(6.0)
    found, shown = mode(f)(base[2:4])
    assert found.tolist() == [0, 3, 4] and base.tolist() == [0, 1, 3, 4, 4, 5] and shown.tolist() == [3, 4]


def test_as_strided_of_a_view_of_another_dtype(mode: Any) -> None:
    def f(x: Any) -> Any:
        y = x.view(weft.int32).as_strided((2,), (2,), 1)
        y.fill_(1065353216)
        return y.dtype is weft.int32, x * 1

    is_int, found = mode(f)(weft.zeros(4))
    assert is_int and found.tolist() == [0, 1, 0, 1]


def test_one_argument_twice_whose_memory_is_looked_at(mode: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        x[1:].fill_(3)
        x[1:].as_strided((1,), (1,), 1)
        y.add_(1)
        return x * 1

    x = weft.tensor([4.0, 5.0])
    assert mode(f)(x, x).tolist() == [5, 4]


def test_a_detached_argument_may_lie_otherwise(mode: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        z = x.detach()
        z.unsqueeze_(1)
        z.transpose_(0, 1)
        z.add_(y)
        return z

    x = weft.tensor([1.0, 2.0])
    assert mode(f)(x, x).tolist() == [[2, 4]] and x.tolist() == [2, 4]


def test_a_part_of_windows_that_overlap(mode: Any) -> None:
    def f(x: Any) -> Any:
        x.expand(3, 4)[0][1:].fill_(7)
        x.unfold(0, 2, 1)[1:2].zero_()
        return x * 1

    assert mode(f)(weft.ones(4)).tolist() == [1, 0, 0, 7]


def test_as_strided_of_bits_counts_from_where_the_memory_begins(mode: Any) -> None:
    def f(x: Any) -> Any:
        return x[2:].view(weft.int32).as_strided((2,), (1,), 1) * 1

    assert mode(f)(weft.tensor([0, 1, 2, 3], dtype=weft.float32)).tolist() == [1065353216, 1073741824]


def test_where_an_argument_begins_decides_what_it_may_be_seen_as(mode: Any) -> None:
    def f(x: Any) -> Any:
        return weft.view_as_complex(x[1:]) * 1

    assert mode(f)(weft.arange(6.0)[1:4]).item() == 2 + 3j


def test_a_part_of_an_empty_argument(mode: Any) -> None:
    def f(x: Any) -> Any:
        y = (x * 2)[...]
        return y.split([1, 1], 1)[1]

    assert mode(f)(weft.ones(1, 2)[1:]).shape == (0, 1)


def test_resize_shows_the_first_elements(mode: Any) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        z = y.t()
        z.resize_(3)
        z.add_(1)
        return y, z

    y, z = mode(f)(weft.arange(6.0).view(2, 3))
    assert y.tolist() == [[1, 3, 5], [6, 8, 10]] and z.tolist() == [1, 3, 5]


def test_set_shows_another_memory(mode: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        z = x * 1
        z.set_(y)
        z.add_(1)
        w = x * 1
        w.set_(y, 1, (2,), (1,))
        w.mul_(2)
        return z, w

    x, y = weft.ones(2), weft.arange(3.0)
    z, w = mode(f)(x, y)
    assert y.tolist() == z.tolist() == [1, 4, 6] and w.tolist() == [4, 6] and x.tolist() == [1, 1]


def test_windows_whose_diagonal_shows_no_element_twice(mode: Any) -> None:
    def f(x: Any) -> Any:
        x.unfold(1, 2, 1).diagonal(1, 1, 2).add_(1)
        return x * 1

    x = weft.zeros(4, 2, 6).transpose(0, 1)
    assert mode(f)(x).sum().item() == f(weft.zeros(4, 2, 6).transpose(0, 1)).sum().item() == 12


def test_memory_of_a_result_in_another_order(mode: Any) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        z = y.as_strided((3,), (1,))
        z.add_(1)
        z.mul_(3)
        return y

    assert mode(f)(weft.arange(6.0).view(2, 3).t())[:, 0].tolist() == [3, 9, 15]


def test_nothing_is_filled_where_windows_of_nothing_lie(mode: Any) -> None:
    def f(x: Any) -> Any:
        x.unfold(1, 2, 1).select(2, 1).fill_(1)
        x.expand(2, 0, 4)[0].zero_()
        return x

    assert mode(f)(weft.ones(1, 4)[1:]).shape == (0, 4)


def test_a_dim_of_size_1_is_no_obstacle_to_a_view(mode: Any) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y.transpose_(0, 1)
        z = y.view(-1)
        z.add_(1)
        return y

    assert mode(f)(weft.arange(12.0).view(1, 6, 2)[:, ::2]).reshape(-1).tolist() == [1, 3, 9, 11, 17, 19]


@pytest.mark.parametrize("name", ["eager", "functionalize", "copies"])
def test_an_argument_whose_strides_change_in_place(name: str) -> None:
    def f(x: Any) -> Any:
        x.mul_(2)
        x.transpose_(0, 1)
        return x + 1

    x = weft.arange(6.0).view(2, 3).clone()
    found = MODES[name](f)(x)
    assert x.tolist() == [[0, 6], [2, 8], [4, 10]] and x.stride() == (1, 3)
    assert found.tolist() == [[1, 7], [3, 9], [5, 11]] and found.stride() == (1, 3)


def test_functionalize_in_a_compiled_function() -> None:
    def f(x: Any) -> Any:
        y = x[1:]
        y.resize_(1)
        y.add_(1)
        z = x.as_strided((2,), (2,), 0)
        z.mul_(2)
        return y, z

    expected, found = weft.arange(5.0), weft.arange(5.0)
    wanted = f(expected[1:4])
    made = weft.compile(functionalize(f), backend="interpret")(found[1:4])
    assert found.tolist() == expected.tolist()
    assert [t.tolist() for t in made] == [t.tolist() for t in wanted]


@pytest.mark.parametrize("name", ["functionalize", "copies"])
def test_results_have_eagers_strides(name: str) -> None:
    def f(x: Any) -> Any:
        y = x.t()
        y.mul_(2)
        return y + 1, y.exp(), weft.zeros_like(y), x.t()

    x = weft.ones(2, 3)
    for found, wanted in zip(MODES[name](f)(x.clone()), f(x.clone()), strict=True):
        assert found.stride() == wanted.stride() and np.array_equal(found.numpy(), wanted.numpy())


@pytest.mark.parametrize("name", ["functionalize", "copies"])
def test_results_that_show_one_memory_still_do(name: str) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y[1:], y.view(2, 2)

    y, tail, square = MODES[name](f)(weft.ones(4))
    tail.zero_()
    assert y.tolist() == [2, 0, 0, 0] and square.tolist() == [[2, 0], [0, 0]]


def test_a_gradient_goes_past_a_write_to_a_detached_alias() -> None:
    def f(x: Any) -> Any:
        y = x * 3
        y.detach().mul_(2)
        return (y * y).sum()

    x = weft.tensor([1.0, 2.0], requires_grad=True)
    functionalize(f)(x).backward()
    assert x.grad is not None and x.grad.tolist() == [36, 72]


def test_negation_in_place_of_a_strided_view() -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(1, 5, (4, 6, 4)).astype(np.float32)
    tensor = weft.from_numpy(base.copy())
    tensor.movedim(0, -1)[:, :1].neg_()
    wanted = base.copy()
    wanted[:, :, :1] *= -1
    assert np.array_equal(tensor.numpy(), wanted)
