"""Sizes that a run finds may outlive the names of their module, when the interpreter ends."""

import subprocess
import sys

PROGRAM = """
from weft.types import unbacked
size = unbacked.UnbackedSize(None)
unbacked.alive = unbacked.KNOWN = None  # as the interpreter does in the end
del size
"""


def test_nothing_is_said_at_exit() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
