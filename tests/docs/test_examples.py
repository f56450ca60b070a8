"""Every example runs, in both modes with the same output, says what its options are,
and refuses what makes no sense."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_both_modes_print_the_same(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(example.parent))
    numbers = []
    for mode in ("compiled", "eager"):
        monkeypatch.setattr(sys, "argv", [example.name, "--steps", "1", "--mode", mode, "--seed", "3"])
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(_with_short_loops(example), str(example), "exec"), {"__name__": "__main__"})
        assert out.getvalue().startswith("step")
        numbers.append([float(x) for x in re.findall(r"-?\d+\.\d+", out.getvalue())])
    assert numbers[0] == pytest.approx(numbers[1], abs=2e-2, rel=1e-3)


def _with_short_loops(example: Path) -> ast.Module:
    """The example with loops of 400 steps in place of thousands, which take operator by operator half a minute."""
    tree = ast.parse(example.read_text(encoding="utf-8"))
    for node in [n for statement in tree.body if isinstance(statement, ast.Assign) for n in ast.walk(statement)]:
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 1000:
            node.value = 400
    return tree


def test_options_are_explained_and_checked() -> None:
    assert "--mode {compiled,eager}" in _run(EXAMPLES[0], "--help").stdout
    refused = _run(EXAMPLES[0], "--steps", "0")
    assert refused.returncode == 2 and "--steps must be at least 1" in refused.stderr
