"""The linter finds nothing: style, and lines of at most 120 columns. No test draws numbers of its own seed."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import weft

ROOT = Path(__file__).resolve().parent.parent


def test_the_linter_finds_nothing() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--quiet", "--output-format", "concise", "."]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_tests_draw_from_the_seed_of_the_run() -> None:
    unseeded = []
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "default_rng()" in text or "Random()" in text:
            calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and not n.args]
            drawing = [n for n in calls if ast.unparse(n.func).endswith(("random.default_rng", "random.Random"))]
            unseeded += [f"{path.relative_to(ROOT)}:{n.lineno}" for n in drawing]
    assert not unseeded


def test_packages_behind_functions_are_imported_from() -> None:
    """`import weft.compile.x as y` reads an attribute of the function weft.compile, once weft has been imported."""
    hidden = []
    for path in (ROOT / "weft").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "import weft." in text else ():
            for name in node.names if isinstance(node, ast.Import) else ():
                owner, *rest = name.name.split(".")
                if owner == "weft" and rest and not isinstance(getattr(weft, rest[0], weft), ModuleType):
                    hidden.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not hidden
