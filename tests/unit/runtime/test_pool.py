"""The worker pool: every chunk runs exactly once, whoever calls, however many threads there are, also after fork."""

from __future__ import annotations

import ctypes
import os
import random
import threading
from collections.abc import Iterator

import pytest
from native_support import Region, python, region_library

from weft.codegen.compiler import compile_object
from weft.codegen.native import build, shared_pool
from weft.codegen.target import aarch64_target, host_target
from weft.runtime import pool as pool_module_under_test
from weft.runtime.engine import Library
from weft.runtime.pool import Pool, available_cores, can_have_workers, get_num_threads, set_num_threads, worker_cores
from weft.runtime.pool_ir import MAX_CHUNKS, POOL_EXPORTS, pool_module
from weft.support.errors import ValueProblem
from weft.support.knobs import knobs

needs_workers = pytest.mark.skipif(not can_have_workers(), reason="this system runs regions serially")


@pytest.fixture(scope="module")
def library() -> Library:
    return region_library()


@pytest.fixture
def threads() -> Iterator[None]:
    before = get_num_threads()
    yield
    set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_chunk_runs_once(library: Library, threads: None, count: int) -> None:
    set_num_threads(count)
    pool = shared_pool()
    for chunks in (0, 1, 2, 3, random.randrange(4, MAX_CHUNKS), MAX_CHUNKS, MAX_CHUNKS + 1, 1000):
        region = Region(pool, library, chunks, random.randrange(1, 40))
        assert region.run() == 0
        assert list(region.out)[:chunks] == region.expected()


@needs_workers
def test_workers_take_part(threads: None, library: Library) -> None:
    """Two chunks wait for each other, so the region ends only if two threads run it at the same time."""
    set_num_threads(2)
    meet = """
define void @meet(ptr %cell, i64 %chunk, i64 %chunks, i64 %thread) nounwind {
entry:
  %old = atomicrmw add ptr %cell, i64 1 seq_cst
  br label %wait
wait:
  %now = load atomic i64, ptr %cell acquire, align 8
  %both = icmp sge i64 %now, %chunks
  br i1 %both, label %exit, label %wait
exit:
  ret void
}"""
    body = build(meet, ["meet"])
    region = Region(shared_pool(), library, 2, 1)
    region.frame[2] = body["meet"]
    assert region.run() == 0
    assert region.out[0] == 2


def test_python_threads_share_the_pool(library: Library, threads: None) -> None:
    set_num_threads(2)
    regions = [Region(shared_pool(), library, random.randrange(2, MAX_CHUNKS), 50) for _ in range(4)]
    callers = [threading.Thread(target=lambda r=region: [r.run() for _ in range(5)]) for region in regions]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [list(region.out) for region in regions] == [region.expected(calls=5) for region in regions]


def test_a_chunk_may_open_a_region(library: Library, threads: None) -> None:
    set_num_threads(3)
    inner = [Region(shared_pool(), library, random.randrange(1, 20), 3) for _ in range(7)]
    frames = (ctypes.c_int64 * len(inner))(*(ctypes.addressof(region.frame) for region in inner))
    outer = Region(shared_pool(), library, len(inner), 2, body="nested", argument=ctypes.addressof(frames))
    assert outer.run() == 0
    assert [list(region.out) for region in inner] == [region.expected(calls=2) for region in inner]


def test_resizing_while_regions_run(library: Library, threads: None) -> None:
    region = Region(shared_pool(), library, 12, 200)
    caller = threading.Thread(target=lambda: [region.run() for _ in range(10)])
    caller.start()
    for count in (1, 3, 2, 4, 1, 2):
        set_num_threads(count)
        assert get_num_threads() == count
    caller.join()
    assert list(region.out) == region.expected(calls=10)


@needs_workers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_a_working_pool(library: Library, threads: None) -> None:
    set_num_threads(2)
    region = Region(shared_pool(), library, 5, 20)
    region.run()
    child = os.fork()
    if child == 0:
        region.run()
        os._exit(0 if list(region.out) == region.expected(calls=2) and shared_pool().threads == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    region.run()
    assert list(region.out) == region.expected(calls=2)


@pytest.mark.parametrize(
    "environment", [{}, {"WEFT_NUM_THREADS": "3"}, {"WEFT_POOL": "serial"}, {"WEFT_NUM_THREADS": "1"}]
)
def test_a_process_ends_cleanly_with_live_workers(environment: dict[str, str]) -> None:
    code = """
from native_support import Region, region_library
from weft.codegen.native import shared_pool
region = Region(shared_pool(), region_library(), 9, 10)
region.run()
print(list(region.out) == region.expected(), shared_pool().threads)
"""
    right, count = python(code, **environment).split()
    assert right == "True"
    if environment:
        wanted = 1 if environment.get("WEFT_POOL") or not can_have_workers() else int(environment["WEFT_NUM_THREADS"])
        assert int(count) == wanted


def test_the_module_without_workers_runs_serially(library: Library) -> None:
    with knobs(pool="serial"):
        pool = Pool(build(pool_module(host_target().arch, workers=False), POOL_EXPORTS), threads=4)
        assert pool.threads == 1
        region = Region(pool, library, 6, 2)
        region.run()
    assert list(region.out) == region.expected()


def test_wrong_thread_counts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for bad in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueProblem, match="positive integer"):
            set_num_threads(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueProblem, match="'many': expected a positive integer"), knobs(num_threads="many"):
        pass


def test_a_knob_counts_until_the_program_says_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module_under_test, "_wanted", None)
    with knobs(num_threads=3):
        assert get_num_threads() == 3
        set_num_threads(2)
        assert get_num_threads() == 2


def test_pinning_leaves_no_two_workers_on_a_core() -> None:
    count = len(available_cores())
    for workers in range(1, count):
        cores = worker_cores(workers)
        assert None not in cores and len(set(cores)) == workers
    assert worker_cores(count + 2) == [None] * (count + 2)


def test_the_pool_compiles_for_other_machines() -> None:
    assert compile_object(pool_module("aarch64", workers=True), aarch64_target())[:4] == b"\x7fELF"
    with pytest.raises(ValueProblem, match="s390x"):
        pool_module("s390x", workers=True)
