"""A step draws from whichever generators its Python names: each is an input and an output of the program."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Generator, Tensor

Drawn = tuple[Any, ...]


def _several(g: Generator, x: Tensor) -> Drawn:
    return (
        weft.rand(3, generator=g), weft.randn(3), weft.zeros(3).normal_(generator=g), weft.randperm(4, generator=g),
        weft.randint(0, 5, (3,), generator=g)
    )


def _as_many_as_found(g: Generator, x: Tensor) -> Drawn:
    return weft.rand(x[x > 0].shape[0], generator=g), weft.rand(2, generator=g)


def _forked(g: Generator, x: Tensor) -> Drawn:
    before = weft.rand(2)
    with weft.random.fork_rng():
        aside = weft.rand(3)
    return before, aside, weft.rand(3)


def _seeded(g: Generator, x: Tensor) -> Drawn:
    weft.manual_seed(7)
    g.manual_seed(2)
    return weft.rand(3), weft.randn(2), weft.rand(2, generator=g)


def _made_inside(g: Generator, x: Tensor) -> Drawn:
    mine = Generator().manual_seed(3)
    return weft.rand(3, generator=mine), weft.randn(2)


def _went_back(g: Generator, x: Tensor) -> Drawn:
    state = g.get_state()
    first, twin = weft.rand(2, generator=g), g.clone_state()
    g.set_state(state)
    return first, weft.rand(3, generator=g), weft.rand(2, generator=twin)


def _branches(g: Generator, x: Tensor) -> Drawn:
    both = weft.cond(
        x.sum() > 0, lambda: weft.rand(2, generator=g) + weft.rand(2), lambda: weft.rand(2, generator=g) - weft.rand(2)
    )
    return both, weft.rand(1, generator=g)


STEPS = {
    f.__name__.strip("_"): f
    for f in (_several, _as_many_as_found, _forked, _seeded, _made_inside, _went_back, _branches)
}


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_moves_its_generators_as_eager_mode_does(name: str, backend: str) -> None:
    step: Callable[[Generator, Tensor], Drawn] = STEPS[name]
    mine, theirs = Generator().manual_seed(5), Generator().manual_seed(5)
    compiled = weft.compile(step, backend=backend)
    for call in range(4):
        x, seed = weft.randn(3 + call), random.randrange(1 << 40)
        if call == 3:
            mine.manual_seed(seed)
            theirs.manual_seed(seed)
        weft.manual_seed(seed)
        expected = step(theirs, x)
        after = weft.default_generator.place()[::2]
        weft.manual_seed(seed)
        found = compiled(mine, x)
        assert all(weft.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert weft.default_generator.place()[::2] == after and mine.place()[::2] == theirs.place()[::2]
    assert not compiled.misses


def test_another_thread_draws_while_functions_are_captured() -> None:
    done, wrong = threading.Event(), []

    def draw() -> None:
        while not done.is_set():
            try:
                weft.rand(3).numpy()
            except Exception as error:
                wrong.append(error)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for _ in range(10):
            weft.compile(lambda x: x + weft.rand(3), backend="interpret")(weft.zeros(3))
    finally:
        done.set()
        thread.join()
    assert not wrong


def test_the_device_of_a_generator_is_a_device() -> None:
    """It was a text without a type, which programs ask for before they draw."""
    for generator in (weft.default_generator, Generator("lazy:1"), Generator("cpu").clone_state()):
        assert isinstance(generator.device, weft.device) and generator.device.type in ("cpu", "lazy")
    assert Generator("lazy:1").device.index == 1
