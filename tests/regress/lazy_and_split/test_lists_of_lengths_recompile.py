"""Packed sequences and other lists of lengths made a program for each new list in split functions: seconds each time.
Lengths are data of one program; a step that is another one each time is run call by call, until it comes again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from weft import lazy, nn
from weft.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence


@pytest.fixture(autouse=True)
def from_zero() -> Iterator[None]:
    lazy.mark_step()
    lazy.metrics.reset()
    yield
    lazy.reset()


def _programs() -> int:
    return lazy.metrics.counter_value("UncachedCompile") or 0


def _lists(count: int, longest: Any, seed: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    found = []
    for i in range(count):
        steps = longest(i)
        found.append(sorted([steps, *(draw.randint(1, steps) for _ in range(3))], reverse=True))
    return found


def _packed_step(kind: Any, device: str = "cpu", **options: Any) -> Any:
    weft.manual_seed(0)
    model = kind(3, 4, **options).to(device)
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, lengths: list[int]) -> Any:
        optimizer.zero_grad()
        out, _ = model(pack_padded_sequence(x, lengths))
        padded, counts = pad_packed_sequence(out, padding_value=0.5)
        loss = padded.square().sum() / counts.sum().to(device)
        loss.backward()
        optimizer.step()
        return loss

    return step, model


def _agree(plain: Any, deferred: Any, lists: list[list[int]]) -> list[int]:
    """Two steps, each with its model, over these lists of lengths; the number of programs after each."""
    programs = []
    for i, lengths in enumerate(lists):
        x = weft.tensor(np.random.default_rng(i).standard_normal((lengths[0], 4, 3)).astype(np.float32))
        expected, found = plain[0](x, lengths), deferred[0](x, lengths)
        np.testing.assert_allclose(found.tolist(), expected.tolist(), rtol=1e-4, atol=1e-6)
        programs.append(_programs())
    for a, b in zip(plain[1].parameters(), deferred[1].parameters(), strict=True):
        np.testing.assert_allclose(b.tolist(), a.tolist(), rtol=1e-4, atol=1e-5)
    return programs


def _split(kind: Any, **options: Any) -> Any:
    step, model = _packed_step(kind, **options)
    return deferred(step), model


@pytest.mark.parametrize(
    ("kind", "options"), [(nn.GRU, {}), (nn.LSTM, {"bidirectional": True}), (nn.RNN, {"num_layers": 2})]
)
def test_lists_of_as_many_steps_are_one_program(kind: Any, options: dict[str, Any]) -> None:
    programs = _agree(_packed_step(kind, **options), _split(kind, **options), _lists(4, lambda i: 4))
    assert programs[0] == programs[-1] == 1


def test_lists_of_other_numbers_of_steps_are_not_compiled_one_by_one() -> None:
    programs = _agree(_packed_step(nn.GRU), _split(nn.GRU), _lists(6, lambda i: 3 + (3 * i) % 7))
    assert programs[-1] == 1


def test_packed_sequences_are_one_program_on_a_lazy_device() -> None:
    step, model = _packed_step(nn.GRU, "lazy")

    def lazily(x: Any, lengths: list[int]) -> Any:
        found = step(x.to("lazy"), lengths)
        lazy.mark_step()
        return found

    assert _agree(_packed_step(nn.GRU), (lazily, model), _lists(5, lambda i: 5))[-1] == 1


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_packing_says_how_many_operators_it_takes_whatever_the_lengths(is_sorted: bool, batch_first: bool) -> None:
    @deferred
    def both(x: Any, lengths: list[int]) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first, enforce_sorted=is_sorted)
        return packed.data * 2, pad_packed_sequence(packed, batch_first, total_length=9)[0]

    for i, lengths in enumerate(_lists(6, lambda i: 3 + i)):
        if not is_sorted:
            lengths = lengths[::-1]
        size = (4, max(lengths), 2) if batch_first else (max(lengths), 4, 2)
        x = weft.tensor(np.random.default_rng(i).standard_normal(size).astype(np.float32))
        data, padded = both(x, lengths)
        rows = x.transpose(0, 1) if batch_first else x
        order = sorted(range(4), key=lambda k: -lengths[k])
        expected = [rows[t, k].tolist() for t in range(max(lengths)) for k in order if lengths[k] > t]
        np.testing.assert_allclose(data.tolist(), 2 * np.array(expected), rtol=1e-6)
        padded = padded.transpose(0, 1) if batch_first else padded
        for k, n in enumerate(lengths):
            np.testing.assert_array_equal(padded[:n, k].tolist(), rows[:n, k].tolist())
            assert not padded[n:, k].any()
    assert _programs() == 1


def test_a_length_beyond_the_input_is_refused() -> None:
    for batch_first in (False, True):
        with pytest.raises(RuntimeError, match="at most 3 steps"):
            pack_padded_sequence(weft.zeros((2, 3, 1) if batch_first else (3, 2, 1)), [4, 2], batch_first)


@pytest.mark.parametrize("name", ["split", "narrow", "sequences", "repeat_interleave", "unflatten"])
def test_lists_as_arguments_are_a_few_programs(name: str) -> None:
    def step(x: Any, lengths: list[int]) -> Any:
        if name == "split":
            return sum((p.mean(0) * (i + 1)).sum() for i, p in enumerate(x[: sum(lengths)].split(lengths)))
        if name == "narrow":
            return weft.cat([x[i, :n] for i, n in enumerate(lengths)]).square().sum()
        if name == "sequences":
            return pack_sequence([x[:n] for n in lengths]).data.sum()
        if name == "unflatten":
            return x[: lengths[0] * lengths[1]].unflatten(0, (lengths[0], lengths[1])).sum(1).square().sum()
        return x[:4].repeat_interleave(weft.tensor(lengths), 0).square().sum()

    f = deferred(step)
    for i, lengths in enumerate(_lists(8, lambda i: 4 + i % 5, seed=3)):
        x = weft.tensor(np.random.default_rng(i).standard_normal((100, 12)).astype(np.float32))
        np.testing.assert_allclose(f(x, lengths).tolist(), step(x, lengths).tolist(), rtol=1e-4)
    assert _programs() <= 3


def test_a_loop_of_another_number_of_steps_each_time_is_compiled_once_it_comes_again() -> None:
    @deferred
    def solve(x: Any, steps: int) -> Any:
        y = x.clone().requires_grad_()
        z = y
        for i in range(steps):
            z = z + 0.1 * (-z * 0.5 + i)
        z.sum().backward()
        return y.grad

    def check(steps: int) -> int:
        found = solve(weft.ones(3), steps)
        np.testing.assert_allclose(found.tolist(), [0.95**steps] * 3, rtol=1e-4)
        return _programs()

    assert [check(steps) for steps in (20, 31, 24, 42, 33, 27)] == [1] * 6
    assert lazy.metrics.counter_value("RunCallByCall") == 5
    assert [check(20) for _ in range(3)] == [1, 1, 1]  # it has a program
    assert [check(24), check(24), check(24)] == [1, 2, 2]  # this one comes again now


def test_no_recompile_names_a_step_that_would_run_call_by_call() -> None:
    @deferred
    def loop(x: Any, steps: int) -> Any:
        for _ in range(steps):
            x = x * 1.5
        return x

    for steps in (40, 41):
        loop(weft.ones(2), steps)
    assert _programs() == 1
    with pytest.raises(RuntimeError, match="no_recompile"), lazy.no_recompile():
        loop(weft.ones(2), 42)


def test_a_step_run_call_by_call_raises_what_its_operators_do() -> None:
    def loop(x: Any, steps: int, at: int) -> Any:
        for _ in range(steps):
            x = x * 1.0 + 1
        return x[weft.tensor([at])]

    for function in (deferred(loop), lambda *args: loop(*args)):
        for steps in (40, 41, 42):
            assert function(weft.zeros(3), steps, 2).tolist() == [steps]
        with pytest.raises(IndexError, match="index 7 is out of bounds"):
            function(weft.zeros(3), 43, 7).tolist()
        assert function(weft.zeros(3), 44, 1).tolist() == [44]


def test_what_a_lazy_step_raises_call_by_call_names_the_line_and_takes_no_other_result_with_it() -> None:
    for steps in (40, 41, 42):
        x = fine = weft.zeros(3, device="lazy")
        for _ in range(steps):
            x, fine = x + 1, fine * 1.5 + 2
        picked = x[weft.tensor([2 if steps < 42 else 7], device="lazy")]
        if steps < 42:
            lazy.mark_step(wait=True)
            assert picked.tolist() == [steps]
            continue
        with pytest.raises(IndexError, match=r"test_lists_of_lengths_recompile.py:\d+: .*index 7 is out of bounds"):
            lazy.mark_step(wait=True)
        assert x.tolist() == [42] * 3
        assert fine.isfinite().all()
    assert lazy.metrics.counter_value("RunCallByCall") == 2


def test_sizes_that_equal_each_other_and_counters_are_no_inputs_of_a_program() -> None:
    cell = nn.GRU(6, 8)

    @deferred
    def forward(x: Any) -> Any:
        return cell(x)[0].square().mean()

    forward(weft.randn(30, 4, 6))
    (backend,) = forward._idle
    (variants,) = backend.where.programs
    (program,) = variants
    assert len([name for name in program.names if name]) <= 8
    assert len(program.graph.env.guards) < 100


LAYERS: dict[str, Any] = {
    "GRU": lambda: nn.GRU(3, 4),
    "LSTM in both directions": lambda: nn.LSTM(3, 4, bidirectional=True, proj_size=2),
    "RNN of two layers": lambda: nn.RNN(3, 4, num_layers=2, batch_first=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_recurrent_layer_is_captured_once_for_any_number_of_steps(name: str) -> None:
    def train(is_compiled: bool) -> tuple[list[Any], int]:
        weft.manual_seed(0)
        model = LAYERS[name]()
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            out, last = model(x)
            loss = out.square().mean() + (last[0] if isinstance(last, tuple) else last).sum()
            (slope,) = weft.autograd.grad(loss, [x], create_graph=True)
            (loss + slope.square().sum()).backward()
            optimizer.step()
            return loss.detach()

        call = weft.compile(step) if is_compiled else step
        weft.counters.reset()
        losses = []
        for i, steps in enumerate((4, 6, 3, 1, 5)):
            size = (2, steps, 3) if model.batch_first else (steps, 2, 3)
            x = weft.tensor(np.random.default_rng(i).standard_normal(size).astype(np.float32), requires_grad=True)
            losses.append(call(x).item())
        return [*losses, *[p.detach().numpy().ravel() for p in model.parameters()]], weft.counters.captures

    expected, _ = train(False)
    found, captures = train(True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert captures <= 2  # one step alone is another question about sizes


def test_the_first_number_of_steps_has_the_program_of_all() -> None:
    """Without loops (WEFT_FOLD=off) it is written out, and the others are one program."""
    for fold, count in (("on", 1), ("off", 2)):
        with weft.knobs(fold=fold):
            model = nn.GRU(3, 4)
            call = weft.compile(lambda x, model=model: model(x)[0].sum())
            weft.counters.reset()
            for steps in (6, 4, 5, 6):
                x = weft.ones(steps, 2, 3)
                np.testing.assert_allclose(call(x).item(), model(x)[0].sum().item(), 1e-5)
            assert weft.counters.captures == count
