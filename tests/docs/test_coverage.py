"""docs/coverage.md: every test that the page names as ours exists, and every trap has a test named after it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/coverage.md"
TRAPS = {
    "VIEW": 10, "SAVE": 8, "HOOKS": 7, "UNDEF": 6, "ACC": 7, "BC": 2, "DT": 1, "SH": 7, "ENG": 9, "CA": 11, "JIT": 12,
}


def names_of_tests() -> dict[str, set[str]]:
    """The names of the tests in each file."""
    found: dict[str, set[str]] = {}
    for f in (ROOT / "tests").rglob("test_*.py"):
        found.setdefault(f.name, set()).update(re.findall(r"^def (test_\w+)", f.read_text(encoding="utf-8"), re.M))
    return found


def test_every_named_test_exists() -> None:
    files = names_of_tests()
    found = set().union(*files.values())
    rows = [line.split("|")[2] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.count("|") == 3]
    named = {n for row in rows for n in re.findall(r"\btest_\w+\b(?!\.py)", row)}
    assert len(named) > 30 and sorted(named - found) == []
    assert {f for row in rows for f in re.findall(r"\btest_\w+\.py", row)} <= files.keys()


def test_every_trap_has_a_test() -> None:
    names = set().union(*names_of_tests().values())
    missing = [f"T-{t}-{i}" for t, count in TRAPS.items() for i in range(1, count + 1)
               if not any(n.startswith(f"test_t_{t.lower()}_{i}_") for n in names)]
    assert missing == []
