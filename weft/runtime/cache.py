"""The disk cache of object code: bytes under a key, shared by processes, bounded in size, never trusted blindly."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import struct
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from weft.support.errors import ValueProblem
from weft.support.knobs import knobs

MAGIC = b"weftobj1"
HEADER = struct.Struct("<8sQ16s")  # magic, payload length, BLAKE2b-128 of the payload
LIMIT = 512 << 20
HOUR = 3600.0
_KEY = re.compile(r"[0-9a-f]{8,128}")
_warned = False


@dataclass
class CacheStats:
    """What a Cache has done in this process: entries found, not found, written, thrown away as damaged."""

    hits: int = 0
    misses: int = 0
    writes: int = 0
    corrupt: int = 0


class Cache:
    """Bytes by hex key in a folder; `folder=None` is a cache that never holds anything.

    An entry is written under a temporary name and renamed, so readers (also in other processes) see all of it or
    none. Its header carries length and digest; a damaged entry counts as absent and is removed. Reading refreshes an
    entry's time, and writing removes the least recently used ones once the folder holds more than `limit` bytes.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int = LIMIT) -> None:
        self.folder = None if folder is None else Path(folder)
        self.limit = limit
        self.stats = CacheStats()
        self._unpruned = 0

    def get(self, key: str) -> bytes | None:
        """The bytes stored under `key`, or None. Never raises for what is on disk."""
        data = self._read(key)
        if data is None:
            self.stats.misses += 1
            return None
        self.stats.hits += 1
        return data

    def put(self, key: str, data: bytes) -> None:
        """Store `data` under `key`. A folder that cannot be written gives one warning and is given up."""
        path = self._path(key)
        if path is None or self.folder is None:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(path, data)
        except OSError as problem:
            _warn_once(f"weft: the compile cache {self.folder} cannot be written ({problem}); going on without it")
            self.folder = None
            return
        self.stats.writes += 1
        self._unpruned += len(data)
        if self._prune_is_due():
            self.prune()

    def prune(self) -> None:
        """Remove least recently used entries until four fifths of the limit are left, and abandoned temporaries."""
        entries = self._entries()
        total = sum(size for _, size, _ in entries)
        self._unpruned = 0
        self._stamp()
        if total <= self.limit:
            return
        for _, size, path in sorted(entries):
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size
            if total <= self.limit * 4 // 5:
                return

    def clear(self) -> None:
        """Remove every entry."""
        for _, _, path in self._entries():
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _path(self, key: str) -> Path | None:
        if not _KEY.fullmatch(key):
            raise ValueProblem(f"Cache: the key {key!r} is not 8 to 128 lower-case hex digits")
        return None if self.folder is None else self.folder / f"{key}.o"

    def _read(self, key: str) -> bytes | None:
        path = self._path(key)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError:
            return None
        payload = _payload(content)
        if payload is None:
            self.stats.corrupt += 1
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        _refresh(path)
        return payload

    def _write(self, path: Path, data: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(HEADER.pack(MAGIC, len(data), _digest(data)) + data)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _entries(self) -> list[tuple[float, int, str]]:
        """(time of last use, bytes, path) of every entry; stale temporaries are removed on the way."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self.folder or "") as listing:
            for item in listing:
                with contextlib.suppress(OSError):  # another process may prune at the same moment
                    status = item.stat()
                    if item.name.endswith(".o"):
                        found.append((status.st_mtime, status.st_size, item.path))
                    elif item.name.startswith(".new-") and time.time() - status.st_mtime > HOUR:
                        os.unlink(item.path)
        return found

    def _prune_is_due(self) -> bool:
        """After an eighth of the limit was written here, or an hour since any process looked."""
        if self._unpruned > self.limit // 8:
            return True
        try:
            return time.time() - os.stat(self._stamp_path()).st_mtime > HOUR
        except OSError:
            return True

    def _stamp(self) -> None:
        with contextlib.suppress(OSError):
            Path(self._stamp_path()).write_bytes(b"")

    def _stamp_path(self) -> str:
        return os.path.join(self.folder or "", ".pruned")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _payload(content: bytes) -> bytes | None:
    """The payload of an entry's content, or None if it is truncated, altered or not ours."""
    if len(content) < HEADER.size:
        return None
    magic, length, digest = HEADER.unpack_from(content)
    payload = content[HEADER.size :]
    if magic != MAGIC or length != len(payload) or digest != _digest(payload):
        return None
    return payload


def _refresh(path: Path) -> None:
    """Mark an entry as used; once an hour is fine enough for pruning and spares the disk."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > HOUR:
            os.utime(path)


def _warn_once(message: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def user_folder() -> Path | None:
    """The folder of the user's cache: WEFT_CACHE (None for `off`), XDG_CACHE_HOME/weft, or the system's place."""
    if knobs.cache == "off":
        return None
    if knobs.cache:
        return Path(knobs.cache)
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if home:
        return Path(home) / "weft"
    with contextlib.suppress(RuntimeError):  # a user without a home folder
        return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "weft"
    return None


_shared: dict[Path | None, Cache] = {}


def user_cache() -> Cache:
    """The process's Cache over `user_folder()`. A folder that belongs to another user is not trusted with code."""
    folder = user_folder()
    if folder not in _shared:
        _shared[folder] = Cache(folder if folder is None or knobs.cache or _is_ours(folder) else None)
    return _shared[folder]


def _is_ours(folder: Path) -> bool:
    if not hasattr(os, "getuid"):
        return True
    try:
        return folder.stat().st_uid == os.getuid()
    except OSError:
        return True  # not there yet: it will be made by us
