"""Twenty training steps of the demo's model give PyTorch's numbers: eager, interpreted and native.

The numbers are stored (scripts/make_torch_reference.py made them) with the bytes trained on, so neither torch nor this
Python's reference topics are needed. Initial weights come from the same NumPy recipe on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.differential.fingerprint import relative_distance
from weft.cli import recipe
from weft.cli.gpt import GPT
from weft.cli.run import fill, make_step

DATA = Path(__file__).parent / "data"
STORED = json.loads((DATA / "gpt_steps.json").read_text())
SIZES = {"small": recipe.GPTSize(blocks=2, width=32, heads=4, context=32), "demo": recipe.GPTSize()}
MODES = ("eager", "interpret", "llvm")
LOSS_TOLERANCE = {"float64": 1e-9, "float32": 1e-5}
PARAMETER_TOLERANCE = {("float64", "adamw"): 1e-7, ("float64", "sgd"): 1e-7, ("float32", "sgd"): 1e-4}


@contextmanager
def default_dtype(name: str) -> Iterator[None]:
    before = weft.get_default_dtype()
    weft.set_default_dtype(getattr(weft, name))
    try:
        yield
    finally:
        weft.set_default_dtype(before)


def windows(label: str) -> np.ndarray:
    """int64 [steps, batch, context + 1]."""
    with np.load(DATA / "gpt_windows.npz") as stored:
        return stored[label].astype(np.int64)


def train(label: str, dtype: str, optimizer: str, mode: str) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses of the stored steps, and the parameters after them."""
    size, seed = SIZES[label], STORED["about"]["seed"]
    with default_dtype(dtype):
        model = GPT(size)
    fill(model, recipe.initial_weights(size, seed, getattr(np, dtype)))
    chosen, peak = make_optimizer(model, optimizer)
    step = make_step(model, chosen)
    compiled = step if mode == "eager" else weft.compile(step)
    losses = []
    with weft.knobs(**({} if mode == "eager" else {"backend": mode})):
        for number, window in enumerate(windows(label)):
            for group in chosen.param_groups:
                group["lr"] = recipe.learning_rate(number, peak)
            x, y = weft.from_numpy(window[:, :-1].copy()), weft.from_numpy(window[:, 1:].copy())
            losses.append(float(compiled(x, y).item()))
    return losses, {name: value.numpy() for name, value in model.state_dict().items()}


def make_optimizer(model: GPT, name: str) -> tuple[Any, float]:
    if name == "sgd":
        sgd = weft.optim.SGD(model.parameters(), lr=recipe.SGD_LEARNING_RATE, momentum=recipe.SGD_MOMENTUM)
        return sgd, recipe.SGD_LEARNING_RATE
    adamw = weft.optim.AdamW(
        model.parameters(), lr=recipe.LEARNING_RATE, betas=recipe.BETAS, weight_decay=recipe.WEIGHT_DECAY
    )
    return adamw, recipe.LEARNING_RATE


def check_losses(key: str, losses: list[float]) -> None:
    stored = np.array(STORED["runs"][key]["losses"])
    assert np.abs(np.array(losses) - stored).max() <= LOSS_TOLERANCE[key.split("/")[1]]


@pytest.mark.parametrize(  # every mode, and every type with every optimizer
    ("dtype", "optimizer", "mode"),
    [
        *[("float64", "adamw", mode) for mode in MODES],
        ("float64", "sgd", "llvm"), ("float32", "adamw", "llvm"), ("float32", "sgd", "interpret"),
        ("float32", "sgd", "eager"),
    ],
)  # fmt: skip
def test_small_model(dtype: str, optimizer: str, mode: str) -> None:
    key = f"small/{dtype}/{optimizer}"
    losses, parameters = train("small", dtype, optimizer, mode)
    check_losses(key, losses)
    tolerance = PARAMETER_TOLERANCE.get((dtype, optimizer))
    if tolerance is None:  # AdamW divides gradients that are nothing but rounding by their own size
        return
    with np.load(DATA / "gpt_small_parameters.npz") as stored:
        for name, value in parameters.items():
            expected = stored[f"{key}/{name}"].astype(np.float64)
            distance = np.linalg.norm(value - expected) / np.linalg.norm(expected)
            assert value.dtype == dtype and distance <= tolerance, (name, distance)


def test_demo_model() -> None:
    """As the demo trains it."""
    dtype, optimizer, mode = "float32", "adamw", "llvm"
    key = f"demo/{dtype}/{optimizer}"
    losses, parameters = train("demo", dtype, optimizer, mode)
    check_losses(key, losses)
    tolerance = PARAMETER_TOLERANCE.get((dtype, optimizer), np.inf)
    for name, stored in STORED["runs"][key]["parameters"].items():
        distance = relative_distance(name, parameters[name], stored)
        assert distance <= tolerance, (name, distance)
