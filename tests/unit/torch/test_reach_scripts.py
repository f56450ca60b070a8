"""./dev reach --scripts: its list can be read, a script runs as it is, and ends that differ are told."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"
ROOT = SCRIPTS.parent
TRAINING = """
import sys
import torch
from helper import data
torch.manual_seed(0)
x, y = data()
net = torch.nn.Linear(2, 1)
for _ in range(int(sys.argv[1])):
    net.zero_grad()
    loss = (net(x) - y).square().mean()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
    print("loss", loss.item())
"""
HELPER = "import torch\ndef data():\n    x = torch.randn(64, 2)\n    return x, x.sum(1, keepdim=True) + 1\n"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module("reach_scripts")


def test_the_list(scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writers = import_module("reach_data").WRITERS
    listed = scripts.scripts()
    assert len(listed) >= 25 and len({script.name for script in listed}) == len(listed)
    for script in listed:
        assert script.number.groups == 1 and len(script.commit) == 40 and script.folders and script.commands
        assert all(name.partition(":")[0] in writers for name in script.data)
    assert sum(script.compiles for script in listed) >= 2


def test_a_script_of_a_repository(scripts: Any, tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    repository = tmp_path / "somebody+thing"
    notebook = {"cells": [
        {"cell_type": "code", "source": ["%matplotlib inline\n", "print('end', 2.5)"]},
        {"cell_type": "markdown", "source": ["print(3)"]},
    ]}  # fmt: skip
    files = {"part/train.py": TRAINING, "part/helper.py": HELPER, "other.py": "", "part/n.ipynb": json.dumps(notebook)}
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "c"]):
        assert scripts.git(repository, *words).returncode == 0
    commit = scripts.git(repository, "rev-parse", "HEAD").stdout.strip()
    options = argparse.Namespace(
        env=tmp_path / "env", repositories=f"{tmp_path}/{{owner}}+{{name}}", torch=None, seeds=2, limit=300
    )

    def run(*commands: str, number: str) -> Any:
        kind = scripts.re.compile(number)
        script = scripts.Script("s", "k", "somebody/thing", commit, ("part",), commands, kind, (), (), (), False)
        return scripts.outcome(script, Path(sys.executable), {"weft": ROOT}, options, "")

    trained = run("part/train.py 30", number="loss (.*)")
    first, moved = trained.ours
    assert not trained.problem and first.value != moved.value and max(first.value, moved.value) < 0.1
    file = tmp_path / "kept" / "s.json"
    scripts.keep(trained, file)
    assert scripts.kept_outcome(trained.script, file) == trained
    options.seeds = 1
    assert run("part/n.ipynb", number="end (.*)").ours[0].value == 2.5
    assert "nothing printed looks like" in run("part/n.ipynb", number="begin (.*)").problem
    assert "ValueError" in run("part/train.py x", number="loss (.*)").problem


def test_ends_that_differ(scripts: Any) -> None:
    assert scripts.ends_that_differ([1.0, 1.2, 1.1], [1.15, 1.0, 1.2]) == ""
    assert scripts.ends_that_differ([1.0, 1.01, 1.02], []) == ""
    assert "PyTorch at 2" in scripts.ends_that_differ([1.0, 1.01, 1.02], [2.0, 2.01, 1.99])
    assert scripts.ends_that_differ([float("nan")] * 3, [1.0, 1.0, 1.0]) != ""


def test_drawn_data_sets(tmp_path: Path) -> None:
    names = ("text:a/input.txt", "corpus:b", "tokens:c", "mnist:d", "cora:e", "molecules:f")
    for folder in ("one", "two"):
        subprocess.run([sys.executable, str(SCRIPTS / "reach_data.py"), str(tmp_path / folder), *names], check=True)
    one = {p.relative_to(tmp_path / "one"): p for p in (tmp_path / "one").rglob("*") if p.is_file()}
    for name, path in one.items():
        if path.suffix != ".gz":  # which holds the time
            assert path.read_bytes() == (tmp_path / "two" / name).read_bytes()
    raw = tmp_path / "one" / "d" / "MNIST" / "raw"
    images = np.frombuffer((raw / "train-images-idx3-ubyte").read_bytes(), np.uint8, offset=16).reshape(-1, 784)
    labels = np.frombuffer((raw / "train-labels-idx1-ubyte").read_bytes(), np.uint8, offset=8)
    centres = np.stack([images[labels == k].mean(0) for k in range(10)])
    nearest = np.square(images[:100, None] - centres).sum(-1).argmin(1)
    assert (nearest == labels[:100]).mean() > 0.8  # the classes can be told apart
