"""docs/adding-an-op.md is true: its operator is added as the page says, and does what the page promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/adding-an-op.md"
GENERATED = """
import sys, pytest
import tests.docs.new_operator
chosen = "softcap or sumsq or every"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--assert=plain", "tests/ops", "-k", chosen]))
"""


def run(*arguments: str) -> str:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path}, timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_is_read_in_minutes() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100 and max(map(len, lines)) <= 160


def test_the_operator_of_the_page_does_all_that_it_promises() -> None:
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--assert=plain", "tests/docs/new_operator.py")


def test_the_operator_s_tests_are_generated() -> None:
    """The generated tests find the entry without being told, and it passes them."""
    printed = run("-c", GENERATED)
    assert " passed" in printed and int(printed.split(" passed")[0].split()[-1]) >= 20, printed
