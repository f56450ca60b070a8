"""Programs live as long as what they are of: instances with compiled methods, cells of a notebook that are run again,
functions out of scope."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import weakref
from typing import Any

import pytest

import weft
from weft.support.counters import counters
from weft.types.tensor_type import tensor_type


class Trainer:
    def __init__(self, width: int = 4) -> None:
        self.model = weft.nn.Sequential(weft.nn.Linear(3, width), weft.nn.Tanh(), weft.nn.Linear(width, 1))
        self.opt = weft.optim.AdamW(self.model.parameters(), lr=0.1)
        self.steps = 0
        self.friends = [self]  # what a trainer owns may lead back to it

    @weft.compile
    def step(self, x: weft.Tensor) -> weft.Tensor:
        self.opt.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.opt.step()
        self.steps += 1
        return loss.detach() * len(self.friends)

    @weft.compile
    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.model(x)


class Doubled(Trainer):
    @weft.compile
    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return super().forward(x) * 2


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @weft.compile
    def times(self, x: weft.Tensor) -> weft.Tensor:
        return x * self.scale


def parts(trainer: Trainer) -> list[Any]:
    entries = [e for f in (trainer.step, trainer.forward) for e in f.entries]
    return [weakref.ref(x) for x in (
        trainer, trainer.model, trainer.model[0].weight, trainer.opt, *entries, *(e.executable.program for e in entries)
    )]


def alive(refs: list[Any]) -> int:
    gc.collect()
    return sum(r() is not None for r in refs)


@pytest.mark.parametrize("kind", [Trainer, Doubled])
def test_instances_die_with_their_programs(kind: Any) -> None:
    refs: list[Any] = []
    for _ in range(5):
        trainer = kind()
        for _ in range(3):
            trainer.step(weft.ones(2, 3))
        trainer.forward(weft.ones(2, 3)).sum().backward()
        refs += parts(trainer)
        del trainer
    assert len(refs) >= 5 * 8
    assert alive(refs) == 0


def test_a_cell_that_is_run_again_leaves_nothing() -> None:
    names: dict[str, Any] = {"weft": weft, "x": weft.ones(2, 3)}
    cell = """
model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.Tanh(), weft.nn.Linear(4, 1))
opt = weft.optim.AdamW(model.parameters())
history = []

class Trainer:
    @weft.compile
    def step(self, x):
        return model(x).sum()

@weft.compile
def step(x):
    opt.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    opt.step()
    return loss

for _ in range(2):
    history.append(step(x))
trainer = Trainer()
history.append(trainer.step(x))
history.append(weft.compile(model)(x))
"""
    refs: list[Any] = []
    for i in range(6):
        exec(compile(cell, f"<cell {i}>", "exec"), names)
        found = [names[n] for n in ("model", "opt", "Trainer", "step", "trainer")]
        refs.append([weakref.ref(x) for x in (*found, names["model"][0].weight, *names["step"].entries)])
    assert [alive(r) for r in refs[:-1]] == [0] * 5
    assert alive(refs[-1]) == len(refs[-1])


def test_each_instance_has_its_own_method() -> None:
    first, second, x = Trainer(4), Trainer(5), weft.ones(2, 3)
    assert first.step is first.step is not second.step
    before = counters.captures
    for _ in range(2):
        assert weft.allclose(first.forward(x), first.model(x))
        assert weft.allclose(second.forward(x), second.model(x))
    assert counters.captures == before + 2
    assert (len(first.forward.entries), len(second.forward.entries), len(Trainer.forward.entries)) == (1, 1, 0)
    assert Doubled().forward(x).shape == (2, 1)


def test_copies_and_pickles_start_anew() -> None:
    trainer, x = Trainer(), weft.ones(2, 3)
    first = trainer.forward(x)
    for other in (copy.deepcopy(
        trainer
    ), pickle.loads(pickle.dumps(trainer)), copy.copy(trainer), copy.deepcopy(trainer.forward).function.__self__):
        assert other is not trainer
        assert other.forward is not trainer.forward
        with weft.no_grad():
            other.model[2].bias.add_(1)
        assert weft.allclose(other.forward(x), other.model(x))
    assert weft.allclose(trainer.forward(x), first + 1)  # (the shallow copy has the same model)
    again = pickle.loads(pickle.dumps(trainer.forward))
    assert again(x).tolist() == trainer.forward(x).tolist()
    assert again.function.__self__.forward is again


def test_what_an_instance_has_stays_comparable_and_writable_as_text() -> None:
    class Plain:
        def __init__(self) -> None:
            self.k = 2.0

        @weft.compile
        def times(self, x: weft.Tensor) -> weft.Tensor:
            return x * self.k

    first, second = Plain(), Plain()
    assert first.times(weft.ones(1)).item() == second.times(weft.ones(1)).item() == 2
    assert vars(first) == vars(second)
    assert json.loads(json.dumps(vars(first)))["k"] == 2


def test_instances_without_a_dict() -> None:
    for scale in (2.0, 3.0, 2.0):
        assert Slotted(scale).times(weft.ones(2)).tolist() == [scale] * 2


def test_types_of_sizes_that_nobody_uses_are_forgotten() -> None:
    refs = [weakref.ref(tensor_type(weft.float32, (n, 3, 1, 7))) for n in range(40000)]
    assert alive(refs) <= 1 << 14
    kept = tensor_type(weft.float32, (5, 3, 1, 7))
    for n in range(20000):
        tensor_type(weft.float32, (n, 3, 1, 7, 1))
    assert tensor_type(weft.float32, (5, 3, 1, 7)) is kept
