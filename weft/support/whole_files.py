"""Files that are whole or not there: written under another name, flushed, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import time
from pathlib import Path

from weft.support.errors import NoFolder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".part"
_LONG = 3600.0  # seconds after which a file counts as abandoned where it cannot be locked


def replace_file(path: Path, content: bytes) -> None:
    """Replace path by content in one step, with the permissions of any new file. On any failure path is as it was.
    Raises OSError.

    What a process that was killed while it wrote the same path has left behind is removed.
    """
    if not path.parent.exists():
        raise NoFolder(errno.ENOENT, f"Parent directory {path.parent} does not exist", str(path))
    _remove_abandoned(path)
    try:
        descriptor, temporary = _begun(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # it would name the temporary file
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())  # mkstemp's files are private to their owner
            if fcntl is not None:  # while the lock is held, nobody takes the file for abandoned
                os.replace(temporary, path)
        if fcntl is None:  # Windows, which does not move an open file
            os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _begun(path: Path) -> tuple[int, str]:
    """A new file beside `path`, open and locked."""
    while True:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path), suffix=_SUFFIX)
        if _lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
            return descriptor, temporary
        os.close(descriptor)  # another process took it for abandoned before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove the files beside `path` that nobody writes any more."""
    ours = re.compile(re.escape(_prefix(path)) + "[a-z0-9_]{8}" + re.escape(_SUFFIX))
    with contextlib.suppress(OSError), os.scandir(path.parent) as listing:
        for entry in listing:
            if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if _is_abandoned(entry):
                        os.unlink(entry.path)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    descriptor = os.open(entry.path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        free = _lock(descriptor)
    finally:
        os.close(descriptor)
    return time.time() - entry.stat().st_mtime > _LONG if free is None else free


def _lock(descriptor: int) -> bool | None:
    """Whether the file could be locked, which whoever writes it does; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without
        return None
    return True


def _prefix(path: Path) -> str:
    return f".{path.name}."


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
