"""Files that are whole or not there: written under another name, flushed, then renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from weft.cli.failure import CommandError


def write_file(path: Path, content: bytes) -> None:
    """Replace path by content in one step. On any failure path is as it was; an OSError becomes a CommandError."""
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp's files are private to their owner
        os.replace(temporary, path)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def make_folder(path: Path) -> None:
    """Make the folder for results and see that files can be made in it, before any work is done. Raises CommandError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise CommandError(f"{path}: cannot write to this folder ({error.strerror})") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
