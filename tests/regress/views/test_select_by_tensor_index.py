"""`x[i]` with a 0-dim tensor i whose value is known only when the program runs is a view, as in eager;
so is what hangs on unbacked sizes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import CaptureError


def _written(x: weft.Tensor, i: weft.Tensor) -> Any:
    y = x.clone()
    y[i].add_(1)
    y[i + 1] *= 2
    y[i, 1:] = 5.0
    y[1:, i].mul_(3)
    y[..., i] += 1
    return y, y[i], y[i, [0, 1]], y[i].sum()


def _index_moved(x: weft.Tensor, i: weft.Tensor) -> Any:
    y, j = x.clone(), i.clone()
    row = y[j]
    j.add_(1)
    row.fill_(9.0)
    return y


PROGRAMS: dict[str, Callable[..., Any]] = {
    "written": _written,
    "the index moved": _index_moved,
    "a constant": lambda x, i: (x[weft.tensor(1)], weft.tensor(2.0).reshape(1) + i),
    "unbacked sizes": lambda x, i: (
        x[x > 0].numel(), weft.zeros(x[x > 0].shape) + 1, weft.rand_like(x[x < 0]), weft.rand(2)
    ),
}


@pytest.mark.parametrize("backend", ["llvm", "numpy", "interpret"])
@pytest.mark.parametrize("index", [0, 2, -2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_as_eager(name: str, index: int, backend: str, rng: np.random.Generator) -> None:
    x, i = weft.from_numpy(rng.standard_normal((5, 4))), weft.tensor(index)
    results = []
    for call in (PROGRAMS[name], weft.compile(PROGRAMS[name], backend=backend)):
        weft.manual_seed(3)
        results.append(call(x, i))
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(b, a)


def test_the_gradient_of_a_written_row(rng: np.random.Generator) -> None:
    w = weft.from_numpy(rng.standard_normal((4, 2))).requires_grad_()

    @weft.compile
    def step(i: weft.Tensor) -> Any:
        y = w * 2
        y[i].mul_(3)
        (y[i].sum() + y.sum()).backward()
        out = w.grad
        w.grad = None
        return out

    expected = np.full((4, 2), 2.0)
    expected[2] = 12.0
    np.testing.assert_allclose(step(weft.tensor(2)).numpy(), expected)


def test_a_row_of_state_is_that_state(rng: np.random.Generator) -> None:
    table = weft.zeros(4, 2)
    step = weft.compile(lambda i: table[i])
    weft.counters.reset()
    for i in (1, 3):
        step(weft.tensor(i)).fill_(float(i))
    assert table.tolist() == [[0, 0], [1, 1], [0, 0], [3, 3]]
    assert weft.counters.captures == 1


def test_a_number_is_not_a_vector() -> None:
    assert weft.compile(lambda x: weft.tensor(2.0) * x.sum())(weft.ones(3)).shape == ()


def test_a_size_found_while_running_is_no_python_number() -> None:
    with pytest.raises(CaptureError, match="a size that is only known while the program runs"):
        weft.compile(lambda x: [0] * len(x[x > 0]))(weft.ones(3))


def test_a_pickled_number_is_not_a_vector() -> None:
    assert pickle.loads(pickle.dumps(weft.tensor(2.0))).shape == ()
