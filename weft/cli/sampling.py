"""Text that a model continues, one byte at a time, with a key-value cache."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft
from weft.cli.failure import CommandError
from weft.cli.gpt import GPT, KeyValues

Array = NDArray[Any]


def continue_text(model: GPT, prompt: str, count: int, temperature: float, top: int, seed: int) -> Iterator[str]:
    """Pieces of text that follow the prompt, `count` bytes in all. The same seed gives the same text."""
    rng = np.random.default_rng(seed)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    tokens = list(prompt.encode())
    predictor = Predictor(model)
    for _ in range(count):
        token = choose(predictor.next_logits(tokens), temperature, top, rng)
        tokens.append(token)
        yield decoder.decode(bytes([token]))
    yield decoder.decode(b"", final=True)


def choose(logits: Array, temperature: float, top: int, rng: np.random.Generator) -> int:
    """A byte drawn from softmax(logits / temperature) over the `top` likeliest; the likeliest if temperature is 0.
    Raises CommandError for logits that are not finite."""
    if not np.isfinite(logits).all():
        raise CommandError(
            "the model's predictions are not finite numbers: its training has diverged, or its file is damaged"
        )
    if temperature == 0:
        return int(logits.argmax())
    candidates = np.argsort(-logits, kind="stable")[:top]
    scores = logits[candidates].astype(np.float64)
    with np.errstate(over="ignore"):  # the least temperatures leave one
        weights = np.exp((scores - scores.max()) / temperature)
    return int(rng.choice(candidates, p=weights / weights.sum()))


class Predictor:
    """Logits for the byte after a growing list of bytes, reading only the new ones.

    Positions are learned up to the model's context. When it is full, the second half is read again as a new beginning,
    so that each byte costs one position but for one re-reading every context / 2 bytes. A single position is a compiled
    call, one program for every length; what is read at once runs operator by operator."""

    def __init__(self, model: GPT) -> None:
        self.model, self._compiled = model, weft.compile(model)
        self._pasts = [KeyValues(model.size) for _ in range(model.size.blocks)]
        self._read = 0  # how many of the tokens the cache has seen

    def next_logits(self, tokens: list[int]) -> Array:
        """tokens: at least one. -> float [256]."""
        context = self.model.size.context
        held = self._pasts[0].length
        if not held or held + len(tokens) - self._read > context:
            kept = len(tokens) if not held and len(tokens) <= context else max(context // 2, 1)
            self._read = max(0, len(tokens) - kept)
            for past in self._pasts:
                past.length = 0
            return self._feed(tokens[self._read :])
        for token in tokens[self._read : -1]:  # only the first call finds more than one
            self._feed([token])
        return self._feed(tokens[-1:])

    def _feed(self, tokens: list[int]) -> Array:
        call = self._compiled if len(tokens) == 1 else self.model
        with weft.no_grad():
            logits = call(weft.tensor([tokens]), self._pasts)
        self._read += len(tokens)
        last: Array = logits[0, -1].numpy()
        return last
