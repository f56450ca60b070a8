"""Continuing text: the cache against reading everything again, and the choice of a byte."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import weft
from weft.cli.failure import CommandError
from weft.cli.gpt import GPT
from weft.cli.recipe import GPTSize, initial_weights
from weft.cli.run import fill
from weft.cli.sampling import Predictor, choose, continue_text


@pytest.fixture
def model(rng: np.random.Generator) -> Iterator[GPT]:
    """A model in float64 (its cache too), with weights large enough for sharp attention."""
    size = GPTSize(blocks=2, width=16, heads=2, context=int(rng.integers(6, 11)))
    before = weft.get_default_dtype()
    weft.set_default_dtype(weft.float64)
    model = GPT(size)
    weights = initial_weights(size, int(rng.integers(100)), np.float64)
    fill(model, {name: value * 8 for name, value in weights.items()})
    yield model
    weft.set_default_dtype(before)


def test_cached_logits_are_those_of_the_whole_text(model: GPT, rng: np.random.Generator) -> None:
    tokens = rng.integers(0, 256, int(rng.integers(1, model.size.context + 1))).tolist()
    predictor, seen, captures = Predictor(model), len(tokens), weft.counters.captures
    for _ in range(3 * model.size.context):
        logits = predictor.next_logits(tokens)
        start = window_start(len(tokens), seen, model.size.context)
        with weft.no_grad():
            expected = model(weft.tensor([tokens[start:]]))[0, -1].numpy()
        assert np.allclose(logits, expected, rtol=1e-9, atol=1e-9)
        tokens.append(int(rng.integers(256)))
    assert weft.counters.captures - captures <= 2  # one program for every length, once the length is an input


def window_start(length: int, prompt: int, context: int) -> int:
    """Where the text that the model looks at begins: it drops to half a context whenever it would not fit."""
    start, end = 0, prompt
    while end < length:
        end += 1
        if end - start > context:
            start = end - context // 2
    return start


def test_a_prompt_longer_than_the_context_is_read_from_its_end(model: GPT, rng: np.random.Generator) -> None:
    tokens = rng.integers(0, 256, 3 * model.size.context).tolist()
    with weft.no_grad():
        expected = model(weft.tensor([tokens[-(model.size.context // 2) :]]))[0, -1].numpy()
    assert np.allclose(Predictor(model).next_logits(tokens), expected, rtol=1e-9, atol=1e-9)


def test_the_likeliest_bytes_are_drawn_by_their_probability(rng: np.random.Generator) -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], dtype=np.float32))
    drawn = np.bincount([choose(logits, 1.0, 3, rng) for _ in range(4000)], minlength=4) / 4000
    assert np.allclose(drawn, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0], atol=0.06)
    assert choose(logits[::-1], 0, 4, rng) == 3 and choose(logits, 1e-9, 4, rng) == 0


def test_any_bytes_come_out_as_text(model: GPT) -> None:
    text = "".join(continue_text(model, "é", 50, temperature=5.0, top=256, seed=1))
    assert 0 < len(text) <= 50 and text.encode()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_predictions_that_are_no_numbers_are_told(rng: np.random.Generator, temperature: float) -> None:
    logits = rng.standard_normal(256).astype(np.float32)
    logits[rng.integers(256)] = rng.choice([np.nan, np.inf])
    with pytest.raises(CommandError, match="not finite"):
        choose(logits, temperature, 40, rng)
