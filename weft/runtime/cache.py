"""The disk cache of object code: bytes under a key, shared by the processes of one user, bounded in size,
never trusted blindly."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from weft.runtime.trust import Distrust, check_folder, read_own_file, secret_of
from weft.support import limits
from weft.support.errors import ValueProblem
from weft.support.knobs import knobs
from weft.support.warn import warn

MAGIC = b"weftobj2"
HEADER = struct.Struct("<8sQ32s")  # magic, payload length, BLAKE2b of name and payload under the user's secret
HOUR = 3600.0
STAMP = ".pruned"
_KEY = re.compile(r"[0-9a-f]{8,128}")
_warned = False


class Carried(dict[str, bytes]):
    """What a process has without a folder, such as code that came with a pickle. The oldest goes where it is more than
    `limit` bytes."""

    limit = limits.CARRIED

    def carry(self, key: str, data: bytes) -> None:
        """Have bytes under a key."""
        self.pop(key, None)
        self[key] = data
        while sum(map(len, self.values())) > self.limit:
            del self[next(iter(self))]


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
    none. Its header carries length and a digest of name and content under a secret that only this user can read; an
    entry that does not fit counts as absent and is removed. A folder that others own, or that all can write, is not
    used. Reading refreshes an entry's time, and writing removes the least recently used ones once the folder holds more
    than `limit` bytes.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None, limit: int = limits.DISK_CACHE, carried: Carried | None = None
    ) -> None:
        """carried: bytes that this process has beside the folder's."""
        self.folder = None if folder is None else Path(folder)
        self.carried = Carried() if carried is None else carried
        self.limit = limit
        self.stats = CacheStats()
        self._unpruned = 0
        self._is_written = True  # until a write fails
        self._secret: bytes | None = None

    def get(self, key: str) -> bytes | None:
        """The bytes stored under `key`, or None. Never raises for what is on disk."""
        data = self.carried.get(key)
        data = self._read(key) if data is None else data
        if data is None:
            self.stats.misses += 1
            return None
        self.stats.hits += 1
        return data

    def put(self, key: str, data: bytes) -> None:
        """Store `data` under `key`. Where that fails there is one warning, and the folder is only read from then on."""
        path = self._path(key)
        if path is None or not self._is_written:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            secret = self._opened(path.parent, make=True)
            if secret is None:
                return
            self._write(path, _entry(key, data, secret))
        except OSError as problem:
            self._is_written = False
            _warn_once(
                f"weft: the compile cache {self.folder} cannot be written ({problem}); going on without writing to it"
            )
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

    def _opened(self, folder: Path, *, make: bool) -> bytes | None:
        """The secret of the folder, which is looked at once; None where there is none yet, or where the folder
        is not to be trusted."""
        if self._secret is None:
            try:
                check_folder(folder)
                self._secret = secret_of(folder, make=make)
            except Distrust as reason:
                self._give_up(str(reason))
        return self._secret

    def _give_up(self, reason: str) -> None:
        _warn_once(f"weft: the compile cache {self.folder} {reason}; going on without it")
        self.folder = None

    def _read(self, key: str) -> bytes | None:
        path = self._path(key)
        if path is None:
            return None
        payload = None
        try:
            secret = self._opened(path.parent, make=False)
            if secret is None:
                return None
            content, used = read_own_file(path, self.limit)
            payload = _payload(key, content, secret)
        except OSError:
            return None
        except Distrust:
            pass
        if payload is None:
            self.stats.corrupt += 1
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        if time.time() - used > HOUR:  # fine enough for pruning, and spares the disk
            with contextlib.suppress(OSError):
                os.utime(path)
        return payload

    def _write(self, path: Path, content: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _entries(self) -> list[tuple[float, int, str]]:
        """(time of last use, bytes, path) of every entry; stale temporaries are removed on the way."""
        entries = []
        with contextlib.suppress(OSError), os.scandir(self.folder or "") as listing:
            for item in listing:
                with contextlib.suppress(OSError):  # another process may prune at the same moment
                    status = item.stat(follow_symlinks=False)
                    if item.name.endswith(".o"):
                        entries.append((status.st_mtime, status.st_size, item.path))
                    elif item.name.startswith(".new-") and time.time() - status.st_mtime > HOUR:
                        os.unlink(item.path)
        return entries

    def _prune_is_due(self) -> bool:
        """After an eighth of the limit was written here, or an hour since any process looked."""
        if self._unpruned > self.limit // 8:
            return True
        try:
            return self.folder is not None and time.time() - os.lstat(self.folder / STAMP).st_mtime > HOUR
        except OSError:
            return True

    def _stamp(self) -> None:
        """Say when the folder was looked through. A new file takes the old one's place,
        so that nothing is written through a link."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                self._write(self.folder / STAMP, b"")


def _digest(key: str, data: bytes, secret: bytes) -> bytes:
    digest = hashlib.blake2b(key.encode() + b"\0", digest_size=32, key=secret)
    digest.update(data)
    return digest.digest()


def _entry(key: str, data: bytes, secret: bytes) -> bytes:
    return HEADER.pack(MAGIC, len(data), _digest(key, data, secret)) + data


def _payload(key: str, content: bytes, secret: bytes) -> bytes | None:
    """The payload of an entry's content, or None if it is truncated, altered, another entry's or not ours."""
    if len(content) < HEADER.size:
        return None
    magic, length, digest = HEADER.unpack_from(content)
    payload = content[HEADER.size :]
    if magic != MAGIC or length != len(payload) or not hmac.compare_digest(digest, _digest(key, payload, secret)):
        return None
    return payload


def _warn_once(message: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warn(message, RuntimeWarning)


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
carried = Carried()


def user_cache() -> Cache:
    """The process's Cache over `user_folder()`."""
    folder = user_folder()
    if folder not in _shared:
        _shared[folder] = Cache(folder, carried=carried)
    return _shared[folder]
