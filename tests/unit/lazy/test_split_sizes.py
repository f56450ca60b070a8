"""Sizes that a program finds, in split functions: what hangs on them waits, and a number that is asked for is a cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests.deferred import deferred
from tests.unit.lazy.test_found_sizes import READ, WAITING
from weft import lazy, nn


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


# where these lie in what has such a size is asked for before they are written
ASKING = {"write parts"}


@pytest.mark.parametrize("name", WAITING)
def test_what_hangs_on_values_waits_in_a_split_function_too(name: str, rng: np.random.Generator) -> None:
    function = WAITING[name]
    step = deferred(function)
    for _ in range(4):
        arrays = [rng.standard_normal((4, 6)).astype(np.float32) for _ in range(2)]
        arrays[0][0] = abs(arrays[0][0])
        plain, given = [[weft.tensor(a) for a in arrays] for _ in range(2)]
        expected, found = function(*plain), step(*given)
        assert type(found) is type(expected)
        for a, b in zip((*_parts(found), *given), (*_parts(expected), *plain), strict=True):
            assert a.shape == b.shape and a.stride() == b.stride() and a.dtype is b.dtype
            assert all([type(d) is int for d in a.shape])
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    if name not in ASKING:
        assert step.cuts == {}
        assert lazy.metrics.counter_value("UncachedCompile") <= 2


@pytest.mark.parametrize("name", READ)
def test_a_size_that_is_read_cuts_at_the_users_line(name: str) -> None:
    def step(x: Any) -> Any:
        found = x[x > 1]
        return READ[name](found), found + 1

    split = deferred(step)
    for i, count in enumerate((3, 5, 2)):
        x = weft.arange(float(count + 2))
        expected, found = step(x), split(x)
        assert found[0] == expected[0] and found[1].tolist() == expected[1].tolist()
        ((cause, times),) = split.cuts.items()
        assert "test_split_sizes.py" in cause or "test_found_sizes.py" in cause
        assert times == i + 1


def test_a_size_is_found_of_memory_as_it_was() -> None:
    """Nobody holds what has the size, and the memory that it comes from is written before anybody asks for it."""

    def step(x: Any) -> tuple[Any, Any, Any]:
        size = x[x > 2].shape[0]
        x.zero_()
        rows = weft.zeros(x[x == 0].shape[0], 2)
        return size, rows, x + size

    split = deferred(step)
    for count in (6, 9, 4):
        x = weft.arange(float(count))
        size, rows, total = split(x)
        assert x.tolist() == [0] * count
        x.fill_(7.0)
        assert size == count - 3 and rows.shape == (count, 2) and total.tolist() == [count - 3] * count


def test_a_call_that_asks_for_a_size_reads_memory_as_it_is_then() -> None:
    """Its operands are values of before the cut that it makes, and their memory is written behind it."""

    def step(x: Any, y: Any) -> Any:
        picked = y[y > 0]
        y.mul_(2)
        narrow = y.narrow_copy(0, 0, (y > 4).nonzero().shape[0])
        total = x.view(-1)[: picked.shape[0]] + picked
        x.add_(total.sum())
        y.sub_(1)
        x.mul_(x.sum())
        return picked, narrow, total

    split = deferred(step)
    for count in (5, 8, 6):
        plain, given = [[weft.arange(float(2 * count)).view(2, -1), weft.arange(float(count))] for _ in range(2)]
        for a, b in zip((*split(*given), *given), (*step(*plain), *plain), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_writes_to_parts_of_what_has_such_a_size() -> None:
    def step(x: Any) -> tuple[Any, ...]:
        found = x[x > 1]
        alias = found[1:]
        alias[0] = 50.0
        found.unsqueeze(0).add_(1)
        x[x > 3] = found[2:].mul_(2)
        return found, alias

    split = deferred(step)
    for count in (5, 8, 6):
        plain, given = weft.arange(float(count)), weft.arange(float(count))
        for a, b in zip((*split(given), given), (*step(plain), plain), strict=True):
            assert a.tolist() == b.tolist() and a.stride() == b.stride()
        found, alias = split(given)
        found.zero_()
        assert not alias.any()  # it still shows the same memory


def test_sizes_that_do_not_fit_are_refused_as_in_eager_mode() -> None:
    @deferred
    def step(x: Any, count: int) -> Any:
        x.add_(1)
        return x[x > 2] + weft.ones(count)

    x = weft.arange(5.0)
    with pytest.raises(RuntimeError, match="must match"):
        step(x, 2)
    assert x.tolist() == [1, 2, 3, 4, 5]
    assert step(x, 4).tolist() == [4, 5, 6, 7]


def test_a_failure_behind_a_mask_is_told_where_it_is_met() -> None:
    sizes = []

    @deferred
    def step(x: Any, at: Any) -> Any:
        good = x[x > 2]
        x.mul_(2)
        bad = x[at]
        sizes[:] = good.shape[0], bad[bad > 0].shape[0]
        x.zero_()
        return good, bad

    x = weft.arange(8.0)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        step(x, weft.tensor([1, 9]))
    assert x.tolist() == [0, 2, 4, 6, 8, 10, 12, 14] and sizes[0] == 5
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        int(sizes[1])
    good, _ = step(weft.arange(8.0), weft.tensor([1, 2]))
    assert good.tolist() == [3, 4, 5, 6, 7] and sizes == [5, 2]


def test_gradients_under_masks_are_one_program_for_all_sizes() -> None:
    weights, cuts = [], {}
    for is_split in (False, True):
        weft.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        optimizer = weft.optim.Adam(model.parameters(), lr=0.1)

        def step(x: Any, i: int, model: Any = model, optimizer: Any = optimizer) -> Any:
            keep = x[:, i] > 0
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[keep]), x[keep][:, :3].argmax(1))
            loss.backward()
            optimizer.step()
            return loss

        call: Callable[..., Any] = deferred(step) if is_split else step
        for i in range(6):
            rows = weft.tensor(np.random.default_rng(i).standard_normal((8 + i, 6)).astype(np.float32))
            call(rows, i)
            if is_split and i == 2:
                cuts, before = dict(call.cuts), lazy.metrics.counter_value("UncachedCompile")  # type: ignore[attr-defined]
        weights.append([p.detach().numpy() for p in model.parameters()])
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert cuts == {}
    assert lazy.metrics.counter_value("UncachedCompile") == before


def test_sizes_leave_nothing_behind() -> None:
    from weft.types.unbacked import KNOWN, alive

    split = deferred(lambda x: x[x > 2] * 2)
    counts = []
    for i in range(12):
        assert len(split(weft.arange(float(5 + i % 4)))) == 2 + i % 4
        counts.append((alive[0], len(KNOWN)))
    assert counts[-1] <= counts[5]


def test_a_slice_up_to_more_than_there_is() -> None:
    """Its size is a number, though its end is none."""

    def step(x: Any, y: Any) -> Any:
        y.set_(x)
        end = weft.cat([y, x[x < 1]]).shape[0]
        return x[:end] + 1, x[:end], y[1 : end + 1]

    split = deferred(step)
    for count in (5, 7):
        for a, b in zip(*[f(weft.arange(float(count)), weft.zeros(2)) for f in (step, split)], strict=True):
            assert a.tolist() == b.tolist()
