"""The demo's numbers, written with NumPy alone: sizes, initial weights, order of the data, learning rate.

Another framework that reads this file starts from the same weights and sees the same bytes in the same order, which is
how scripts/make_torch_reference.py makes the figures that weft is compared with.
It imports nothing of weft for that reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BYTES = 256  # the vocabulary: every byte is a token
HELD_OUT = 0.1  # share of the text, at its end, that training never sees
LEARNING_RATE = 1e-3
BETAS = (0.9, 0.99)
WEIGHT_DECAY = 0.1
# steps over which the learning rate rises from 0; constant after that, so a longer run is a longer run only
WARM_UP = 50
CLIP = 1.0
SGD_LEARNING_RATE = 0.1  # used by the comparison with stored results, not by the demo
SGD_MOMENTUM = 0.9
SIZES = {  # of a model, for the help of commands
    "blocks": "transformer blocks",
    "width": "numbers that stand for a byte inside the model; a multiple of the heads",
    "heads": "attention heads of each block",
    "context": "bytes that the model sees at once",
}


@dataclass(frozen=True)
class GPTSize:
    """Sizes of the model. The default has 0.88 M parameters."""

    blocks: int = 4
    width: int = 128
    heads: int = 4
    context: int = 128

    def __post_init__(self) -> None:
        if min(self.blocks, self.width, self.heads, self.context) < 1:
            raise ValueError(f"blocks, width, heads and context must be at least 1: {self}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} does not divide into {self.heads} heads")


def parameter_shapes(size: GPTSize) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the model's parameters, in the order of its state_dict. Linear weights are [out, in]."""
    d = size.width
    shapes: dict[str, tuple[int, ...]] = {"tokens.weight": (BYTES, d), "positions.weight": (size.context, d)}
    for block in range(size.blocks):
        for name, shape in _block_shapes(d):
            shapes[f"blocks.{block}.{name}"] = shape
    return {**shapes, "norm.weight": (d,), "norm.bias": (d,), "head.weight": (BYTES, d)}


def _block_shapes(d: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for module, out, into in (("attention.qkv", 3 * d, d), ("attention.out", d, d)):
        yield f"{module}.weight", (out, into)
        yield f"{module}.bias", (out,)
    for module, out, into in (("mlp.up", 4 * d, d), ("mlp.down", d, 4 * d)):
        yield f"{module}.weight", (out, into)
        yield f"{module}.bias", (out,)
    for module in ("norm1", "norm2"):
        yield f"{module}.weight", (d,)
        yield f"{module}.bias", (d,)


def initial_weights(size: GPTSize, seed: int, dtype: Any = np.float32) -> dict[str, Array]:
    """Weights from N(0, 0.02), the two projections back into the residual stream smaller by sqrt(2 blocks) (GPT-2's
    recipe), biases 0, norms 1. Drawn in float64 in the order of parameter_shapes, then rounded to dtype."""
    rng = np.random.default_rng([seed, 0])
    residual = (2 * size.blocks) ** -0.5
    weights: dict[str, Array] = {}
    for name, shape in parameter_shapes(size).items():
        if len(shape) == 1:
            value = np.zeros(shape) if name.endswith(".bias") else np.ones(shape)
        else:
            scale = 0.02 * (residual if name.endswith(("attention.out.weight", "mlp.down.weight")) else 1.0)
            value = rng.standard_normal(shape) * scale
        weights[name] = value.astype(dtype)
    return weights


def split(text: bytes) -> tuple[Array, Array]:
    """Training and held-out part of the text as uint8 arrays. The held-out part is the last tenth."""
    tokens = np.frombuffer(text, dtype=np.uint8)
    cut = len(tokens) - int(len(tokens) * HELD_OUT)
    return tokens[:cut], tokens[cut:]


def window_batch(tokens: Array, seed: int, step: int, batch: int, context: int) -> tuple[Array, Array]:
    """Inputs and targets of one step, int64 [batch, context] each, at places drawn at random from tokens. A function of
    (seed, step), so the position in the data is the number of the step."""
    rng = np.random.default_rng([seed, 1, step])
    starts = rng.integers(0, len(tokens) - context, size=batch)
    windows = tokens[starts[:, None] + np.arange(context + 1)].astype(np.int64)
    return windows[:, :-1], windows[:, 1:]


def learning_rate(step: int, peak: float = LEARNING_RATE) -> float:
    """Rate of step 0, 1, ...: linear over the first WARM_UP steps, then constant."""
    return peak * min(1.0, (step + 1) / WARM_UP)


def held_out_batches(tokens: Array, batch: int, context: int) -> Iterator[tuple[Array, Array]]:
    """Every window of the held-out part once, side by side, in batches (the last may be smaller):
    int64 [<= batch, context]."""
    count = (len(tokens) - 1) // context
    inputs = tokens[: count * context].reshape(count, context).astype(np.int64)
    targets = tokens[1 : count * context + 1].reshape(count, context).astype(np.int64)
    for start in range(0, count, batch):
        yield inputs[start : start + batch], targets[start : start + batch]
