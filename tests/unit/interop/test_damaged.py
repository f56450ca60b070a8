"""Damaged files of every kind: whatever they hold, loading gives an object or a ParseError."""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import damaged

import weft
from weft.support.errors import ParseError


@pytest.mark.parametrize("kind", ["safetensors", "weft", "torch"])
def test_damaged_files_load_or_are_refused(kind: str) -> None:
    """300 of the 4,000 that were tried of each kind; `damaged.damaged(kind, 4000, seed)` gives them all."""
    seed = random.randrange(10**6)
    refused = 0
    for number, content in enumerate(damaged.damaged(kind, 300, seed)):
        try:
            weft.load(io.BytesIO(content), map_location=random.choice((None, "meta")))
        except ParseError as problem:
            refused += 1
            assert len(str(problem)) < 1000, (seed, number)
        except Exception as problem:
            raise AssertionError(
                f"damaged.damaged({kind!r}, 300, {seed}), file {number}: {problem!r}"[:500]
            ) from problem
    assert 100 < refused < 300


@pytest.mark.parametrize("kind", ["safetensors", "weft", "torch"])
def test_the_whole_files_load(kind: str) -> None:
    for content in damaged.contents()[kind]:
        assert weft.load(io.BytesIO(content))
