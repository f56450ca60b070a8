"""A captured value has the order of dims in memory that eager gives it: what is a view, what a copy and what
an error hangs on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import ShapeError

Program = Callable[[weft.Tensor], Any]


def _written_through_reshape(x: weft.Tensor) -> Any:
    y = x.t().relu()
    y.reshape(-1).add_(1)
    return y


def _written_through_contiguous(x: weft.Tensor) -> Any:
    y = x.t().exp()
    y.contiguous().add_(1)
    y.t().contiguous().mul_(2)
    return y


def _like(x: weft.Tensor) -> Any:
    y = weft.zeros_like(x.t())
    y.t().view(-1).add_(weft.arange(12.0))
    return y, weft.ones_like(x.expand(2, 3, 4).permute(2, 0, 1))


PROGRAMS: dict[str, Program] = {
    "written through reshape": _written_through_reshape,
    "written through contiguous": _written_through_contiguous,
    "like": _like,
    "viewed back": lambda x: x.t().clone().t().view(-1),
    "two operands": lambda x: (x.t() * x.t(), x.t() + x.t().contiguous()),
    "reductions": lambda x: (x.expand(2, 3, 4).permute(2, 0, 1).sum(1), x.t().softmax(0), x.t().sum(0, keepdim=True)),
    "joined": lambda x: (weft.cat([x.t(), x.t()]), weft.stack([x.t(), x.t()]), weft.where(x.t() > 0, x.t(), 0.0)),
    "cast": lambda x: x.t().double(),
    "images": lambda x: x.reshape(1, 2, 2, 3).contiguous(memory_format=weft.channels_last).relu(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_as_eager(name: str, rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((3, 4)))
    for captured, eager in zip(_flat(weft.compile(PROGRAMS[name])(x)), _flat(PROGRAMS[name](x)), strict=True):
        np.testing.assert_allclose(captured.numpy(), eager.numpy())
        assert _real_strides(captured) == _real_strides(eager)


def _real_strides(x: weft.Tensor) -> list[int]:
    return [s for s, n in zip(x.stride(), x.shape, strict=True) if n != 1]


def _flat(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def test_what_eager_cannot_view_is_refused() -> None:
    step = weft.compile(lambda x: x.t().relu().view(-1))
    with pytest.raises(ShapeError, match="at least one dimension spans across two contiguous subspaces"):
        step(weft.ones(3, 4))


def test_as_strided_of_another_order_looks_at_memory(rng: np.random.Generator) -> None:
    n, m = (int(k) for k in rng.integers(3, 7, 2))
    x = weft.from_numpy(rng.standard_normal((n, m)))
    shown = lambda x: (x.t() * 2).as_strided((2, 2), (1, 3))  # noqa: E731
    np.testing.assert_array_equal(weft.compile(shown)(x).numpy(), shown(x).numpy())


def test_other_sizes_need_no_other_capture() -> None:
    step = weft.compile(lambda x: _written_through_reshape(x).sum())
    weft.counters.reset()
    for n, m in ((3, 4), (5, 2), (7, 3)):
        assert step(weft.ones(n, m)).item() == n * m
    assert weft.counters.captures == 1


def test_an_argument_that_repeats_elements_is_not_written() -> None:
    """A write of other values than one for all would be lost, or act as often as elements are shown."""
    add, fill = weft.compile(lambda x: x.add_(1)), weft.compile(lambda x: x.fill_(3.0))
    whole = weft.zeros(6, 3)
    add(whole[::2])
    assert whole[:, 0].tolist() == [1, 0, 1, 0, 1, 0]
    base = weft.ones(1, 3)
    for write in (add, weft.compile(lambda x: x.mul_(x + 1))):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            write(base.expand(4, 3))
    assert base.tolist() == [[1, 1, 1]] and fill(base.expand(4, 3)).shape == (4, 3) and base.tolist() == [[3, 3, 3]]
    add(whole[::3])
    assert whole[:, 0].tolist() == [2, 0, 1, 1, 1, 0]


def test_pairs_as_complex_numbers_lie_in_the_order_of_their_dims() -> None:
    def program(x: weft.Tensor) -> list[weft.Tensor]:
        y = weft.view_as_complex(x).mT
        return [y * 2, y + y, y.clone()]

    x = weft.arange(16.0).view(4, 2, 2)
    step = weft.compile(program, backend="interpret")
    for rows in (4, 3, 2):
        assert [t.stride() for t in step(x[:rows])] == [t.stride() for t in program(x[:rows])]
