"""What was captured and compiled is not compiled again: after a call that fails, for the next instance,
for a function captured anew."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.support.counters import counters


def test_a_first_call_that_fails_keeps_the_program() -> None:
    step = weft.compile(lambda x, i: x.index_select(0, i) * 2)
    before = counters.captures
    for _ in range(3):
        with pytest.raises(IndexError, match="out of bounds"):
            step(weft.ones(3), weft.tensor([7]))
    assert step(weft.ones(3), weft.tensor([1])).tolist() == [2]
    assert counters.captures == before + 1


class Trainer:
    def __init__(self) -> None:
        self.model = weft.nn.Sequential(weft.nn.Linear(3, 5), weft.nn.Tanh(), weft.nn.Linear(5, 1))
        self.opt = weft.optim.Adam(self.model.parameters())

    @weft.compile
    def step(self, x: weft.Tensor) -> weft.Tensor:
        self.opt.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.opt.step()
        return loss


def test_instances_share_their_code() -> None:
    with weft.knobs(cache="off"):
        Trainer().step(weft.ones(4, 3))
        before = counters.llvm_compiles
        trainers = [Trainer() for _ in range(4)]
        losses = [t.step(weft.ones(4, 3)).item() for t in trainers for _ in range(2)]
    assert counters.llvm_compiles == before
    eager = []
    for fresh in trainers:  # the state is each one's own
        with weft.no_grad():
            eager.append(fresh.model(weft.ones(4, 3)).square().mean().item())
    assert len(set(losses)) == len(losses)
    assert all(after < first for after, first in zip(eager, losses[::2], strict=True))


def test_a_shared_program_reads_and_writes_its_own_state() -> None:
    def make(start: float) -> Any:
        state = weft.full((3,), start)

        def step(x: weft.Tensor) -> weft.Tensor:
            state.add_(x)
            return state * 2

        return state, weft.compile(step)

    made = [make(float(i)) for i in range(3)]
    for _ in range(2):
        for i, (state, step) in enumerate(made):
            before = state.tolist()
            assert step(weft.ones(3)).tolist() == [2 * (s + 1) for s in before]
            assert state.tolist() == [s + 1 for s in before]
            assert all(s >= i for s in before)


def test_code_of_another_example_is_taken_only_where_it_fits() -> None:
    """Passes ask what the captured graph leaves open: each answer has code of its own."""

    def fresh() -> Any:
        w = weft.ones(1, 3, requires_grad=True)

        def step(x: weft.Tensor) -> Any:
            (w * x).sum().backward()
            out, w.grad = w.grad, None
            return out

        return weft.compile(step)

    with weft.knobs(cache="off"):
        for rows in (1, 4, 1, 4, 7):
            assert fresh()(weft.full((rows, 3), 2.0)).tolist() == [[2.0 * rows] * 3]
