"""Texts about symbols, as they would read of the sizes that the symbols stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from weft.support.errors import WeftError
from weft.types.dims import evaluate
from weft.types.parse import parse_dim

_SYMBOL = r"(?<![A-Za-wyz_\d])[siu]\d+(?![A-Za-wyz_\d])"  # (an x stands between the sizes of a matrix)
_TOKEN = re.compile(rf"{_SYMBOL}|\d+|max|min|//|[-+*%(),]| ")


def with_examples(text: str, examples: Mapping[str, int]) -> str:
    """The text with numbers for sizes: `s0xs1 and (s1 // 2)` for 4 and 6 is `4x6 and 3`."""
    parts, done = [], 0
    for start, end, number in _sizes(text, examples):
        parts += [text[done:start], str(number)]
        done = end
    return "".join([*parts, text[done:]])


def _sizes(text: str, examples: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    """Where sizes that hang on symbols stand in a text, the longest first of those that begin at a place; and what they
    are."""
    tokens = list(_TOKEN.finditer(text))
    at = 0
    while at < len(tokens):
        last = at  # tokens that stand without a gap
        while last + 1 < len(tokens) and tokens[last + 1].start() == tokens[last].end():
            last += 1
        for end in range(last, at - 1, -1):
            number = _value(text[tokens[at].start() : tokens[end].end()], examples)
            if number is not None:
                yield tokens[at].start(), tokens[end].end(), number
                at = end
                break
        at += 1


def _value(part: str, examples: Mapping[str, int]) -> int | None:
    symbols = re.findall(_SYMBOL, part)
    if not symbols or part != part.strip() or part.startswith("- ") or not examples.keys() >= set(symbols):
        return None
    is_enclosed = part.startswith("(") and part.endswith(")") and not re.search("//|%", part)
    if is_enclosed and _value(part[1:-1], examples) is not None:
        return None  # parentheses of the text
    try:
        return evaluate(parse_dim(part), examples)
    except (WeftError, ArithmeticError):
        return None
