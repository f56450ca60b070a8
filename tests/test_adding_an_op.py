"""docs/adding-an-op.md is true: its operators are added as the page says, and do what the page promises. An operator is
written in the files that the page lists, and in no other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import places_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/adding-an-op.md"
GENERATED = """
import sys, pytest
import tests.docs.new_operator
chosen = "softcap or sumsq or every or mirror"
files = ["tests/ops/test_values.py", "tests/ops/test_gradients.py", "tests/ops/test_vmap.py"]
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--assert=plain", *files, "-k", chosen]))
"""


def run(*arguments: str, root: Path = ROOT) -> str:
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, capture_output=True, text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path}, timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_is_read_in_minutes() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 160 and max(map(len, lines)) <= 160


def listed() -> dict[str, set[str]]:
    """The files that the page lists for an operator of each kind."""
    found = re.findall(r"^- [a-z]+, `(\w+)`:((?:.+\n)(?:  .+\n)*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: set(re.findall(r"`([\w/]+\.py)`", files)) for name, files in found}


def test_the_page_lists_an_operator_of_each_kind() -> None:
    assert list(listed()) == ["softshrink", "logsumexp", "diagonal", "cumsum", "atan2"]


@pytest.mark.parametrize("name", listed())
def test_an_operator_is_written_where_the_page_says(name: str) -> None:
    """A file that is not listed is a table beside the entry: what it says belongs into the entry, or behind a decorator
    in the file of the same subject."""
    assert places_of(name) == listed()[name]


def patched(path: Path, hunk: str) -> None:
    """Insert the lines of a hunk (`+`) behind its first line, which stands once in the file."""
    text = path.read_text(encoding="utf-8")
    context, *added = hunk.splitlines()
    assert text.count(f"{context[1:]}\n") == 1, f"{path}: {context}"
    lines = "".join(f"{line[1:]}\n" for line in added)
    path.write_text(text.replace(f"{context[1:]}\n", f"{context[1:]}\n{lines}"), encoding="utf-8")


def test_the_primitive_of_the_page_is_one_everywhere(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "weft", tmp_path / "weft", ignore=shutil.ignore_patterns("__pycache__"))
    (block,) = re.findall(r"```diff\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    files = re.findall(r"^\+\+\+ (.+)\n((?:[ +](?!\+\+).*\n)+)", block, re.MULTILINE)
    assert len(files) == 5
    for name, hunk in files:
        patched(tmp_path / name, hunk)
    run(str(ROOT / "tests/docs/new_primitive.py"), root=tmp_path)


def test_the_operator_of_the_page_does_all_that_it_promises() -> None:
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--assert=plain", "tests/docs/new_operator.py")


def test_the_operator_s_tests_are_generated() -> None:
    """The generated tests find the entry without being told, and it passes them."""
    printed = run("-c", GENERATED)
    assert " passed" in printed and int(printed.split(" passed")[0].split()[-1]) >= 14, printed
