"""How well counting predicts the held-out bytes: the figures that a model has to beat before it has learnt anything.

Witten-Bell estimates (Witten and Bell 1991): with n observations of t distinct bytes after a history h,
p(c | h) = (count(h c) + t p(c | shorter h)) / (n + t), down to a uniform distribution over the 256 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def ngram_losses(training: Array, held_out: Array, order: int = 3) -> list[float]:
    """Mean nats per held-out byte under the 1-gram, 2-gram, ... order-gram model that was counted on training.

    training, held_out: uint8 [n] and [m]. The first order - 1 held-out bytes are history only, for every model."""
    probability = np.full(len(held_out) - order + 1, 1 / 256)
    losses = []
    for length in range(order):
        codes, histories = _codes(training, length, length)
        asked, asked_histories = _codes(held_out, length, order - 1)
        seen, count = np.unique(codes, return_counts=True)
        observations = np.bincount(histories, minlength=256**length)[asked_histories]
        distinct = np.bincount(seen >> 8, minlength=256**length)[asked_histories]
        place = np.minimum(np.searchsorted(seen, asked), len(seen) - 1)
        hits = np.where(seen[place] == asked, count[place], 0)
        weight = observations + distinct
        probability = np.where(weight > 0, (hits + distinct * probability) / np.maximum(weight, 1), probability)
        losses.append(float(-np.log(probability).mean()))
    return losses


def _codes(tokens: Array, length: int, start: int) -> tuple[Array, Array]:
    """For each position from start on: its byte with length bytes before it as one number, and that history alone."""
    history = np.zeros(len(tokens) - start, dtype=np.int64)
    for back in range(length, 0, -1):
        history = history << 8 | tokens[start - back : len(tokens) - back]
    return history << 8 | tokens[start:], history
