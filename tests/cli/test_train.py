"""`weft train`: it learns, writes whole files, goes on bit for bit, and stops politely."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import SMALL, command_line, environment, weft_command, weft_process
from weft.cli.checkpoint import load_checkpoint
from weft.cli.plot import can_plot

STEPS = 8


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "rhyme.txt"
    path.write_text("Peter Piper picked a peck of pickled peppers – so they say.\n" * 60, encoding="utf-8")
    return path


@pytest.mark.parametrize("mode", ["compiled", "eager", "interpret"])
def test_a_run_prints_and_writes_what_it_promises(tmp_path: Path, text: Path, mode: str) -> None:
    command = weft_process if mode == "compiled" else weft_command
    done = command("train", *SMALL, "--data", text, "--steps", 60, "--mode", mode, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for words in (
        (f"{mode} mode", "rhyme.txt: 3,", "parameters", "first step", "step 60/60", "bigram", "trigram", "continues")
    ):
        assert words in done.stdout
    assert "PyTorch" not in done.stdout  # no stored result for this text
    expected = {"checkpoint.safetensors", "loss.png"} if can_plot() else {"checkpoint.safetensors"}
    assert set(os.listdir(tmp_path / "out")) == expected
    losses = load_checkpoint(tmp_path / "out").losses
    assert len(losses) == 60 and losses[-1] < losses[0] - 0.5


def test_modes_train_alike(tmp_path: Path, text: Path) -> None:
    losses = {}
    for mode in ("compiled", "eager", "interpret"):
        done = weft_command("train", *SMALL, "--data", text, "--steps", STEPS, "--mode", mode, "--out", tmp_path / mode)
        assert done.returncode == 0, done.stderr
        losses[mode] = load_checkpoint(tmp_path / mode).losses
    assert abs(losses["compiled"] - losses["eager"]).max() < 1e-5
    assert abs(losses["interpret"] - losses["eager"]).max() < 1e-5


@pytest.mark.parametrize("mode", ["compiled", "eager"])
def test_a_resumed_run_is_the_same_run(tmp_path: Path, text: Path, mode: str) -> None:
    options = ("--data", text, "--mode", mode, "--dropout", 0.2, "--seed", 5, *SMALL)
    command = weft_process if mode == "compiled" else weft_command
    assert weft_command("train", *options, "--steps", STEPS, "--out", tmp_path / "whole").returncode == 0
    assert command("train", *options, "--steps", 3, "--out", tmp_path / "halves").returncode == 0
    done = command("train", "--resume", tmp_path / "halves", "--steps", STEPS, "--mode", mode)
    assert done.returncode == 0 and "going on after step 3" in done.stdout, done.stderr
    whole, halves = (tmp_path / name / "checkpoint.safetensors" for name in ("whole", "halves"))
    assert whole.read_bytes() == halves.read_bytes()


def test_a_finished_run_can_be_opened_again(tmp_path: Path, text: Path) -> None:
    assert weft_command("train", *SMALL, "--data", text, "--steps", 2, "--out", tmp_path).returncode == 0
    done = weft_command("train", "--resume", tmp_path / "checkpoint.safetensors", "--steps", 2)
    assert done.returncode == 0 and "held-out loss" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_so(tmp_path: Path, text: Path, number: signal.Signals) -> None:
    line = command_line("train", *SMALL, "--data", text, "--steps", 10**6, "--mode", "eager", "--out", tmp_path)
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    for printed in process.stdout:
        if printed.startswith("step"):
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "stopping after this step" in err and "Traceback" not in err
    checkpoint = load_checkpoint(tmp_path)
    assert f"stopped after step {checkpoint.step}; saved {tmp_path / 'checkpoint.safetensors'}" in out
    assert checkpoint.step >= 50 and os.listdir(tmp_path) == ["checkpoint.safetensors"]
    assert (
        weft_command("train", "--resume", tmp_path, "--steps", checkpoint.step + 1, "--mode", "eager").returncode == 0
    )
