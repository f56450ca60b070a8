"""Sizes, numbers and tensors of a capture that a cache keeps: afterwards they are plain numbers, or refused,
and never another capture's symbols."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import pytest

import weft
from weft.programs.arguments import symbolic_dims
from weft.record.capture import Capture
from weft.support.errors import CaptureError


def kept() -> tuple[Any, Any, weft.Tensor, Any]:
    """A size, a float and a tensor of a capture that has ended, and a weak reference to its argument."""
    capture = Capture("step")
    with capture.active():
        x = capture.tensors.symbolic_argument(weft.ones(4), "x", symbolic_dims(capture, (4,)), None)
        size = x.shape[0]
        return size, size / 3, x * 2, weakref.ref(x)


def test_numbers_are_plain_in_eager_code() -> None:
    n, third, _, _ = kept()
    assert (
        (n, n + 1, 2 * n, n // 3, n % 3, -n, n < 5, bool(n), hash(n), f"{n}", repr(n), list(range(n)))
        == (4, 5, 8, 1, 1, -4, True, True, 4, "4", "4", [0, 1, 2, 3])
    )
    assert {4: "four"}[n] == "four"
    assert (
        (third, third * 3, third < 2, round(third, 2), repr(third), 1 - third)
        == (4 / 3, 4.0, True, 1.33, repr(4 / 3), 1 - 4 / 3)
    )
    assert weft.ones(n, 2).reshape(2 * n).shape == (8,)
    assert weft.full((n,), third).tolist() == (third * weft.ones(n)).tolist() == weft.tensor([4 / 3] * 4).tolist()


def test_numbers_are_plain_in_later_captures() -> None:
    n, third, _, _ = kept()

    @weft.compile
    def step(x: weft.Tensor) -> Any:
        rows = x.shape[0]
        return x * n * third, rows * n, n - rows, rows == n, n < rows, rows * third, n, third

    for rows in (4, 6, 3):
        found = step(weft.ones(rows))
        assert found[0].tolist() == pytest.approx([16 / 3] * rows)
        assert found[1:] == (4 * rows, 4 - rows, rows == 4, rows > 4, pytest.approx(rows * 4 / 3), 4, 4 / 3)


def test_tensors_are_refused_and_say_why() -> None:
    _, _, tensor, _ = kept()
    for use in (
        lambda: tensor + 1, lambda: weft.add(weft.ones(4), tensor), tensor.sum, tensor.item, lambda: tensor.add_(1),
        lambda: weft.cat([tensor]),
    ):
        with pytest.raises(
            CaptureError, match="was made while step was captured, and something kept it beyond the call"
        ):
            use()
    with pytest.raises(CaptureError, match="was made while step was captured"):
        weft.compile(lambda x: x + tensor)(weft.ones(4))


def test_numbers_keep_nothing_of_the_capture() -> None:
    n, third, tensor, stand_in = kept()
    assert (n, third) == (4, 4 / 3)
    del tensor
    gc.collect()
    assert stand_in() is None


@functools.cache
def plan(rows: int, times: int) -> tuple[Any, ...]:
    return rows * times, rows + 1, rows / 2, [rows]


@functools.lru_cache(maxsize=4)
def mask(rows: int, columns: int) -> weft.Tensor:
    return weft.ones(rows, columns).tril()


class Model:
    @functools.lru_cache  # noqa: B019
    def scale(self, rows: int) -> Any:
        return rows * 2, weft.full((rows,), 3.0)


def test_caches_of_plans_serve_eager_code_and_later_captures() -> None:
    plan.cache_clear()
    first, second = (
        weft.compile(lambda x: x.sum() + plan(x.shape[0], 3)[0]), weft.compile(lambda x: x[0] * plan(x.shape[0], 3)[0])
    )
    assert first(weft.ones(4)).item() == 16
    found = plan(4, 3)
    assert found == (12, 5, 2.0, [4])
    assert [type(v) for v in found] == [int, int, float, list]
    for rows in (4, 5, 4):
        assert second(weft.ones(rows)).item() == 3 * rows
        assert first(weft.ones(rows)).item() == 4 * rows
        assert plan(rows, 3)[0] == 3 * rows


def test_caches_of_tensors_serve_eager_code_and_later_captures() -> None:
    mask.cache_clear()
    functions = [weft.compile(lambda x: x * mask(x.shape[0], 2)), weft.compile(lambda x: x - mask(x.shape[0], 2))]
    for rows in (3, 5, 3):
        x = weft.full((rows, 2), 2.0)
        assert functions[0](x).tolist() == (x * mask(rows, 2)).tolist()
        assert functions[1](x).tolist() == (x - mask(rows, 2)).tolist()


def test_cached_methods() -> None:
    model = Model()

    def step(x: weft.Tensor) -> weft.Tensor:
        times, added = model.scale(x.shape[0])
        return x * times + added

    for rows in (2, 3):
        assert weft.compile(step)(weft.ones(rows)).tolist() == step(weft.ones(rows)).tolist() == [2 * rows + 3] * rows


def test_a_capture_that_fails_leaves_nothing_in_caches() -> None:
    mask.cache_clear()

    def step(x: weft.Tensor) -> Any:
        return float(mask(x.shape[0], 2).sum())

    with pytest.raises(CaptureError):
        weft.compile(step)(weft.ones(2, 2))
    assert step(weft.ones(2, 2)) == 3
