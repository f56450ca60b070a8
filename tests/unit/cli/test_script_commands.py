"""`python -m weft explain SCRIPT.py` and `profile SCRIPT.py`, in one process: arguments, errors, results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from weft.cli.main import main

SCRIPT = '''
import sys
import weft

@weft.compile
def work(x):
    return (x.sin() @ x).exp().sum()

def parts(x):
    y = x * 2
    return y + 1 if float(y.sum().numpy()) > 0 else y

parts = weft.compile(parts, split=True)
x = weft.ones(16, 16)
for _ in range(4):
    work(x)
    parts(x)
print("said", __name__, sys.argv[1:])
'''


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "work.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_is_explained(script: Path, capsys: Any) -> None:
    argv, path = list(sys.argv), list(sys.path)
    page = script.with_suffix(".html")
    assert main(["explain", "--html", str(page), str(script), "--flag", "3"]) == 0
    out = capsys.readouterr().out
    assert f"wrote {page}" in out and "work.py" in page.read_text()
    assert "said __main__ ['--flag', '3']" in out and sys.argv == argv and sys.path == path
    assert "work: compiled function, work.py:5" in out and "called 4 times" in out
    assert "parts: function that runs in parts" in out and "asks a tensor of type f32[] for numpy()" in out
    assert "work.py:7" in out and "<frozen" not in out


def test_a_script_is_profiled(script: Path, tmp_path: Path, capsys: Any) -> None:
    trace = tmp_path / "trace.json"
    assert main(["profile", "--rows", "4", "--trace", str(trace), "--sort", "count", str(script)]) == 0
    out = capsys.readouterr().out
    assert "Self CPU time total" in out and "said __main__ []" in out
    names = [e["name"] for e in json.loads(trace.read_text())["traceEvents"]]
    assert names.count("compiled work") == 4 and any(n.startswith("work: k0") for n in names)


def test_what_a_script_raises_is_shown_from_its_own_frames_on(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("import weft\nweft.ones(2) + weft.ones(3)\n")
    assert main(["profile", str(path)]) == 1
    captured = capsys.readouterr()
    assert "wrong.py" in captured.err and "runpy" not in captured.err and "aten::add" in captured.out
    path.write_text("raise SystemExit(5)")
    assert main(["explain", str(path)]) == 5
    assert "nothing in it ran as a program; `python -m weft profile" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "words"), [
    (["profile", "no_such.py"], "no_such.py: no such file"),
    (["explain", "no_such.py"], "no_such.py: no such file"),
    (["explain", "."], "a folder, not a Python file"),
    (["explain", "--html", "no/such/folder.html", "--width", "8", "--context", "4"], "--html no/such/folder.html: "),
    (["profile", "--rows", "0", __file__], "--rows must be at least 1"),
    (["profile", "--sort", "counts", __file__], "did you mean count?"),
])
def test_mistakes_are_one_line(arguments: list[str], words: str, capsys: Any) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
