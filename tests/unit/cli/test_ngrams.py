"""Counting models against a direct reading of Witten-Bell's formula."""

from __future__ import annotations

import math

import numpy as np

from weft.cli.ngrams import ngram_losses


def probability(training: bytes, history: bytes, byte: int) -> float:
    """p(byte | history) by counting, one place at a time."""
    lower = probability(training, history[1:], byte) if history else 1 / 256
    width = len(history)
    follows = [training[i + width] for i in range(len(training) - width) if training[i : i + width] == history]
    distinct = len(set(follows))
    return (follows.count(byte) + distinct * lower) / (len(follows) + distinct) if follows else lower


def test_losses_are_the_formula(rng: np.random.Generator) -> None:
    training = rng.integers(60, 66, int(rng.integers(40, 90))).astype(np.uint8)
    held_out = rng.integers(60, 68, 30).astype(np.uint8)  # two bytes that training never saw
    losses = ngram_losses(training, held_out)
    text, tail = training.tobytes(), held_out.tobytes()
    for length, loss in enumerate(losses):
        expected = [-math.log(probability(text, tail[i - length : i], tail[i])) for i in range(2, len(tail))]
        assert math.isclose(loss, sum(expected) / len(expected), rel_tol=1e-12)


def test_probabilities_sum_to_one(rng: np.random.Generator) -> None:
    training = rng.integers(0, 4, 50).astype(np.uint8)
    endings = np.stack([np.full(256, 1), np.full(256, 2), np.arange(256)], axis=1).astype(np.uint8)
    total = [sum(math.exp(-ngram_losses(training, ending)[length]) for ending in endings) for length in range(3)]
    assert np.allclose(total, 1)


def test_repetition_is_predicted_better_by_a_longer_history() -> None:
    text = np.frombuffer(b"abcabd" * 200, dtype=np.uint8)
    unigram, bigram, trigram = ngram_losses(text, text[:120])
    assert unigram > bigram > trigram
