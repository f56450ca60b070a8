"""Tracebacks as users read them: weft's frames are left out of what is printed, and of nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.support.tracebacks import without_internal

ROOT = str(Path(weft.__file__).parents[1])
PROGRAM = """
import threading
import weft

def inner(x):
    return x @ weft.ones(5, 5)

@weft.compile
def step(x):
    return inner(x)

def work():
    try:
        weft.ones(2, 3) @ weft.ones(2, 3)
    except RuntimeError:
        step(weft.ones(2, 3))

thread = threading.Thread(target=work)
thread.start()
thread.join()
work()
"""


def errors_of(program: str, path: Path, **environment: str) -> str:
    file = path / "train.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": ROOT, **environment}, check=False,
    )
    assert done.returncode == 1
    return done.stderr


def test_what_a_program_prints_when_it_ends(tmp_path: Path) -> None:
    text = errors_of(PROGRAM, tmp_path)
    assert os.path.join(ROOT, "weft") not in text
    for name in ("in work", "in step", "in inner", "in <module>"):
        assert name in text
    assert text.count("ShapeError") == 4  # the error and the one that it came after, in the thread and outside
    assert os.path.join(ROOT, "weft") in errors_of(PROGRAM, tmp_path, WEFT_DEBUG="frames")


def test_a_traceback_of_nothing_but_weft_stays_whole(tmp_path: Path) -> None:
    with pytest.raises(AttributeError) as caught:
        without_internal(3)  # type: ignore[arg-type]
    assert caught.tb is not None
    own = caught.tb.tb_next
    assert without_internal(own) is own
    shorter = without_internal(caught.tb)
    assert shorter is not None
    assert (shorter.tb_frame, shorter.tb_next) == (caught.tb.tb_frame, None)


def test_a_hook_of_another_stays_in_charge(tmp_path: Path) -> None:
    hooked = (
        "import sys\nsys.excepthook = lambda kind, error, tb: print('mine', kind.__name__, tb.tb_next, "
        "file=sys.stderr)\n"
        + PROGRAM
    )
    assert "mine ShapeError <traceback" in errors_of(hooked, tmp_path)
