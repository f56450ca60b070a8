"""A save that was killed leaves its path as it was, and a temporary file that the next save
of the same path removes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.support import whole_files

KILLED = """
import os, signal, sys
import weft
os.fsync = lambda descriptor: (print("begun", flush=True), sys.stdin.read(), os.kill(os.getpid(), signal.SIGKILL))
weft.save(weft.ones(1000), sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals and locks are POSIX's")
def test_the_next_save_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / "model.weft"
    weft.save([1], path)
    others = [
        tmp_path / name
        for name in (".model.weft.incomplete.part", ".model.weft2.abcdefgh.part", "model.weft.abcdefgh.part")
    ]
    for other in others:
        other.write_text("somebody else's")
    with subprocess.Popen([
        sys.executable, "-c", KILLED, str(path)
    ], cwd=Path(__file__).parents[3], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        weft.save([2], path)
        (left,) = tmp_path.glob(".model.weft.????????.part")  # it is still being written: another save leaves it alone
        process.communicate()
    assert weft.load(path) == [2] and left.stat().st_size > 4000
    weft.save([3], path)
    assert weft.load(path) == [3]
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_a_failed_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.weft"
    weft.save([1], path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        weft.save([2], path)
    assert weft.load(path) == [1] and list(tmp_path.iterdir()) == [path]


def test_without_locks_only_old_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "fcntl", None)
    path = tmp_path / "x"
    for name, time in ((".x.aaaaaaaa.part", 1), (".x.bbbbbbbb.part", None)):
        (tmp_path / name).write_text("left")
        if time is not None:
            os.utime(tmp_path / name, (time, time))
    weft.save([1], path)
    assert weft.load(path) == [1] and sorted(p.name for p in tmp_path.iterdir()) == [".x.bbbbbbbb.part", "x"]
