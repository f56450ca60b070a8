"""The limits of caches stand in one table, and a memo that is full starts anew."""

from __future__ import annotations

import ast
from pathlib import Path

import weft
from tests.imports import tree_of
from weft.support import limits
from weft.support.memo import Memo

ROOT = Path(weft.__file__).parent


def test_a_full_memo_starts_anew() -> None:
    memo: Memo[int, str] = Memo(2)
    memo[1], memo[2] = "one", "two"
    memo[2] = "two again"
    assert memo.setdefault(1, "other") == "one" and len(memo) == 2
    memo[3] = "three"
    assert dict(memo) == {3: "three"}
    assert memo.setdefault(4, "four") == "four" and memo.setdefault(5, "five") == "five"
    assert dict(memo) == {5: "five"}


def _literal_limits(path: Path) -> list[int]:
    """Lines on which a cache gets a number of its own as its limit."""
    lines = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            sizes = [k.value for k in node.keywords if k.arg in ("maxsize", "maxlen")]
            sizes += node.args[:1] if name in ("lru_cache", "Memo", "Variants", "ProgramStore") else []
            numbers = [n.value for size in sizes for n in ast.walk(size) if isinstance(n, ast.Constant)]
            if any(type(number) is int and number > 1 for number in numbers):
                lines.append(node.lineno)
    return lines


def test_caches_take_their_limits_from_the_table() -> None:
    apart = {"guards"}
    wrong = {
        str(path.relative_to(ROOT)): lines for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] not in apart and (lines := _literal_limits(path))
    }
    assert not wrong


def test_every_limit_is_used() -> None:
    names = {name for name in vars(limits) if name.isupper()}
    texts = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py"))
    assert not [name for name in names if f"limits.{name}" not in texts]
