"""The disk cache: what is stored comes back, what is damaged does not, and no folder can break a program."""

from __future__ import annotations

import errno
import os
import random
import threading
import warnings
from pathlib import Path

import pytest
from native_support import python

from weft.runtime import cache as cache_module
from weft.runtime.cache import HEADER, Cache, user_folder
from weft.support.errors import ValueProblem
from weft.support.knobs import knobs

rng = random.Random(os.environ["WEFT_TEST_SEED"])


def key() -> str:
    return rng.randbytes(20).hex()


def test_what_is_put_comes_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new" / "folder")
    name, data = key(), rng.randbytes(rng.randrange(5000))
    assert cache.get(name) is None
    cache.put(name, data)
    assert cache.get(name) == data
    assert Cache(tmp_path / "new" / "folder").get(name) == data
    assert (cache.stats.hits, cache.stats.misses, cache.stats.writes) == (1, 1, 1)


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "foreign", "longer"])
def test_a_damaged_entry_is_absent_and_can_be_written_again(tmp_path: Path, damage: str) -> None:
    cache, name, data = Cache(tmp_path), key(), rng.randbytes(300)
    cache.put(name, data)
    file = tmp_path / f"{name}.o"
    content = bytearray(file.read_bytes())
    flipped = rng.randrange(len(content))
    content[flipped] ^= 1 << rng.randrange(8)
    files = {
        "truncate": file.read_bytes()[: rng.randrange(HEADER.size + 299)],
        "flip": bytes(content),
        "empty": b"",
        "foreign": rng.randbytes(400),
        "longer": file.read_bytes() + b"x",
    }
    file.write_bytes(files[damage])
    assert cache.get(name) is None
    assert cache.stats.corrupt == 1
    assert not file.exists()
    cache.put(name, data)
    assert cache.get(name) == data


def test_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=10_000)
    names = [key() for _ in range(20)]
    for age, name in enumerate(names):
        cache.put(name, rng.randbytes(1000))
        stamp = 1_600_000_000 + age
        if (tmp_path / f"{name}.o").exists():
            os.utime(tmp_path / f"{name}.o", (stamp, stamp))
    assert cache.get(names[-5]) is not None  # reading makes it the newest
    cache.prune()
    left = {path.stem for path in tmp_path.glob("*.o")}
    assert names[-5] in left and names[-1] in left and names[0] not in left
    assert sum(path.stat().st_size for path in tmp_path.glob("*.o")) <= 10_000


def test_writing_alone_keeps_the_folder_bounded(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=20_000)
    for _ in range(100):
        cache.put(key(), rng.randbytes(1000))
    assert sum(path.stat().st_size for path in tmp_path.glob("*.o")) <= 20_000 * 9 // 8 + 2000


def test_an_unwritable_folder_warns_once_and_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("a file where the folder should be")
    monkeypatch.setattr(cache_module, "_warned", False)
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        cache = Cache(blocker)
        cache.put(key(), b"data")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(key(), b"data")
        Cache(blocker).put(key(), b"data")
    assert cache.get(key()) is None


class _FullDisk:
    """A file of which half is written before the disk is full."""

    def __init__(self, handle: int, mode: str) -> None:
        self.file = open(handle, mode)  # noqa: SIM115  closed by __exit__

    def __enter__(self) -> _FullDisk:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def write(self, content: bytes) -> None:
        self.file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_no_torn_entry_and_what_is_there_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, kept, data = Cache(tmp_path), key(), rng.randbytes(300)
    cache.put(kept, data)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(cache_module, "_warned", False)
    monkeypatch.setattr(cache_module.os, "fdopen", _FullDisk)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        cache.put(key(), rng.randbytes(300))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(key(), rng.randbytes(300))
    assert sorted(tmp_path.iterdir()) == before
    assert cache.get(kept) == data and Cache(tmp_path).get(kept) == data


def test_keys_that_are_no_digest_are_refused(tmp_path: Path) -> None:
    for bad in ("", "../../etc/passwd", "ABCDEF0123", "abc", "g" * 40):
        with pytest.raises(ValueProblem, match="hex digits"):
            Cache(tmp_path).get(bad)


def test_the_users_folder_follows_the_knob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with knobs(cache="off"):
        assert user_folder() is None
        assert cache_module.user_cache().get(key()) is None
    with knobs(cache=str(tmp_path / "here")):
        assert user_folder() == tmp_path / "here"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with knobs(cache=""):
        assert user_folder() == tmp_path / "weft"


def test_threads_and_processes_share_a_folder(tmp_path: Path) -> None:
    """Writers of the same and of different keys, with pruning in between, never show anyone a wrong payload."""
    code = f"""
import hashlib, random
from weft.runtime.cache import Cache
cache = Cache({str(tmp_path)!r}, limit=30_000)
for turn in range(200):
    name = hashlib.sha1(str(random.randrange(30)).encode()).hexdigest()
    found = cache.get(name)
    assert found is None or found == name.encode() * 30
    cache.put(name, name.encode() * 30)
assert cache.stats.corrupt == 0
print("fine")
"""
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(python(code))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["fine"] * 3
    assert not list(tmp_path.glob(".new-*"))
