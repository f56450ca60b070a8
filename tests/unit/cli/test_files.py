"""Whole files or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import weft
from weft.cli.failure import CommandError
from weft.cli.files import make_folder, write_file


def test_content_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    for content in (b"first", b"second and longer"):
        write_file(path, content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["out.bin"]
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.bin"
    write_file(path, b"old")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(CommandError, match=r"out\.bin: cannot be written \(No space left on device\)"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["out.bin"]


def test_folders_are_made_or_refused_by_name(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir() and not os.listdir(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(CommandError, match="cannot write to this folder"):
            make_folder(wrong)
    with pytest.raises(CommandError, match="cannot be written"):
        write_file(tmp_path / "nowhere" / "x", b"")


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        weft.save({"x": weft.ones(2)}, tmp_path / "nowhere" / "x.safetensors")
    assert caught.value.filename == str(tmp_path / "nowhere" / "x.safetensors")
