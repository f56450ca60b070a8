"""What a folder on disk may hand to this process: regular files of the user's own, which nobody else
could have written."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

SECRET_SIZE = 32
_CAREFULLY = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Distrust(Exception):
    """Why a folder or file is not used."""


def check_folder(folder: Path) -> None:
    """Raises Distrust for a folder that is a link, somebody else's, or open to writes of all;
    FileNotFoundError where there is none."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise Distrust("is a symbolic link" if stat.S_ISLNK(status.st_mode) else "is not a folder")
    _check_owner(status)


def read_own_file(path: Path, limit: int) -> tuple[bytes, float]:
    """Content and time of a regular file of the user's own, of at most `limit` bytes.
    Follows no link and waits for no pipe.

    Raises Distrust; FileNotFoundError and other OSErrors as `open` does.
    """
    try:
        descriptor = os.open(path, _CAREFULLY)
    except OSError:
        if path.is_symlink():
            raise Distrust("is a symbolic link") from None
        raise
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise Distrust("is no file of ours")
        _check_owner(status)
        return file.read(), status.st_mtime


def secret_of(folder: Path, *, make: bool) -> bytes | None:
    """The secret that this user's entries in a folder are signed with; a new one is made where there is none,
    if `make` says so."""
    path = folder / ".secret"
    secret = _read_secret(path)
    if secret is None and make:
        _publish(path, secrets.token_bytes(SECRET_SIZE))
        secret = _read_secret(path)
    return secret


def _read_secret(path: Path) -> bytes | None:
    """The secret, or None. One that others may have read or written is removed: what it signed is then nobody's."""
    try:
        content, _ = read_own_file(path, SECRET_SIZE)
        if len(content) == SECRET_SIZE and not _is_open_to_others(path):
            return content
    except Distrust:
        pass
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.unlink(path)
    return None


def _is_open_to_others(path: Path) -> bool:
    return hasattr(os, "getuid") and bool(os.lstat(path).st_mode & 0o077)


def _publish(path: Path, content: bytes) -> None:
    """Make a file with this content unless there is one: of several processes, one wins, and all read its file.
    Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # of mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        except (OSError, AttributeError, NotImplementedError):  # no hard links here
            with contextlib.suppress(FileExistsError):
                os.rename(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _check_owner(status: os.stat_result) -> None:
    if not hasattr(os, "getuid"):  # Windows: permissions are not in the mode
        return
    if status.st_uid != os.getuid():
        raise Distrust("belongs to another user")
    if status.st_mode & stat.S_IWOTH:
        raise Distrust("can be written by every user")
