"""The short ways of indexing (layers/fast_indexing.py) give what NumPy gives, views where those are views, and leave
what is wrong to the long way's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


def _item(rng: np.random.Generator, size: int) -> Any:
    kind = rng.integers(5)
    if kind == 0:
        return int(rng.integers(-size, size))
    if kind == 1:
        start, stop = (None if rng.integers(2) else int(rng.integers(-size - 1, size + 2)) for _ in range(2))
        return slice(start, stop, None if rng.integers(2) else int(rng.integers(1, 4)))
    return slice(None)


def test_random_indices(rng: np.random.Generator) -> None:
    for _ in range(300):
        shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
        data = rng.standard_normal(shape).astype(np.float32)
        index = tuple(_item(rng, n) for n in shape[: rng.integers(1, len(shape) + 1)])
        x = weft.tensor(data)
        if rng.integers(3) == 0 and all(type(i) is slice for i in index):
            at = int(rng.integers(len(index)))
            picked = rng.integers(-shape[at], shape[at], (int(rng.integers(1, 3)),) * int(rng.integers(1, 3)))
            index = (*[slice(None)] * at, picked, *[slice(None)] * (len(index) - at - 1))
        given = tuple(weft.tensor(i) if isinstance(i, np.ndarray) else i for i in index)
        found = x[given if len(given) > 1 or rng.integers(2) else given[0]]
        np.testing.assert_array_equal(found.numpy(), data[index])
        is_view = not any(isinstance(i, np.ndarray) for i in index)
        assert is_view == (found.storage() is x.storage()) or not found.numel()
        many = rng.standard_normal(data[index].shape).astype(np.float32)
        value: Any = float(rng.integers(9)) if rng.integers(2) else many
        version = x._version
        x[given] = weft.tensor(value) if isinstance(value, np.ndarray) else value
        expected = data.copy()
        expected[index] = value
        if is_view or np.unique(index[[type(i) for i in index].index(np.ndarray)] % shape[at]).size == picked.size:
            np.testing.assert_array_equal(x.numpy(), expected)  # (of several values for one place any may win)
        assert x._version == version + 1


def test_what_is_wrong_is_said_and_nothing_is_written() -> None:
    x = weft.zeros(2, 3)
    for index, value, words in (
        ((0, 3), 1.0, "out of bounds"), ((0, 0, 0), 1.0, "too many indices"),
        (weft.tensor([2]), weft.ones(3), "out of bounds"), (weft.tensor([0, 1]), weft.ones(4), "shape mismatch"),
        (weft.tensor([0]), weft.ones(3).double(), "dtypes match"),
    ):
        with pytest.raises(Exception, match=words):
            x[index] = value
    assert not x.numpy().any()


def test_gradients_of_views_that_are_written() -> None:
    w = weft.randn(4, 3, requires_grad=True)
    x = w * 2
    x[1] = 5.0
    x[:, 1:2] = x[:, :1]
    x[weft.tensor([0])] = w[weft.tensor([3])]
    x.sum().backward()
    expected = np.array([[0, 0, 0], [0, 0, 0], [4, 0, 2], [4 + 1, 0 + 1, 2 + 1]], np.float32)
    np.testing.assert_array_equal(w.grad.numpy(), expected)
