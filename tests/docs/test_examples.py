"""Every example runs, in both modes with the same output, says what its options are,
and refuses what makes no sense."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(p for p in (ROOT / "examples").glob("*.py") if p.name != "run.py")


def _run(example: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(example), *options], cwd=ROOT, env=_environment(),
        text=True, capture_output=True, timeout=300,
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_the_list_names_every_example() -> None:
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert EXAMPLES and all(f"examples/{p.name}" in text for p in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_both_modes_print_the_same(example: Path) -> None:
    found = []
    for mode in ("compiled", "eager"):
        done = _run(example, "--steps", "2", "--mode", mode, "--seed", "3")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("step") and not done.stderr
        found.append([float(x) for x in re.findall(r"-?\d+\.\d+", done.stdout)])
    assert found[0] == pytest.approx(found[1], abs=2e-2, rel=1e-3)


def test_options_are_explained_and_checked() -> None:
    assert "--mode {compiled,eager}" in _run(EXAMPLES[0], "--help").stdout
    refused = _run(EXAMPLES[0], "--steps", "0")
    assert refused.returncode == 2 and "--steps must be at least 1" in refused.stderr
