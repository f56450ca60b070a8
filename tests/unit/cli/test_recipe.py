"""The demo's recipe: shapes, weights, order of the data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from weft.cli import recipe

ROOT = Path(__file__).resolve().parents[3]


def test_the_default_size_has_the_parameters_it_says() -> None:
    count = sum(int(np.prod(shape)) for shape in recipe.parameter_shapes(recipe.GPTSize()).values())
    assert round(count / 1e6, 2) == 0.88


def test_initial_weights_have_their_spread(rng: np.random.Generator) -> None:
    size = recipe.GPTSize(blocks=3, width=64, heads=4, context=48)
    weights = recipe.initial_weights(size, int(rng.integers(1000)), np.float64)
    assert {name: value.shape for name, value in weights.items()} == recipe.parameter_shapes(size)
    for name, value in weights.items():
        if value.ndim == 1:
            assert (value == (0 if name.endswith("bias") else 1)).all()
        else:
            expected = 0.02 / (6**0.5 if name.endswith(("attention.out.weight", "mlp.down.weight")) else 1)
            assert abs(value.std() / expected - 1) < 0.1, name


def test_weights_round_from_one_float64_draw() -> None:
    size = recipe.GPTSize(blocks=1, width=8, heads=2, context=4)
    low, high = recipe.initial_weights(size, 5, np.float32), recipe.initial_weights(size, 5, np.float64)
    assert all((low[name] == high[name].astype(np.float32)).all() for name in high)
    assert not (recipe.initial_weights(size, 6)["tokens.weight"] == low["tokens.weight"]).all()


def test_targets_are_the_next_bytes_and_depend_on_seed_and_step_alone(rng: np.random.Generator) -> None:
    tokens = rng.integers(0, 256, 500).astype(np.uint8)
    batch, context = int(rng.integers(1, 9)), int(rng.integers(1, 60))
    x, y = recipe.window_batch(tokens, 3, 11, batch, context)
    assert x.shape == y.shape == (batch, context) and x.dtype == np.int64
    assert (x[:, 1:] == y[:, :-1]).all()
    text = tokens.tobytes()
    assert all(bytes([*map(int, a), int(b)]) in text for a, b in zip(x, y[:, -1], strict=True))
    assert (recipe.window_batch(tokens, 3, 11, batch, context)[0] == x).all()


def test_a_text_of_one_window_is_enough() -> None:
    x, y = recipe.window_batch(np.arange(5, dtype=np.uint8), 0, 0, 2, 4)
    assert x.tolist() == [[0, 1, 2, 3]] * 2 and y.tolist() == [[1, 2, 3, 4]] * 2


def test_the_split_keeps_every_byte_and_the_tail_is_a_tenth(rng: np.random.Generator) -> None:
    text = rng.bytes(int(rng.integers(10, 5000)))
    training, tail = recipe.split(text)
    assert training.tobytes() + tail.tobytes() == text
    assert len(tail) == len(text) // 10


def test_held_out_windows_cover_the_tail_once(rng: np.random.Generator) -> None:
    tail = rng.integers(0, 256, 333).astype(np.uint8)
    batches = list(recipe.held_out_batches(tail, 4, 16))
    inputs, targets = (np.concatenate(part).reshape(-1) for part in zip(*batches, strict=True))
    assert (inputs == tail[: len(inputs)]).all() and (targets == tail[1 : len(inputs) + 1]).all()
    assert len(inputs) == (332 // 16) * 16


def test_the_rate_warms_up_and_stays() -> None:
    rates = [recipe.learning_rate(step, 1.0) for step in range(60)]
    assert rates[0] == 1 / 50 and rates[49:] == [1.0] * 11 and rates == sorted(rates)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="width 10 does not divide into 4 heads"):
        recipe.GPTSize(width=10, heads=4)


def test_the_file_runs_without_weft() -> None:
    code = "import runpy, sys; runpy.run_path('weft/cli/recipe.py'); sys.exit('weft' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
