"""Runs `python -m weft` as a user does, on a model small enough for a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--blocks", "1", "--width", "16", "--heads", "2", "--context", "12", "--batch", "3")


def weft_command(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run one command to its end, with what it printed."""
    return subprocess.run(
        command_line(*arguments), capture_output=True, text=True, encoding="utf-8", errors="replace",
        cwd=cwd, env=environment(), timeout=110,
    )


def command_line(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "weft", *map(str, arguments)]


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
