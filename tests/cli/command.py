"""Runs `python -m weft` as a user does, on a model small enough for a test: in this process, or in one of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from weft.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--blocks", "1", "--width", "16", "--heads", "2", "--context", "12", "--batch", "3")
Done = subprocess.CompletedProcess[str]


def weft_command(*arguments: object, cwd: Path | None = None) -> Done:
    """Run one command to its end in this process, with what it printed: a second sooner than in one of its own."""
    words = list(map(str, arguments))
    before, out, err = Path.cwd(), io.StringIO(), io.StringIO()
    os.chdir(cwd or before)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words)
    except SystemExit as end:  # of argparse
        code = int(end.code or 0)
    finally:
        os.chdir(before)
    return Done(words, code, out.getvalue(), err.getvalue())


def weft_process(*arguments: object, cwd: Path | None = None) -> Done:
    """Run one command to its end in a process of its own, with what it printed."""
    return subprocess.run(
        command_line(*arguments), capture_output=True, text=True, encoding="utf-8", errors="replace",
        cwd=cwd, env=environment(), timeout=110,
    )


def command_line(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "weft", *map(str, arguments)]


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
