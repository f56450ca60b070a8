"""What every test shares: a seed, a disk cache of its own, and Hypothesis without deadlines.

A run draws sizes and programs from one fixed seed, so that a red run is a fault and not luck;
`./dev sweep` repeats the drawn tests with fresh ones.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import tempfile
import zlib
from collections.abc import Iterator
from typing import Any

# Before NumPy is loaded: tests run in one process per core, and BLAS threads of each would stand in the others' way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

FIXED = "20261122"
SEED = int(os.environ.setdefault("WEFT_TEST_SEED", FIXED))  # the processes of one run draw from one seed

# Set before weft is imported, so that a run neither reads nor fills the user's own cache.
_cache = tempfile.TemporaryDirectory(prefix="weft-test-cache-", ignore_cleanup_errors=True)
os.environ.setdefault("WEFT_CACHE", _cache.name)
# What Python compiles, and pytest's assertions in it, lies beside the files: processes of a run share it, also those
# that tests start, and the next run does. (Rewriting the assertions anew takes each process 12 seconds.)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile(
    "weft", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize=int(FIXED) == SEED
)
settings.load_profile("weft")


def pytest_report_header() -> str:
    return f"weft: sizes and seeds of this run from WEFT_TEST_SEED={SEED}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers of this test and this run; WEFT_TEST_SEED repeats a run."""
    return np.random.default_rng([SEED, zlib.crc32(request.node.nodeid.encode())])


@pytest.fixture(scope="module", autouse=True)
def _few_objects_to_collect() -> None:
    """What earlier modules left alive (weft's own objects, caches of programs) is not walked by the collector again:
    a process holds millions of objects after some thousand tests, and a collection took a second."""
    from weft.runtime import moving  # after the settings above

    gc.collect()
    gc.freeze()
    moving.gc = _NewObjects(gc.get_freeze_count())  # type: ignore[attr-defined]


class _NewObjects:
    """The collector for a storage that is resized: who shows it is asked of objects that the module made."""

    def __init__(self, older: int) -> None:
        self._older = older

    def __getattr__(self, name: str) -> Any:
        return getattr(gc, name)

    def get_freeze_count(self) -> int:
        """How many objects the module has frozen itself."""
        return max(0, gc.get_freeze_count() - self._older)


@pytest.fixture
def every_object_seen() -> None:
    """The collector knows every object, also those that were made when the test's module was imported."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _other_draws(request: pytest.FixtureRequest) -> None:
    """The numbers of Python's `random` and of weft's generator (weights of modules) are this test's and this run's too,
    whatever ran before it in its process."""
    from weft import manual_seed  # after the settings above

    random.seed(f"{SEED} {request.node.nodeid}")
    manual_seed(zlib.crc32(f"{SEED} {request.node.nodeid}".encode()))


@pytest.fixture
def nobody_takes_over() -> Iterator[None]:
    """No class of tensors asks to see calls (one that a test before has made would be given every gradient
    that is read)."""
    from weft.ops.overrides import override_classes  # after the settings above

    before = override_classes[:]
    override_classes.clear()
    yield
    override_classes[:] = before
