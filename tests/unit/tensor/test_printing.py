"""repr, letter for letter as PyTorch 2.13 prints (data/printed.json, written by data/make_printed.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft

CASES = json.loads((Path(__file__).parent / "data" / "printed.json").read_text())
OPTIONS = {json.dumps(options): options for options, _, _ in CASES}


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    yield
    weft.set_printoptions(profile="default")


@pytest.mark.parametrize("key", OPTIONS)
def test_tensors_print_as_pytorch_prints_them(key: str) -> None:
    weft.set_printoptions(profile="default")
    weft.set_printoptions(**OPTIONS[key])
    wrong: dict[str, Any] = {}
    for options, expression, expected in CASES:
        if options == OPTIONS[key]:
            found = repr(eval(expression.format(t="weft")))
            if found != expected:
                wrong[expression] = (found, expected)
    assert not wrong


def test_the_summary_shows_the_edges_only() -> None:
    weft.set_printoptions(threshold=10, edgeitems=2)
    assert repr(weft.arange(100)) == "tensor([ 0,  1,  ..., 98, 99])"
