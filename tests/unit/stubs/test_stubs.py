"""The type stubs: written from the entries as they are now, and good for a strict check of a user's code."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.ops.op import PACKETS

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture(scope="module")
def errors() -> list[str]:
    """What mypy says of both files, in one run."""
    pytest.importorskip("mypy")
    files = [str(HERE / "user_code.py"), str(HERE / "mistakes.py")]
    command = [
        sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary",
        "--hide-error-context", *files,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line]


def test_the_stubs_are_up_to_date() -> None:
    # in a process that has no operators of other tests
    command = [sys.executable, str(ROOT / "scripts" / "make_stubs.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_operator_is_in_the_stubs() -> None:
    text = (ROOT / "weft" / "__init__.pyi").read_text()
    found = set(re.findall(r"(?:def (\w+)\(|as (\w+)$)", text, re.M))
    names = {a or b for a, b in found}
    public = {
        key[6:] for key, ops in PACKETS.items() if key.startswith("aten::") and any("weft" in op.public for op in ops)
    }
    assert not {n for n in public if not n.startswith("_")} - names


def test_a_users_code_passes_a_strict_check_and_runs(errors: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert [e for e in errors if "mistakes.py" not in e] == []
    runpy.run_path(str(HERE / "user_code.py"), run_name="__main__")
    assert capsys.readouterr().out


def test_mistakes_are_found_where_they_are(errors: list[str]) -> None:
    source = (HERE / "mistakes.py").read_text().splitlines()
    expected = {i: line.rsplit("# ", 1)[1] for i, line in enumerate(source, 1) if "  # " in line}
    told = [re.search(r":(\d+): error.*\[([\w-]+)\]$", e) for e in errors if "mistakes.py" in e]
    found = {int(m[1]): m[2] for m in told if m}
    assert found == expected


def test_lazy_names_exist() -> None:
    for name, (where, _) in weft._LAZY_NAMES.items():
        assert getattr(weft, name) is not None, where
