"""A compiled function pickles with the code of its programs: another process records it, and compiles nothing."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from tests.unit.compile.pickled_steps import Trainer, scaled
from weft import nn
from weft.programs import carried
from weft.runtime.cache import Cache, Carried

ROOT = Path(__file__).parents[3]


def test_another_process_compiles_nothing(tmp_path: Path, rng) -> None:
    trainer, module = Trainer(), weft.compile(nn.Linear(4, 2))
    n = int(rng.integers(3, 20))
    x, y = weft.randn(n, 4), weft.randint(0, 3, (n,))
    with weft.no_grad():
        wanted = [scaled(x).tolist(), module(x).tolist()]
    trainer.step(weft.randn(n + 1, 4), weft.zeros(n + 1, dtype=weft.int64))
    file = tmp_path / "pickled"
    file.write_bytes(pickle.dumps((trainer, scaled, module, x, y)))
    wanted += [trainer.step(x, y).tolist() for _ in range(3)]
    code = "from tests.unit.compile import pickled_steps as steps; steps.main()"
    child = subprocess.run(
        [sys.executable, "-c", code, str(file)], cwd=ROOT, env={**os.environ, "WEFT_CACHE": "off"}, capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    said = json.loads(child.stdout)
    assert said == {"results": wanted, "is_named": True, "llvm_compiles": 0, "captures": 3, "native_calls": 5}


def test_a_pickle_of_another_compiler_or_machine_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    step = weft.compile(nn.Linear(4, 2))
    with weft.no_grad():
        step(weft.ones(3, 4))
    programs = step._compiled.programs_to_carry()
    assert programs is not None and len(programs.programs) == 1
    there = Cache(None)
    monkeypatch.setattr(carried, "user_cache", lambda: there)
    carried.take(carried.Carried("another", programs.machine, programs.programs))
    carried.take(carried.Carried(programs.compiler, "another", programs.programs))
    carried.take(None)
    assert not there.carried
    carried.take(programs)
    assert len(there.carried) == 2 and programs.programs[0].code in there.carried.values()


def test_a_function_without_programs_carries_none() -> None:
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    step = weft.compile(nn.Linear(2, 2))
    assert step._compiled.programs_to_carry() is None
    again = pickle.loads(pickle.dumps(step))
    assert weft.equal(again(weft.ones(1, 2)), step(weft.ones(1, 2)))


def test_a_shallow_copy_pickles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    step, module = weft.compile(nn.functional.relu), weft.compile(nn.Linear(2, 2))
    monkeypatch.setattr(type(step), "programs_to_carry", None)
    assert copy.copy(scaled) is scaled and copy.copy(step).function is step.function
    assert copy.copy(module).weight is module.weight


def test_the_oldest_goes_first_where_too_much_is_carried() -> None:
    cache = Carried()
    cache.limit = 10  # type: ignore[misc]
    for key, data in (("a", b"1234"), ("b", b"1234"), ("a", b"12345"), ("c", b"12345")):
        cache.carry(key, data)
    assert list(cache) == ["a", "c"]
