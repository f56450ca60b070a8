"""`python -m weft debug SCRIPT.py`: each planted riddle is one line of its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import weft_process

SCRIPT = """import weft
from weft.ir.graph import Graph
from weft.ir.parser import parse_graph
from weft.passes import pipeline

def wrong(graph):
    text = str(graph)
    if "aten::cos(" not in text:
        return graph
    return Graph(graph.name, parse_graph(text.replace("aten::cos(", "aten::sin(")).block, graph.env, graph.writes)

pipeline.scatter_sums = wrong
w = weft.ones(5, requires_grad=True)

@weft.compile
def step(x, mode):
    return ((x * w).cos() * 0.7310585).sum()

kept = []
for i in range(6):
    loss = step(weft.rand(5), str(i))
    kept.append(weft.zeros(1000, 10))
(weft.zeros(3, requires_grad=True).sqrt() * 0).sum().backward()
print("the end", (weft.zeros(2) - 1).log().shape)
"""


def test_one_command_names_every_riddle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "riddle.py").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setenv("WEFT_CACHE", "off")
    done = weft_process("debug", "--folder", str(tmp_path), str(tmp_path / "riddle.py"))
    text = done.stdout
    assert done.returncode == 0 and text.startswith("the end"), done.stderr
    assert "NaN: riddle.py:23: the backward of it (SqrtBackward0) gives NaN in 3 of 3 elements" in text
    assert "then riddle.py:24: aten::log gives NaN in 2 of 2" in text
    assert "the pass scatter_sums computes something else" in text and "riddle.py:17: aten::cos" in text
    assert (tmp_path / "repeat_step.py").is_file()
    assert "step: 5 calls had no program that fits" in text and "argument mode was '4', is now '5' (5 times)" in text
    assert "what to do:" in text
    assert "riddle.py:22: 234.4 KiB in 6 tensors" in text
    assert len(text.splitlines()) < 20


def test_a_script_without_fault_says_so(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(
        "import weft\nf = weft.compile(lambda x: x.exp() + 1)\nfor _ in range(4): f(weft.ones(3))\n", encoding="utf-8"
    )
    done = weft_process("debug", str(tmp_path / "good.py"))
    assert done.returncode == 0, done.stderr
    assert "NaN: none was made" in done.stdout and "wrong values: none; 1 program" in done.stdout
    assert "compiled again: nothing" in done.stdout


def test_a_nan_in_a_program_ends_the_script_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "import weft\n@weft.compile\ndef f(x):\n    y = x - 2\n    return y.log()\nf(weft.ones(3))\n", encoding="utf-8"
    )
    done = weft_process("debug", str(tmp_path / "bad.py"))
    assert done.returncode == 1 and "NaN: bad.py:5: aten::log gives NaN in 3 of 3 elements" in done.stdout
    assert "of -1" in done.stdout and "bad.py:5" in done.stderr
