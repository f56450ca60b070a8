"""Bad input: one clear message with the file, exit code 2, no traceback, nothing half-written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import SMALL, Done, command_line, environment, weft_command, weft_process
from weft.cli.checkpoint import load_checkpoint


def refused(*arguments: object, cwd: Path | None = None, run: Callable[..., Done] = weft_command) -> str:
    """The one line on standard error of a command that must be refused."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1 and not done.stdout
    return done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"", "is empty"),
        (b"\x7fELF\x02\x00\x00", "not a text file"),
        (b"\xff\xfe nonsense" * 100, "not UTF-8 text"),
        (b"far too short", "too short"),
    ],
)
def test_a_data_file_that_cannot_be_trained_on(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "data"
    if content is not None:
        path.write_bytes(content)
    error = refused("train", "--data", path, "--out", tmp_path / "out")
    assert str(path) in error and message in error
    assert not (tmp_path / "out").exists()


def test_an_output_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in refused("train", "--out", tmp_path / "file" / "out", run=weft_process)
    assert os.listdir(tmp_path) == ["file"]


def test_checkpoints_that_are_none(tmp_path: Path) -> None:
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{}")
    for command in (("generate", bad), ("train", "--resume", bad)):
        assert str(bad) in refused(*command)
    assert (
        "there is no such checkpoint; `python -m weft train --out weft-run` makes one"
        in refused("generate", cwd=tmp_path)
    )
    assert os.listdir(tmp_path) == ["bad.safetensors"]


def test_a_run_goes_on_only_as_it_began(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    data.write_bytes(b"one text, and a good one. " * 20)
    other.write_bytes(b"another one, quite as good. " * 20)
    out = tmp_path / "out"
    done = weft_command("train", *SMALL, "--data", data, "--steps", 2, "--mode", "eager", "--out", out)
    assert done.returncode == 0, done.stderr
    before = (out / "checkpoint.safetensors").read_bytes()
    assert (
        "trained with --batch 3; a run cannot go on with --batch 4" in refused("train", "--resume", out, "--batch", 4)
    )
    assert "not the text that the checkpoint was trained on" in refused("train", "--resume", out, "--data", other)
    assert "--steps 1: must be at least 2" in refused("train", "--resume", out, "--steps", 1)
    data.unlink()
    assert f"{data}: cannot be read" in refused("train", "--resume", out)
    truncated = out / "cut.safetensors"
    truncated.write_bytes(before[:-7])
    assert f"{truncated}: not a checkpoint, or cut short" in refused("generate", truncated)
    assert (out / "checkpoint.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "--steps", 0), "--steps 0"),
        (("train", "--batch", 0), "--batch"),
        (("train", "--heads", 3), "width 128 does not divide into 3 heads"),
        (("train", "--dropout", 1), "--dropout"),
        (("train", "--learning-rate", "nan"), "--learning-rate"),
        (("train", "--seed", -1), "--seed"),
        (("train", "--prompt", ""), "--prompt"),
        (("train", "--prompt", os.fsdecode(b"a\xff")), "--prompt: not UTF-8 text"),
        (("train", "--batch", 10**12), "needs at least"),
        (("train", "--width", 10**9, "--heads", 1), "needs at least"),
        (("train", "--learning-rate", "inf"), "--learning-rate inf"),
        (("explain", "--width", 10**9, "--heads", 1), "needs at least"),
        (("explain", "--context", 10**9), "too short"),
        (("train", "--threads", 0), "--threads"),
        (("generate", "--prompt", ""), "--prompt"),
        (("generate", "--length", 0), "--length"),
        (("generate", "--temperature", -1), "--temperature"),
        (("generate", "--seed", -1), "--seed"),
    ],
)
def test_numbers_that_make_no_sense(tmp_path: Path, arguments: tuple[object, ...], message: str) -> None:
    assert message in refused(*arguments, cwd=tmp_path)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(("variable", "value"), [("WEFT_CPU", "pdp11"), ("WEFT_DUMP", "file")])
def test_a_knob_that_this_machine_cannot_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("WEFT_CACHE", "off")
    assert value in refused("explain", cwd=tmp_path, run=weft_process)


def test_training_that_diverges_says_so_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.write_bytes(b"one text, and a good one. " * 20)
    options = (
        "train", *SMALL, "--data", data, "--steps", 200, "--mode", "eager", "--learning-rate", 1e30, "--out", out
    )
    done = weft_command(*options, "--save-every", 1)
    assert done.returncode == 2 and "training has diverged" in done.stderr and "Traceback" not in done.stderr
    assert all(np.isfinite(load_checkpoint(out).losses))


def test_output_that_takes_only_some_characters_gets_those(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("one tëxt, and a göod one. " * 20, encoding="utf-8")
    line = command_line(
        "train", *SMALL, "--data", data, "--steps", 1, "--mode", "eager", "--out", tmp_path, "--prompt", "ö"
    )
    done = subprocess.run(line, capture_output=True, env={**environment(), "PYTHONIOENCODING": "ascii"}, timeout=110)
    assert done.returncode == 0 and b"continues '?'" in done.stdout, done.stderr


def test_a_wrong_flag_shows_the_usage_of_its_command() -> None:
    for command, flag in (("generate", "--lenght"), ("train", "--stps"), ("knobs", "--all"), ("explain", "--deep")):
        done = weft_command(command, flag)
        assert (
            done.returncode == 2 and f"usage: python -m weft {command} " in done.stderr
            and f"unrecognized arguments: {flag}" in done.stderr
        )
