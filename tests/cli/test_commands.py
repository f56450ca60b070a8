"""The other commands, and every command's help."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import weft
from tests.cli.command import SMALL, weft_command, weft_process

COMMANDS = ("train", "generate", "explain", "profile", "debug", "run", "knobs")


def test_alone_it_says_what_there_is() -> None:
    done = weft_process()
    assert done.returncode == 0 and done.stdout == weft_command("--help").stdout
    assert all(f"\n    {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = weft_command(name, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"usage: python -m weft {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    options = weft_command(name, "--help").stdout.split("options:")[1]
    entries = re.split(r"\n  (?=-)", options)[1:]
    texts = {entry.split()[0]: " ".join(entry.split()) for entry in entries}
    for option, text in texts.items():
        words = re.sub(r"\{.*?\}|\[.*?\]|\b[A-Z]+\b|--?[\w-]+,?", " ", text).split()
        assert len(words) > 2, option
        assert not re.search(r"\([\d.]+\)", text), f"{option}: a default says that it is one"


def test_the_version_is_said() -> None:
    done = weft_command("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"weft {weft.__version__}")


def test_an_unknown_command_is_refused() -> None:
    done = weft_command("trian")
    assert done.returncode == 2 and "invalid choice: 'trian'" in done.stderr


def test_knobs_are_all_listed_with_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    import weft

    monkeypatch.setenv("WEFT_FUEL", "12")
    done = weft_process("knobs")
    assert done.returncode == 0
    assert all(f"{variable} = " in done.stdout for variable, *_ in weft.knobs.describe())
    assert "WEFT_FUEL = 12   (default: -1)" in done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text").write_text("abcdefgh " * 60)
    done = weft_command("train", *SMALL, "--data", folder / "text", "--steps", 150, "--mode", "eager", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_text_is_continued_past_the_context(trained: Path) -> None:
    options = ("generate", trained, "--prompt", "abcdefgh abc", "--temperature", 0, "--length", 40)
    done = weft_command(*options)
    assert done.returncode == 0, done.stderr
    text = done.stdout.split("\n\n")[0]
    # it has learnt the alphabet, and goes on past 12 bytes
    assert len(text) == 52 and text.startswith("abcdefgh abcdefgh")
    assert weft_command(*options).stdout.split("\n\n")[0] == text


def test_a_seed_repeats_a_text(trained: Path) -> None:
    def drawn(seed: int) -> str:
        return weft_command("generate", trained, "--temperature", 2, "--seed", seed).stdout.split("\n\n(")[0]

    assert drawn(1) == drawn(1) != drawn(2)


def test_stored_pytorch_results_belong_to_the_demo_as_it_is() -> None:
    from weft.cli import training
    from weft.cli.checkpoint import Settings
    from weft.cli.text import Text

    records = json.loads(Path(training.__file__).with_name("torch_reference.json").read_text())
    for record in records:
        settings = Settings(text_sha256=record["sha256"])
        text = type("Stored", (Text,), {"sha256": record["sha256"]})("topics", b"")
        assert training.torch_held_out(settings, text) == record["held_out"] < 1.8
        assert training.torch_held_out(Settings(seed=1, text_sha256=record["sha256"]), text) is None


def test_every_stage_of_the_step_is_printed() -> None:
    listed = weft_command("explain", "--stage", "list")
    assert listed.returncode == 0, listed.stderr
    assert {"summary", "captured", "opened", "optimized", "nests", "llvm"} <= set(listed.stdout.split())
    for stage, words in (("captured", "autograd::"), ("opened", "aten::"), ("llvm", "define ")):
        printed = weft_command("explain", "--stage", stage)
        assert printed.returncode == 0 and words in printed.stdout, printed.stderr


def test_a_summary_of_the_step() -> None:
    done = weft_command("explain")
    assert done.returncode == 0 and "kernels" in done.stdout, done.stderr


def test_an_unknown_stage_is_refused() -> None:
    done = weft_command("explain", "--stage", "asembly")
    assert done.returncode == 2 and "no such stage; there are summary, captured" in done.stderr
