"""Loops over a size, or over a number that is an argument, called with many lengths: which are one program, which must
be one for each length, and what they compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.counters import counters

Function = Callable[..., Any]
LONG = (14, 17, 19, 12)
SHORT = (0, 1, 3, 7)


class Cell(weft.nn.Module):
    """A cell of the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.of_row, self.of_state, self.scale = weft.nn.Linear(3, 3), weft.nn.Linear(3, 3), 0.5

    def forward(self, row: Any, state: Any) -> Any:
        return weft.tanh(self.of_row(row) * self.scale + self.of_state(state))


def given(call: int, length: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng([call, length])
    return tuple(weft.tensor(rng.normal(size=s), requires_grad=True) for s in ((length, 3), (3,), (3,)))  # type: ignore[return-value]


def results(function: Function, arguments: tuple[Any, ...], parameters: Any = ()) -> list[Any]:
    """What a call gives, and the gradients of a sum over it."""
    for p in parameters:
        p.grad = None
    out = function(*arguments)
    out = list(out) if isinstance(out, tuple) else [out]
    loss = sum((o * o).sum() for o in out if isinstance(o, weft.Tensor))
    if isinstance(loss, weft.Tensor):
        loss.backward()
    seen = [o.detach().numpy().copy() if isinstance(o, weft.Tensor) else o for o in out]
    return seen + [None if a.grad is None else a.grad.numpy().copy() for a in (*arguments[:3], *parameters)]


def programs(function: Function, lengths: tuple[int, ...], parameters: Any = (), more: bool = False) -> int:
    """How many programs calls of these lengths make, each of which gives what eager mode does. more: the length is an
    argument of its own."""
    step = weft.compile(function)
    for call, n in enumerate(lengths):
        mine, eager = (
            results(f, (*given(call, n + 3 * more), *([n] if more else [])), parameters) for f in (step, function)
        )
        assert len(mine) == len(eager)
        for a, b in zip(mine, eager, strict=True):
            if isinstance(a, np.ndarray):
                np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
            else:
                assert a == b
    return len(step.entries)


def twice(v: Any) -> Any:
    return v * 2 + v.sum() * 0.1


def over_a_size(x: Any, h: Any, w: Any) -> Any:
    scale = 1.0
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t])
        scale = 0.3 * h.ndim
        h = twice(h) * scale * 0.3
    return h * scale


def over_len_and_back(x: Any, h: Any, w: Any) -> Any:
    before = h
    for t in range(1, len(x)):
        before = h
        h = weft.tanh(h * w + x[t] * x[t - 1])
    return h, before


def over_rows(x: Any, h: Any, w: Any) -> Any:
    for row in x:
        h = weft.tanh(h * w + row)
    return h


def over_pairs(x: Any, h: Any, w: Any) -> Any:
    loss = 0.0
    for a, b in zip(x, x * 2, strict=False):
        h = weft.tanh(h * w + a) * b.cos()
        loss = loss + (h * h).sum()
    return loss


def over_numbered_rows(x: Any, h: Any, w: Any) -> Any:
    path = [h]
    for t, row in enumerate(x):
        h = weft.tanh(h * w + row) * x[t]
        path.append(h)
    return weft.stack(path, 1), weft.cat(path), h


def over_a_state_of_two(x: Any, h: Any, w: Any) -> Any:
    state = (h, h * 2)
    for t in range(x.shape[0]):
        a, b = state
        state = (weft.tanh(a * w + x[t]), b * 0.9 + a * 0.1)
    return state[0] * state[1]


def over_a_later_dim(x: Any, h: Any, w: Any) -> Any:
    columns = x.transpose(0, 1)
    others = (columns * 2).contiguous()
    for t in range(columns.shape[1]):
        h = weft.tanh(h * w + columns[:, t] * others[..., t])
    return h


def over_the_end_of_a_list(x: Any, h: Any, w: Any) -> Any:
    path, sums = [h, h * 2], [h.sum()]
    for row in x:
        path.append(weft.tanh(path[-1] * w + row))
        sums.append(path[-1].sum())
    return weft.stack(sums), weft.stack(path[1:]) * sums[-1]


def rate(t: int) -> float:
    return 0.1 * t if t else 1.0


def with_numbers_of_the_index(x: Any, h: Any, w: Any) -> Any:
    loss = 0.0
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t] * t) * 0.9**t + weft.add(x[t] / (t + 1), rate(t))
        loss = loss + (h * h).sum() * math.exp(-t / 50)
    return loss


def with_a_first_iteration(x: Any, h: Any, w: Any) -> Any:
    for t, row in enumerate(x, 1):
        last = t - 1
        h = weft.tanh(h * w + row.mul(max(t, 1))) if t > 1 else h + row
        if last > 0:
            h = h - last
        if t == 1:
            h = h * 7
    return h


def without_history(x: Any, h: Any, w: Any) -> Any:
    mean, seen = w, h * 0
    for t in range(x.shape[0]):
        with weft.no_grad():
            mean = mean * 0.9 + x[t] * 0.1
            with weft.enable_grad():
                seen = seen * 0.5 + x[t] * w
        h = weft.tanh(h.detach() * w + (x[t] - mean) * h) - x[t].detach() * w
    return h, mean, seen


@pytest.mark.parametrize("function", [
    over_a_size, over_len_and_back, over_rows, over_pairs, over_numbered_rows, over_a_state_of_two, over_a_later_dim,
    without_history, over_the_end_of_a_list, with_numbers_of_the_index, with_a_first_iteration,
])  # fmt: skip
def test_one_program(function: Function) -> None:
    assert programs(function, LONG) == 1
    programs(function, (SHORT[0], LONG[0], *SHORT[1:], LONG[1]))


def with_parts_of_lists(x: Any, h: Any, w: Any) -> Any:
    path, roots, other = [h], [], []
    for t in range(x.shape[0]):
        path.append(h)
        roots.append(weft.sqrt(h - h + max(t - 3, 0)))
        h = weft.tanh(h * w + x[t])
        other.append(h)
    return weft.stack(path[3:]), weft.cat(other[:-1]), h, other[-2], weft.stack(roots[4:-2])


def test_parts_of_lists() -> None:
    """Nothing flows into the others, where a zero times infinity would be NaN."""
    assert programs(with_parts_of_lists, LONG[:3]) == 1
    programs(with_parts_of_lists, (9, 14, 8))
    bits = []
    for fold in ("on", "off"):
        with weft.knobs(fold=fold):
            step = weft.compile(with_parts_of_lists)
            bits.append([v.tobytes() for v in results(step, given(0, 12))])
    assert bits[0] == bits[1]


def over_many_lines(x: Any, h: Any, w: Any) -> Any:
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t]) + w * 0.1 - weft.sin(h * 0.5 + weft.cos(h * 0.25 + weft.sin(h * w) * 0.5) * 0.5)
        h = weft.tanh(h * w + x[t]) + w * 0.2 - weft.sin(h * 0.5 + weft.cos(h * 0.25 + weft.sin(h * w) * 0.5) * 0.5)
        h = weft.tanh(h * w + x[t]) + w * 0.3 - weft.sin(h * 0.5 + weft.cos(h * 0.25 + weft.sin(h * w) * 0.5) * 0.5)
        h = weft.tanh(h * w + x[t]) + w * 0.4 - weft.sin(h * 0.5 + weft.cos(h * 0.25 + weft.sin(h * w) * 0.5) * 0.5)
    return h


def test_a_body_whose_jump_back_needs_a_prefix() -> None:
    assert programs(over_many_lines, LONG) == 1


def test_a_training_loop_of_twenty_lengths() -> None:
    """One capture, one compilation: with a list, a loss, backward and an optimizer, and lengths down to the shortest
    that the capture's own steps include."""
    weft.manual_seed(3)
    cell, head = Cell(), weft.nn.Linear(3, 1)
    parameters = [*cell.parameters(), *head.parameters()]
    optimizer = weft.optim.Adam(parameters, lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        state, states, loss = weft.zeros(3), [], 0.0
        for t in range(x.shape[0]):
            state = cell(x[t], state)
            states.append(state)
            loss = loss + (head(state) - y[t]).square().mean()
        loss = loss / x.shape[0] + weft.stack(states).abs().mean()
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(26)
    lengths = [int(n) for n in rng.permutation(np.arange(4, 60))[:20]]
    run = weft.compile(step)
    before = counters.captures
    start = [p.detach().clone() for p in parameters]
    series = [(weft.randn(n, 3), weft.randn(n, 1)) for n in (max(lengths), *lengths)]
    compiled = [run(*each).item() for each in series]
    assert counters.captures - before == 1
    with weft.no_grad():
        for p, value in zip(parameters, start, strict=True):
            p.copy_(value)
    optimizer.state.clear()
    np.testing.assert_allclose(compiled, [step(*each).item() for each in series], rtol=2e-3)


def test_a_module_of_the_users() -> None:
    cell = Cell().to(weft.float64)

    def run(x: Any, h: Any, w: Any) -> Any:
        path = []
        for t in range(x.shape[0]):
            h = cell(x[t], h)
            path.append(h * w)
        return weft.stack(path), h

    assert programs(run, LONG, list(cell.parameters())) == 1


def test_a_number_that_is_an_argument() -> None:
    def run(x: Any, h: Any, w: Any, steps: int) -> Any:
        for t in range(steps):
            h = weft.tanh(h * w + x[t])
            h = h * 0.9 + h * h * 0.1
        return h

    def free(x: Any, h: Any, w: Any, steps: int) -> Any:
        h = h + x.sum(0)
        for _ in range(steps):
            h = weft.tanh(h * w)
            h = h * 0.9 + h * h * 0.1
        return h

    assert programs(run, LONG, more=True) <= 3
    assert programs(free, LONG, more=True) <= 3


def test_rows_that_are_not_there_raise_as_in_eager_mode() -> None:
    other = weft.ones(22, 3, dtype=weft.float64)

    @weft.compile
    def run(x: Any, h: Any) -> Any:
        for t in range(x.shape[0]):
            h = weft.tanh(h + x[t]) * other[t]
        return h

    for n in (20, 21, 22, 18, 23, 20, 30):
        x, h, _ = given(0, n)
        if n <= 22:
            run(x, h)
        else:
            with pytest.raises(weft.WeftError, match="out of bounds"):
                run(x, h)
    assert len(run.entries) == 1


class Settings:
    dt = 0.1


def test_numbers_of_the_index_and_of_a_setting_that_changes() -> None:
    """One capture while the setting stays, one once it has changed; both serve all lengths, but where Python raises."""
    settings = Settings()

    def run(x: Any, h: Any, w: Any, scale: float) -> Any:
        half, path = settings.dt * 0.5, []
        for t in range(x.shape[0]):
            time = (t + 0.5) * settings.dt
            h = h + half * (weft.sin(w * time + x[t] * -(t * scale)) - h * (scale / (t + 1))) + (1 - time / scale)
            path.append(h * half)
        return weft.stack(path), h

    def inverse(x: Any, h: Any, w: Any, scale: float) -> Any:
        for t in range(x.shape[0]):
            h = weft.tanh(h + w * x[t]) * (1 / (1.5 - t * settings.dt))
        return h

    def seen(function: Function, call: int, n: int, *more: float) -> list[Any]:
        try:
            return results(lambda *arguments: function(*arguments, *more), given(call, n))
        except ZeroDivisionError:
            return []

    for function, scales in ((run, (1.0, 2.0, 3.0)), (inverse, (1.0, 1.0, 1.0))):
        step = weft.compile(function)
        for call, (n, scale) in enumerate(zip((11, 14, 12), scales, strict=True)):
            settings.dt = (0.1, 0.05, 0.15)[call]
            folded, eager = seen(step, call, n, scale), seen(function, call, n, scale)
            for a, b in zip(folded, eager, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
        assert len(step.entries) == 2
        with weft.knobs(fold="off"):
            unrolled = weft.compile(function)
            settings.dt = 0.07
            seen(unrolled, 3, 12, scales[0])
            settings.dt = 0.08
            bits = [[v.tobytes() for v in seen(f, 4, 12, scales[1])] for f in (step, unrolled)]
        assert bits[0] == bits[1]


def test_more_iterations_than_numbers_of_the_index_are_another_program() -> None:
    assert programs(with_a_first_iteration, (14, 20, 1100, 30)) == 2


# ---- one program for each length
class Counter:
    n = 0

    def __call__(self, v: Any) -> Any:
        self.n += 1
        return v * 0.5 if self.n < 19 else v


def by_index(x: Any, h: Any, w: Any) -> Any:
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t])
        h = h * 2 if t == 15 else h * 1.5
    return h


def by_a_call_with_the_index(x: Any, h: Any, w: Any) -> Any:
    def late(v: Any, t: int) -> Any:
        return v * 2 if t > 18 else v

    for t in range(x.shape[0]):
        h = late(weft.tanh(h * w + x[t]), t) * 0.9
    return h


def by_an_object(x: Any, h: Any, w: Any) -> Any:
    count = Counter()
    for t in range(x.shape[0]):
        h = count(weft.tanh(h * w + x[t])) * 0.9
    return h


def by_an_iterator(x: Any, h: Any, w: Any) -> Any:
    factors = iter([0.5] * 17 + [0.9] * 99)
    for row in x:
        h = weft.tanh(h * w + row) * 0.5
        h = h * next(factors)
    return h


def by_an_item(x: Any, h: Any, w: Any) -> Any:
    factors = [0.5] * 17 + [0.9] * 99
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t]) * 0.5
        h = h * factors[t]
    return h


def by_a_number_of_later_iterations(x: Any, h: Any, w: Any) -> Any:
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t] * (t // 20))
    return h


def by_a_break(x: Any, h: Any, w: Any) -> Any:
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t]) * 0.9
        if t == 14:
            break
    return h


def by_turns(x: Any, h: Any, w: Any) -> Any:
    a, b = h, w
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t]) * 0.9
        a, b = b, a
    return h * a


def with_a_count(x: Any, h: Any, w: Any) -> Any:
    count = 0
    for row in x:
        h = weft.tanh(h * w + row) * 0.9
        count = count + 1
    return h * count, count


def with_the_last_index(x: Any, h: Any, w: Any) -> Any:
    t = 0
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t]) * 0.9
    return h * t


def with_the_length_of_a_list(x: Any, h: Any, w: Any) -> Any:
    path = []
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t]) * 0.9
        path.append(h)
    return h * len(path)


def with_an_item_of_a_list(x: Any, h: Any, w: Any) -> Any:
    path = []
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t]) * 0.9
        path.append(h)
    return path[-1] + path[2]


def with_what_a_container_has(x: Any, h: Any, w: Any) -> Any:
    held: dict[Any, int] = {}
    more: list[Any] = []
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t]) * 0.9
        held.setdefault(h, 1)
        more += [h]
    return h * len(held), len(more)


def with_another_name_of_a_list(x: Any, h: Any, w: Any) -> Any:
    path: list[Any] = []
    kept = {"path": path}
    for t in range(x.shape[0]):
        h = weft.tanh(h * w + x[t]) * 0.9
        path.append(h)
    return h * len(kept["path"])


@pytest.mark.parametrize("function", [
    by_index, by_a_call_with_the_index, by_an_object, by_an_iterator, by_an_item, by_a_number_of_later_iterations,
    by_a_break, by_turns, with_a_count,
    with_the_last_index, with_the_length_of_a_list, with_an_item_of_a_list, with_what_a_container_has,
    with_another_name_of_a_list,
])  # fmt: skip
def test_a_program_for_each_length(function: Function) -> None:
    lengths = (16, 25, 17)
    assert programs(function, lengths) == len(lengths)


# ---- gradients
def test_second_gradients() -> None:
    """Those of a program's results that are taken outside of it."""
    for function in (without_history, with_numbers_of_the_index):
        step = weft.compile(function)
        for call, n in enumerate(LONG):
            twice = []
            for f in (step, function):
                arguments = given(call, n)
                out = f(*arguments)
                out = out[0] if isinstance(out, tuple) else out
                first = weft.autograd.grad(out.square().sum(), arguments, create_graph=True)
                loss = sum((g * g).sum() for g in first)
                twice.append([g.detach().numpy() for g in (*first, *weft.autograd.grad(loss, arguments))])
            for a, b in zip(*twice, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
        assert len(step.entries) == 1


def test_rows_have_the_bits_of_the_unrolled_program() -> None:
    """Sums of gradients of a row in their order, and 0.0 where zeros are added to -0.0; rows that an iterator gives are
    added to nothing."""

    def several(x: Any, h: Any, w: Any) -> Any:
        for t in range(len(x) - 2):
            h = weft.sin(h) * 0.5 + weft.sin(x[t]) * w * x[t + 1] + weft.cos(x[t + 2] * x[t])
        return h

    def each(x: Any, h: Any, w: Any) -> Any:
        for row in x:
            h = h * 0.5 + row * w
        return h

    for function in (several, each):
        bits = []
        for fold in ("on", "off"):
            with weft.knobs(fold=fold):
                step = weft.compile(function)
                for n in (12, 15):
                    x, h, _ = given(1, n)
                    w = weft.tensor([-0.0, 1.0, 2.0], dtype=weft.float64)
                    step(x, h, w).sum().backward()
                    bits.append(x.grad.numpy().tobytes() + h.grad.numpy().tobytes())
        assert bits[:2] == bits[2:]
