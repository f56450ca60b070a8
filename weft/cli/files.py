"""The files and folders of a run, with errors that name them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from weft.cli.failure import CommandError
from weft.support.whole_files import replace_file


def write_file(path: Path, content: bytes) -> None:
    """Replace path by content in one step. On any failure path is as it was; an OSError becomes a CommandError."""
    try:
        replace_file(path, content)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written ({error.strerror})") from None


def make_folder(path: Path) -> None:
    """Make the folder for results and see that files can be made in it, before any work is done.
    Raises CommandError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise CommandError(f"{path}: cannot write to this folder ({error.strerror})") from None
