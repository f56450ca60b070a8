"""Numbers of calls that a program derives from the sizes of its inputs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import weft
from weft import lazy, nn
from weft.lazy.backend import lazy_at
from weft.lazy.sizes import size_from, sizes_from
from weft.types.dims import substitute
from weft.types.shape_env import ShapeEnv


def _value(d: Any, env: ShapeEnv, scale: int = 1) -> Any:
    return substitute(d, {name: example * scale for name, example in env.examples.items()})


@pytest.mark.parametrize("case", range(20))
def test_merged_dims_are_products_at_any_sizes(case: int, rng: np.random.Generator) -> None:
    env = ShapeEnv()
    dims = [env.fresh("s", int(n)) if rng.random() < 0.6 else int(n) for n in rng.integers(2, 9, 4)]
    cuts = [0, *(i for i in range(1, 4) if rng.random() < 0.5), 4]
    groups = [dims[a:b] for a, b in itertools.pairwise(cuts)]
    found = sizes_from([math.prod(map(env.hint, group)) for group in groups], dims, env)
    for size, group in zip(found, groups, strict=True):
        assert _value(size, env, 3) == math.prod(_value(d, env, 3) for d in group)


def test_a_dim_is_taken_apart_as_it_was_put_together() -> None:
    env = ShapeEnv()
    b, t = env.fresh("s", 16), env.fresh("s", 128)
    assert sizes_from([16, 128, 4, 32], [b, t, 128], env) == [b, t, 4, 32]
    assert sizes_from([2048, 128], [b, t, 128], env) == [b * t, 128]
    assert sizes_from([16, 4, 128, 32], [4 * b, t, 32], env) == [b, 4, t, 32]
    assert sizes_from([16, -1], [b, t], env) == [b, t]
    assert sizes_from([8, 256], [b, t], env) == [None, None]
    assert sizes_from([5, 16, 128], [b, 1], env) == [None, b, None]
    assert sizes_from([0, 3], [b, 0], env) == [None, None]
    assert size_from(128, 384, env) == 128
    assert size_from(16, b, env) is b
    assert size_from(7, b, env) is None


def _program() -> Any:
    return lazy_at(0).where.programs.latest


def test_numbers_of_a_step_are_known_from_the_sizes_of_its_batch() -> None:
    weft.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 6)).to("lazy")
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    compiles = []
    for n in (5, 5, 7, 11, 13):
        x = weft.ones(2 * n, 3, 6, device="lazy")
        heads = model(x).view(2 * n, 3, 2, 3).transpose(1, 2)
        (heads.reshape(2 * n, 6, 3) ** 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        lazy.mark_step()
        compiles.append(lazy.metrics.counter_value("UncachedCompile"))
    assert compiles[-1] <= 2
    program = _program()
    assert len(program.derived) > 3
    inputs = [name for name in program.names if name]
    assert len(inputs) < len(program.derived) + 8


def test_a_number_that_only_looks_like_a_size_gets_one_other_program() -> None:
    found = []
    for n in range(3, 9):
        x = weft.tensor(np.arange(24.0 * n, dtype=np.float32).reshape(4, 6 * n), device="lazy")
        y = (x + 1).view(n * 2, 12)  # taken for something of x's sizes
        found.append(float(y.sum(0).sum()))
        assert tuple(y.shape) == (2 * n, 12)
    assert found == [24.0 * n * (24 * n + 1) / 2 for n in range(3, 9)]
    assert (lazy.metrics.counter_value("UncachedCompile") or 0) <= 3


def test_lasting_sizes_are_constants_until_they_change() -> None:
    found, compiles = [], []
    for n in (4, 5, 6, 7, 8):
        x = weft.zeros(n, device="lazy")
        lazy.mark_step()
        for _ in range(3):
            x.mul_(2).add_(1)
            lazy.mark_step()
        found.append(x.cpu().tolist())
        compiles.append(lazy.metrics.counter_value("UncachedCompile"))
    assert found == [[7.0] * n for n in (4, 5, 6, 7, 8)]
    assert compiles[1] == compiles[-1]


def test_another_way_to_take_a_lasting_size_apart_compiles_once() -> None:
    x = weft.arange(24.0, device="lazy")
    lazy.mark_step()
    for rows in (4, 3, 2, 6, 8, 12):
        x.add_(x.view(rows, 24 // rows).sum(1).max() * 0)
        lazy.mark_step()
    assert x.cpu().tolist() == [float(i) for i in range(24)]
    assert (lazy.metrics.counter_value("UncachedCompile") or 0) <= 4


MADE: dict[str, Any] = {
    "tril_indices": lambda n, **where: weft.tril_indices(n, n, **where),
    "triu_indices": lambda n, **where: weft.triu_indices(n, 7, 2, **where),
    "tril_indices below": lambda n, **where: weft.tril_indices(7, n, -3, **where),
    "linspace": lambda n, **where: weft.linspace(0, 1, n, **where),
    "logspace": lambda n, **where: weft.logspace(0, n, 5, **where),
    "eye": lambda n, **where: weft.eye(n, 4, **where),
    "randperm": lambda n, **where: weft.randperm(n, **where),
    "arange": lambda n, **where: weft.arange(2, n, 3, **where),
    "arange in fractions": lambda n, **where: weft.arange(0.5, n, 0.25, **where),
    "diagonal": lambda n, **where: weft.ones(60, 60, **where).diagonal(n - 20).cumsum(0),
    "hann_window": lambda n, **where: weft.hann_window(n, **where),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_numbers_is_one_program_for_all_of_them(name: str) -> None:
    """And one for the first number, before another one has come."""
    make, sizes = MADE[name], range(3, 51, 5)
    expected = []
    for device in ("cpu", "lazy"):
        weft.manual_seed(0)
        for n in sizes:
            made = make(n, device=device)
            lazy.mark_step()
            expected.append(made.cpu().tolist())
    for eager, waited in zip(expected, expected[len(sizes) :], strict=False):
        assert waited == pytest.approx(eager) if not isinstance(eager[0], list) else waited == eager
    assert lazy.metrics.counter_value("UncachedCompile") <= 2 + (name == "diagonal")  # above and below the main one
