"""The disk cache holds data, and only the user's own: what others could have put there is not used, and what makes no
sense is made anew."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.programs import executable, program_cache
from weft.runtime import cache as cache_module
from weft.runtime.cache import Cache
from weft.types import dims
from weft.types.parse import parse_dim
from weft.types.relation import Relation, ShapeGuard
from weft.types.shape_env import ShapeEnv

ROOT = Path(__file__).parents[3]
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are POSIX's")


def key() -> str:
    return random.randbytes(20).hex()


@pytest.fixture(autouse=True)
def _warns_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_warned", False)


# ---- folders


def link(folder: Path) -> None:
    target = folder.with_name("elsewhere")
    target.mkdir()
    folder.symlink_to(target)


def open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


@posix
@pytest.mark.parametrize(("make", "reason"), [(link, "symbolic link"), (open_to_all, "written by every user")])
def test_a_folder_that_others_can_change_is_named_once_and_not_used(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    folder = tmp_path / "cache"
    make(folder)
    cache, name = Cache(folder), key()
    with pytest.warns(RuntimeWarning, match=f"compile cache .*cache.* {reason}") as said:
        cache.put(name, b"data")
        cache.put(name, b"data")
        Cache(folder).put(name, b"data")
    assert len(said) == 1 and cache.get(name) is None and not list(folder.iterdir())


@posix
def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = key()
    Cache(tmp_path).put(name, b"data")
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with weft.knobs(cache=str(tmp_path)), pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert cache_module.user_cache().get(name) is None


# ---- entries


def test_an_entry_is_of_use_only_under_its_own_name(tmp_path: Path) -> None:
    cache, first, second = Cache(tmp_path), key(), key()
    cache.put(first, b"data")
    os.rename(tmp_path / f"{first}.o", tmp_path / f"{second}.o")
    assert cache.get(second) is None and cache.stats.corrupt == 1


@posix
def test_entries_are_signed_for_one_user(tmp_path: Path) -> None:
    """Another folder has another secret; one that others may have read signs nothing any more."""
    ours, theirs, name = tmp_path / "ours", tmp_path / "theirs", key()
    for folder in (ours, theirs):
        Cache(folder).put(name, b"data")
    assert (ours / ".secret").stat().st_mode & 0o777 == 0o600
    os.replace(theirs / f"{name}.o", ours / f"{name}.o")
    assert Cache(ours).get(name) is None
    Cache(theirs).put(name, b"data")
    (theirs / ".secret").chmod(0o644)
    assert Cache(theirs).get(name) is None
    Cache(theirs).put(name, b"data")
    assert Cache(theirs).get(name) == b"data" and (theirs / ".secret").stat().st_mode & 0o777 == 0o600


@posix
def test_links_and_pipes_are_no_entries(tmp_path: Path) -> None:
    cache, first, linked, pipe, shared = Cache(tmp_path), key(), key(), key(), key()
    cache.put(first, b"data")
    (tmp_path / f"{linked}.o").symlink_to(tmp_path / f"{first}.o")
    os.mkfifo(tmp_path / f"{pipe}.o")
    cache.put(shared, b"data")
    (tmp_path / f"{shared}.o").chmod(0o666)
    for name in (linked, pipe, shared):
        assert cache.get(name) is None and not (tmp_path / f"{name}.o").exists()
        cache.put(name, b"new")
        assert cache.get(name) == b"new"
    assert cache.get(first) == b"data"


@posix
@pytest.mark.parametrize("name", [".pruned", ".secret", "entry"])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    victim, folder, entry = tmp_path / "victim", tmp_path / "cache", key()
    victim.write_text("x" * 32)
    os.utime(victim, (1, 1))
    folder.mkdir(0o700)
    (folder / name.replace("entry", f"{entry}.o")).symlink_to(victim)
    cache = Cache(folder)
    cache.put(entry, b"data")
    assert cache.get(entry) == b"data"
    assert victim.read_text() == "x" * 32 and victim.stat().st_mtime == 1


# ---- content

STEP = """
import weft
@weft.compile
def step(x):
    y = weft.cat([x, x[1:]]).exp()
    return y.sum(0), y @ y.t(), weft.argsort(y, 0)
print([t.tolist() for t in step(weft.arange(12.).reshape(4, 3) / 7)])
print(weft.counters.llvm_compiles)
"""


def run(folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", STEP], cwd=ROOT, env={**os.environ, "WEFT_CACHE": str(folder)},
        capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_wrong_content_with_the_right_digest_is_made_anew(tmp_path: Path) -> None:
    values, compiles = run(tmp_path)
    assert run(tmp_path) == [values, "0"]
    cache = Cache(tmp_path)
    names = sorted(path.stem for path in tmp_path.glob("*.o"))
    contents = {name: cache.get(name) for name in names}
    rotated = dict(zip(names, [*(contents[n] for n in names[1:]), contents[names[0]]], strict=True))
    kinds = [
        dict.fromkeys(names, b""), dict.fromkeys(names, random.randbytes(400)),
        {n: (c or b"")[:-9] for n, c in contents.items()}, rotated,
    ]
    for turn in range(2):  # each entry is wrong in two ways out of four
        for i, name in enumerate(names):
            cache.put(name, kinds[(i + 2 * turn) % 4][name] or b"")
        again, compiled = run(tmp_path)
        assert again == values and 0 < int(compiled) <= int(compiles)
    assert run(tmp_path) == [values, "0"]


def test_a_program_is_only_taken_with_the_guards_that_it_was_made_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards and program are two entries. Where the guards are lost, another example asks anew and must not meet
    the first one's program."""
    made = executable.optimize_folded

    def asking(graph: Any, passes: Any, folds: bool) -> Any:
        size = next(iter(graph.env.examples))
        graph.env.equal(dims.symbol(size), 1)
        return made(graph, passes, folds)

    monkeypatch.setattr(executable, "optimize_folded", asking)
    compiles = []
    with weft.knobs(cache=str(tmp_path)):
        weft.compile(lambda x: x * 3)(weft.ones(2))  # and what all programs share
        for n in (1, 4, 1, 4):
            before = weft.counters.llvm_compiles
            assert weft.compile(lambda x: x + 1)(weft.ones(n)).tolist() == [2.0] * n
            compiles.append(weft.counters.llvm_compiles - before)
            for path in tmp_path.glob("*.o"):
                if (Cache(tmp_path).get(path.stem) or b"").startswith(b"["):
                    path.unlink()
    assert compiles == [1, 1, 0, 0]


def test_guards_are_data(tmp_path: Path) -> None:
    """The text of a guard is read by the parser of sizes, which runs nothing."""
    cache, mark = Cache(tmp_path), tmp_path / "run"
    env = ShapeEnv({"s0": 4, "s1": 3})
    guards = [
        ShapeGuard(Relation("==", parse_dim("s0*s1 + (s0 // 3) - max(s0, s1) + (s1 % 2) - 10")), True, None),
        ShapeGuard(Relation("<", parse_dim("-2*s0 + min(s0, 2*s1)")), True, None),
    ]
    program_cache.store_guards(cache, "key", guards)
    name, found = program_cache.find_program(cache, "key", env)
    assert (
        name == "key" and found is not None
        and [(g.relation, g.answer) for g in found] == [(g.relation, g.answer) for g in guards]
    )
    wrong: list[object] = [
        [["==", f"[c for c in ().__class__.__base__.__subclasses__()] or open({str(mark)!r}, 'w') or s0", True]],
        [["==", "s0", 1]], [["or", "s0", True]],
        [["==", "(" * 9999 + "s0" + ")" * 9999, True]], [["==", "4", True]], [3], {"a": 1}, 7, None,
        [["==", "s0 // 0", True]], [["==", "9" * 9999, True]],
    ]
    for content in wrong:
        cache.put(program_cache._name("key"), json.dumps(content).encode())
        assert program_cache.find_program(cache, "key", env) == ("key", None), content
    for raw in (b"", b"\xff", b"[" * 99_999):
        cache.put(program_cache._name("key"), raw)
        assert program_cache.find_program(cache, "key", env) == ("key", None)
    assert not mark.exists()
