"""weft.errors names every error that users meet, and the page says what each also is."""

import builtins
import re
from pathlib import Path

import weft
from weft.support import errors as own

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "errors.md"


def test_public_errors_are_those_that_are_raised() -> None:
    assert all(getattr(weft.errors, name) is getattr(own, name) for name in weft.errors.__all__)
    assert all(issubclass(getattr(weft.errors, name), weft.WeftError) for name in weft.errors.__all__)


def test_the_page_says_what_each_is() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for name, _ in rows} == {*weft.errors.__all__} - {"WeftError"}
    for name, others in rows:
        for other in re.findall(r"\w+", others):
            base = getattr(weft.errors, other, None) or getattr(builtins, other)
            assert issubclass(getattr(weft.errors, name), base), (name, other)

