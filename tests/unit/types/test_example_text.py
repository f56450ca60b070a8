"""Texts about symbols read as those about sizes do."""

import re

import numpy as np
import pytest

from weft.types.dims import evaluate
from weft.types.example_text import with_examples
from weft.types.parse import parse_dim


@pytest.mark.parametrize(("text", "expected"), [
    ("(s0xs1 and s2x1)", "(4x6 and 5x1)"), ("shape '[3, -1]' is invalid for input of size s0*s1 + 2",
     "shape '[3, -1]' is invalid for input of size 26"), ("(s1 // 2) is not max(s0, 5) - 1", "3 is not 4"),
    ("size 3 * 2 of s9, is0, s01", "size 3 * 2 of s9, is0, s01"), ("u0 + 1 rows, (s0 % 3)", "u0 + 1 rows, 1"),
    ("2*s0 + 3*s1", "26"), ("s0 - s1", "-2"),
])  # fmt: skip
def test_numbers_stand_for_sizes(text: str, expected: str) -> None:
    assert with_examples(text, {"s0": 4, "s1": 6, "s2": 5}) == expected


def test_dims_as_they_are_printed(rng: np.random.Generator) -> None:
    names = ["s0", "s1", "s2", "3", "1"]
    for _ in range(200):
        values = {name: int(rng.integers(1, 9)) for name in names[:3]}
        d = parse_dim(names[rng.integers(5)])
        for _ in range(int(rng.integers(1, 4))):
            other = parse_dim(names[rng.integers(5)])
            d = [d + other, d * other, d - other, (d + 1) // other][rng.integers(4)]
        printed = with_examples(f"a size of {d}.", values)
        if not re.search(r"[a-z]\d", str(d)):
            continue
        assert printed == f"a size of {evaluate(d, values)}.", f"{d} of {values}"
