"""What every test shares: a seed and a disk cache of its own.

A run draws sizes and programs from one fixed seed, so that a red run is a fault and not luck;
`./dev sweep` repeats the drawn tests with fresh ones.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import random
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

# Before NumPy is loaded: tests run in one process per core, and BLAS threads of each would stand in the others' way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

pytest_plugins = ["tests.processor_time", "tests.shards"]  # --cpu, --shard
FIXED = "20261122"
YOUNG = 10_000  # objects until the collector looks at them: at 700, as Python has it, it took 4 percent of the time
ABOUT_CODE = (  # folders of tests whose programs LLVM compiles as it does for users
    "agree/test_agree", "agree/test_alias", "agree/test_memory", "agree/test_reductions", "agree/test_sizes",
    "differential/", "ops/test_compiled_derivatives", "ops/test_half", "ops/test_values", "regress/codegen/",
    "regress/numerics/", "unit/codegen/", "unit/runtime/",
)  # fmt: skip
SEED = int(os.environ.setdefault("WEFT_TEST_SEED", FIXED))  # the processes of one run draw from one seed

# Set before weft is imported, so that a run neither reads nor fills the user's own cache.
_cache = tempfile.TemporaryDirectory(prefix="weft-test-cache-", ignore_cleanup_errors=True)
os.environ.setdefault("WEFT_CACHE", _cache.name)
# What Python compiles, and pytest's assertions in it, lies beside the files: processes of a run share it, also those
# that tests start, and the next run does. (Rewriting the assertions anew takes each process 12 seconds.)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_sessionstart(session: pytest.Session) -> None:
    """Of a run in several processes, each rewrites the assertions of its share of the files and leaves them to the
    others (all would do all of them at the same time, at 20 seconds each)."""
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None or not session.config.args:
        return
    here = session.config.invocation_params.dir
    roots = [here / argument.partition("::")[0] for argument in session.config.args]
    files = sorted({file for root in roots for file in ([root] if root.is_file() else root.rglob("test_*.py"))})
    with contextlib.suppress(ImportError, AttributeError):  # pytest's own parts: without them it is just slower
        from _pytest.assertion import rewrite

        state = session.config.stash[rewrite.assertstate_key]
        for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
            code = rewrite.get_cache_dir(file) / (file.name.removesuffix(".py") + rewrite.PYC_TAIL)
            is_there = code.exists() and code.stat().st_mtime >= file.stat().st_mtime
            if not is_there and rewrite.try_makedirs(code.parent):
                rewrite._write_pyc(state, *rewrite._rewrite_test(file, session.config)[::-1], code)


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
    from weft.guards import rewrite  # after the settings above
    from weft.runtime import moving

    gc.set_threshold(YOUNG)
    gc.collect()
    gc.freeze()
    compiled_autograd = sys.modules.get("weft.compiled_autograd")
    if compiled_autograd is not None:  # a new graph is compared with all that are there, to say what is new in it
        compiled_autograd.reset()
    moving.gc, rewrite.gc = _Collector(0), _Collector(1)  # type: ignore[attr-defined]


@pytest.fixture(scope="module", autouse=True)
def _quick_code(request: pytest.FixtureRequest, _few_objects_to_collect: None) -> Iterator[None]:
    """Programs are compiled by LLVM's quick code generator, in a third of the time and to the same bits, but in sweeps,
    and in the folders that are about code or compare all ways to run a program. Neither takes over kernels of the
    other."""
    from weft.codegen import compilation, compiler, kernel_store  # after the settings above
    from weft.support.knobs import knobs

    path = request.path.relative_to(Path(__file__).parent).as_posix()
    is_wide = "WEFT_AGREE" in os.environ  # a sweep, or a planted fault that is looked for
    level = compiler.CODEGEN_LEVEL if is_wide or path.startswith(ABOUT_CODE) else 0
    if level != _levels[-1]:
        kernel_store.store.clear()
        _levels[:] = [level]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "new_machine", functools.partial(compiler.new_machine, level=level))
        if knobs.cache != "off":
            folder = os.path.join(os.environ["WEFT_CACHE"], f"level-{level}")
            patch.setenv("WEFT_CACHE", folder)  # for processes that tests start
            patch.setattr(knobs, "cache", folder)
        yield


_levels = [-1]  # of the latest module


class _Collector:
    """The collector, which says at once how many objects it does not see: to count them is to walk over them all.
    Of a storage that is resized it says none, as all who show it are objects that the module made."""

    def __init__(self, hidden: int) -> None:
        self._hidden = hidden

    def __getattr__(self, name: str) -> Any:
        return getattr(gc, name)

    def get_freeze_count(self) -> int:
        return self._hidden


@pytest.fixture
def functions_of_the_module_seen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks for functions finds those of the test's module and parameters too, which were made when the module
    was imported. (After `gc.unfreeze()` the rest of the module's tests would walk over all that earlier ones left.)"""
    from weft.guards import rewrite  # after the settings above

    holders = [*vars(request.module).values(), *getattr(getattr(request.node, "callspec", None), "params", {}).values()]
    members = [member for each in holders if isinstance(each, type) for member in vars(each).values()]
    hidden: dict[int, set[FunctionType]] = {}
    for function in holders + members:
        if type(function) is FunctionType:
            for code in (function.__code__, *function.__code__.co_consts):
                hidden.setdefault(id(code), set()).add(function)
    monkeypatch.setattr(rewrite, "_hidden", hidden)


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
