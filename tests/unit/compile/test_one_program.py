"""One captured program serves every size, present or missing gradients, and changed numbers of the optimizer;
and it is right."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.cli.gpt import GPT
from weft.cli.recipe import GPTSize
from weft.nn import functional as F

SIZE = GPTSize(width=16, blocks=2, heads=2, context=12)


class Trainer:
    """A small GPT with dropout and AdamW, stepped eagerly or compiled."""

    def __init__(self, backend: str) -> None:
        weft.manual_seed(11)
        self.model = GPT(SIZE, dropout=0.1)
        self.opt = weft.optim.AdamW(self.model.parameters(), lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1)
        self.sgd = weft.optim.SGD(self.model.parameters(), lr=1e-1)
        model, opt, sgd = self.model, self.opt, self.sgd

        def loss_of(x: Any, y: Any) -> Any:
            return F.cross_entropy(model(x).view(-1, 256), y.view(-1))

        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            return loss

        def sgd_step(x: Any, y: Any) -> Any:
            sgd.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            sgd.step()
            return loss

        def accumulate(x: Any, y: Any) -> Any:
            loss = loss_of(x, y)
            loss.backward()
            return loss

        wrap: Callable[[Any], Any] = (
            (lambda f: f) if backend == "eager" else (lambda f: weft.compile(f, backend=backend))
        )
        self.step, self.sgd_step, self.accumulate = wrap(step), wrap(sgd_step), wrap(accumulate)


def batch(size: tuple[int, int], rng: random.Random) -> tuple[Any, Any, int]:
    draw = np.random.default_rng(rng.randrange(1 << 30))
    return weft.tensor(draw.integers(0, 256, size)), weft.tensor(draw.integers(0, 256, size)), rng.randrange(1 << 60)


def run_both(eager: Any, compiled: Any, size: tuple[int, int], rng: random.Random, tolerance: float) -> None:
    x, y, seed = batch(size, rng)
    weft.manual_seed(seed)
    expected = eager(x, y).item()
    weft.manual_seed(seed)
    found = compiled(x, y).item()
    assert abs(found - expected) <= tolerance * abs(expected), (size, found, expected)


def worst(a: Trainer, b: Trainer, grads: bool) -> float:
    pairs = [
        (p.grad, q.grad) if grads else (p, q) for p, q in zip(a.model.parameters(), b.model.parameters(), strict=True)
    ]
    return max(
        float(np.linalg.norm((p - q).detach().numpy()) / (np.linalg.norm(p.detach().numpy()) + 1e-6))
        for p, q in pairs if p is not None
    )


SIZES = [(7, 12), (33, 12), (1, 12), (16, 7), (16, 1), (1, 1), (12, 12)]


@pytest.mark.parametrize("first", [(4, 12), (1, 1), (1, 12), (4, 1)])
def test_every_size_runs_in_the_first_program_bit_for_bit(first: tuple[int, int]) -> None:
    """The interpreter computes with NumPy, and so does eager mode here (with native code, sums over large arrays
    have another order)."""
    with weft.knobs(backend="numpy"):
        check_bits(first)


def check_bits(first: tuple[int, int]) -> None:
    rng = random.Random(str(first))
    eager, compiled = Trainer("eager"), Trainer("interpret")
    weft.counters.reset()
    for size in [first, *rng.sample(SIZES, 4)]:
        run_both(eager.step, compiled.step, size, rng, 0.0)
    for key, value in (("lr", 3e-3), ("betas", (0.8, 0.95))):
        for trainer in (eager, compiled):
            trainer.opt.param_groups[0][key] = value
        run_both(eager.step, compiled.step, (rng.randrange(1, 9), rng.randrange(1, 13)), rng, 0.0)
    assert worst(eager, compiled, grads=False) == 0.0
    assert weft.counters.captures == 1 and weft.counters.guard_misses == 0


def test_the_native_program_is_one_and_right() -> None:
    rng = random.Random(os.environ["WEFT_TEST_SEED"])
    eager, compiled = Trainer("eager"), Trainer("llvm")
    run_both(eager.sgd_step, compiled.sgd_step, (rng.randrange(2, 6), 12), rng, 1e-5)
    weft.counters.reset()
    for size in rng.sample(SIZES, len(SIZES)):
        run_both(eager.sgd_step, compiled.sgd_step, size, rng, 1e-5)
    for trainer in (eager, compiled):
        trainer.sgd.param_groups[0]["lr"] = 3e-3
    run_both(eager.sgd_step, compiled.sgd_step, (5, 5), rng, 1e-5)
    assert worst(eager, compiled, grads=False) < 1e-4
    found = weft.counters
    assert (found.captures, found.llvm_compiles, found.foreign_segments) == (0, 0, 0)
    assert found.native_calls == len(SIZES) + 1


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_gradients_accumulate_whether_present_or_not(backend: str) -> None:
    rng = random.Random(os.environ["WEFT_TEST_SEED"])
    eager, compiled = Trainer("eager"), Trainer(backend)
    weft.counters.reset()
    for size, clear in (((4, 12), True), ((5, 9), False), ((1, 12), False), ((3, 3), True), ((2, 12), False)):
        if clear:
            for trainer in (eager, compiled):
                for p in trainer.model.parameters():
                    p.grad = None
        before = [p.grad for p in compiled.model.parameters()]
        run_both(eager.accumulate, compiled.accumulate, size, rng, 1e-5)
        assert worst(eager, compiled, grads=True) < 1e-4
        after = [p.grad for p in compiled.model.parameters()]
        # an accumulated gradient keeps its identity
        assert all(b is None or b is a for a, b in zip(after, before, strict=True))
    assert weft.counters.captures == 1


def test_what_the_user_keeps_survives_the_next_step() -> None:
    rng = random.Random(os.environ["WEFT_TEST_SEED"])
    trainer = Trainer("llvm")
    x, y, _ = batch((3, 12), rng)
    loss = trainer.step(x, y)
    parameter = next(trainer.model.parameters())
    address = parameter.data_ptr()
    kept, view, value = parameter.grad, parameter.grad.view(-1), loss.item()
    copies = kept.numpy().copy()
    trainer.step(*batch((2, 12), rng)[:2])
    assert (
        np.array_equal(kept.numpy(), copies) and np.array_equal(view.numpy(), copies.reshape(-1))
        and loss.item() == value
    )
    assert parameter.grad is not kept and parameter.data_ptr() == address
