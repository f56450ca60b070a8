"""Names say what a thing is: locals are not called by the fact that there is a value, and words that a reader of
other compilers would not know become fewer (docs/glossary.md)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.imports import tree_of

ROOT = Path(__file__).parents[1]
VAGUE = {"found", "made", "given", "known"}
# How many names of functions, classes, arguments and variables have one of these words: they may only become fewer.
DATED = {
    "settle": 40, "lies": 12, "turn": 11, "behind": 19, "apart": 37, "together": 9, "told": 3, "onlooker": 2, "lent": 9,
}
FORMS = {"settled": "settle", "settles": "settle", "lay": "lies", "turns": "turn"}


@cache
def all_names() -> list[tuple[Path, str, int, bool]]:
    """The names of each file of weft."""
    return [(path, *name) for path in sorted((ROOT / "weft").rglob("*.py")) for name in names_in(tree_of(path))]


def names_in(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Each name that is given, its line, and whether it is a local's or an argument's (no field's of a class)."""
    fields = {
        id(name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        for statement in node.body if isinstance(statement, (ast.Assign, ast.AnnAssign)) for name in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node.lineno, False
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno, id(node) not in fields


def test_locals_say_what_they_hold() -> None:
    vague = [
        f"{path.relative_to(ROOT)}:{line} {name}" for path, name, line, is_local in all_names()
        if is_local and name in VAGUE
    ]
    assert not vague, "\n".join(vague)


def test_words_of_our_own_become_fewer() -> None:
    counts: Counter[str] = Counter()
    for _, name, _, _ in all_names():
        words = re.split(r"_+|(?<=[a-z])(?=[A-Z])", name)
        counts.update({FORMS.get(word.lower(), word.lower()) for word in words})
    more = {word: counts[word] for word, most in DATED.items() if counts[word] > most}
    assert not more, f"more names with these words than before; docs/glossary.md has others: {more}"
    fewer = {word: counts[word] for word, most in DATED.items() if counts[word] < most}
    assert not fewer, f"fewer names with these words: lower the numbers in this file: {fewer}"
