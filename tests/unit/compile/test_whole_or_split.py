"""weft.compile(function, split=True): which calls are whole programs, and what happens where they are not."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.support import limits


def doubled(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else -x


def test_numbers_are_given_and_kept_without_a_cut(rng: np.random.Generator) -> None:
    w, seen = weft.ones(3, requires_grad=True), []

    @weft.compile(split=True)
    def step(x: Any) -> Any:
        loss = ((w - x) ** 2).mean()
        loss.backward()
        with weft.no_grad():
            w.sub_(w.grad, alpha=0.5)
        w.grad = None
        seen.append(loss.item())
        return loss.item()

    captures = weft.counters.captures
    mine, losses = np.ones(3), []
    for _ in range(5):
        x = rng.uniform(-1, 1, 3).astype(np.float32)
        losses.append(((mine - x) ** 2).mean())
        mine -= (mine - x) / 3
        assert type(given := step(weft.tensor(x))) is float and abs(given - losses[-1]) < 1e-5
    np.testing.assert_allclose(seen, losses, 1e-5)
    np.testing.assert_allclose(w.detach().numpy(), mine, 1e-5)
    assert step.is_whole and not step.cuts and weft.counters.captures - captures <= 2


def test_an_error_that_the_function_catches(rng: np.random.Generator) -> None:
    table = weft.arange(4.0)

    @weft.compile(split=True)
    def looked_up(index: Any) -> Any:
        try:
            return table[index]
        except IndexError:
            return weft.tensor(-1.0)

    for index in (1, 3, 9, 2, 7):
        assert looked_up(weft.tensor([index])).sum().item() == (index if index < 4 else -1)


def test_an_error_leaves_what_eager_mode_leaves() -> None:
    total, calls = weft.zeros(2), []

    @weft.compile(split=True)
    def step(x: Any) -> Any:
        calls.append(len(calls))
        total.add_(x)
        if x.sum() > 10:
            raise ValueError("too large")
        return total.sum().item()

    assert step(weft.ones(2)) == 2 and step(weft.ones(2)) == 4
    with pytest.raises(ValueError, match="too large"):
        step(weft.full((2,), 6.0))
    assert total.tolist() == [8, 8] and calls == [0, 1, 2]
    assert step(weft.ones(2)) == 18 and step.is_whole


def test_a_call_that_ran_is_not_made_again() -> None:
    class Owner:
        limit, total, _last = 2, weft.zeros(()), 0.0

        @property
        def last(self) -> float:
            return self._last

        @last.setter
        def last(self, value: float) -> None:
            self._last = value
            if value > self.limit:
                raise ValueError("limit")

    owner = Owner()

    @weft.compile(split=True)
    def step(x: Any) -> None:
        owner.total.add_(x)
        owner.last = owner.total.item()

    for expected in (1, 2):
        step(weft.ones(()))
        assert owner.total.item() == expected == owner.last
    with pytest.raises(ValueError, match="limit"):
        step(weft.ones(()))
    assert owner.total.item() == 3


@pytest.mark.parametrize("size", [8, 1 << 17])
def test_what_no_program_can_do_runs_as_python(size: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Small operators run one by one, those on much memory as programs; all of them at every call."""

    @weft.compile(split=True)
    def step(x: Any) -> Any:
        y = (x * 2).sin()
        print(f"{y.numpy().max():.1f}")
        return y + 1

    for scale in (1.0, 2.0, 3.0):
        x = weft.full((size,), scale)
        np.testing.assert_allclose(step(x).numpy(), np.sin(2 * x.numpy()) + 1, 1e-5)
    assert capsys.readouterr().out == "".join(f"{np.sin(2 * s):.1f}\n" for s in (1, 2, 3))
    assert not step.is_whole and step.runs_eagerly == (size == 8) and step.cuts
    assert "numpy()" in step.misses[-1] and any(len(v) for d in step.devices for v in d.programs) == (size > 8)


def test_what_changes_at_every_call_is_not_captured_for_ever() -> None:
    table: dict[int, Any] = {}

    @weft.compile(split=True)
    def step(x: Any) -> Any:
        table[len(table)] = x * 2
        return x + len(table)

    captures = weft.counters.captures
    for i in range(4 * limits.CAPTURES_OF_A_SPLIT_FUNCTION):
        assert step(weft.ones(2)).tolist() == [i + 2] * 2
    assert weft.counters.captures - captures <= limits.CAPTURES_OF_A_SPLIT_FUNCTION


def test_more_answers_than_a_program_has_are_left_to_python() -> None:
    @weft.compile(split=True)
    def halved(x: Any) -> Any:
        count = 0
        while x.sum() > 1:
            x, count = x / 2, count + 1
        return count

    for power in (3, limits.ANSWERS_OF_A_PROGRAM + 4, 2):
        assert halved(weft.tensor([2.0**power])) == power


def test_integers_are_symbols_until_python_wants_the_number() -> None:
    rows = [weft.full((2,), float(i)) for i in range(4)]

    @weft.compile(split=True)
    def chosen(x: Any) -> Any:
        k = int(x.argmax())
        return rows[k], k, x * k

    captures = weft.counters.captures
    for best in (2, 0, 2, 3, 0, 2):
        x = weft.zeros(4)
        x[best] = 1
        row, k, scaled = chosen(x)
        assert row is rows[best] and k == best and scaled.sum().item() == best
    assert chosen.is_whole and weft.counters.captures - captures == 3  # the numbers that came


def test_generators_methods_modules_copies_and_pickles() -> None:
    @weft.compile(split=True)
    def parts(x: Any) -> Iterator[Any]:
        yield x * 2
        yield (x.sum().item(), x + 1)

    assert [parts(weft.ones(1)).__next__().item(), list(parts(weft.ones(1)))[1][0]] == [2, 1]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(weft.ones(()))

        def forward(self, x: Any) -> Any:
            return x * self.scale if x.sum() > 0 else x * 0

        @weft.compile(split=True)
        def norm(self, x: Any) -> Any:
            return self(x).norm().item()

    net = Net()
    compiled = weft.compile(net, split=True)
    for sign in (1, -1, 1):
        x = weft.full((2,), 3.0 * sign)
        assert compiled(x).tolist() == [max(3.0 * sign, 0)] * 2
        assert abs(net.norm(x) - (18**0.5 if sign > 0 else 0)) < 1e-5
    one = weft.compile(doubled, split=True)
    assert one(weft.ones(2)).tolist() == [2, 2] and one(-weft.ones(2)).tolist() == [1, 1]
    for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one)), copy.deepcopy(compiled)):
        assert again(weft.ones(2)).sum().item() in (2, 4)


def test_nothing_is_lost_to_a_call_that_was_no_program() -> None:
    """What could not be put back is refused before it happens, and what cannot be compared is read by Python."""
    items, pairs, large = iter([1.0, 2.0, 3.0, 4.0]), zip([1.0, 2.0, 3.0, 4.0], "abcd", strict=True), np.zeros(1 << 18)

    def looped(x: Any) -> Any:
        for item in items:
            return x * item

    def unpacked(x: Any) -> Any:
        for item, _ in pairs:
            return x * item

    def read(x: Any) -> Any:
        return x * float(large[5])

    for function in (looped, unpacked, read):
        split = weft.compile(function, split=True)
        for i in range(1, 5):
            large[5] = i
            assert split(weft.ones(2)).tolist() == [i, i], function.__name__
