"""Object code that comes with weft is what this compiler would make, and is taken only where it is."""

from __future__ import annotations

import ctypes
import json
import os
import random
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft.codegen import shipped
from weft.codegen.compiler import compile_object, llvm_version
from weft.codegen.gemm.tiles import plan_gemm
from weft.codegen.shared_code import PRODUCTS, SHARED_CODE
from weft.codegen.shipped import FOLDER, INDEX, KINDS, file_name, kind_of, shipped_object, stamp
from weft.codegen.target import host_target, x86_target
from weft.runtime.engine import load
from weft.support.errors import ValueProblem
from weft.support.knobs import knobs

ROOT = Path(__file__).resolve().parents[3]
SIZE = 400_000  # bytes of all files together
AGAIN = "python scripts/make_objects.py makes them anew"


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_what_the_compiler_makes(kind):
    index = json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))
    compiled = random.sample(SHARED_CODE, 1)  # (of equal text the compiler makes equal code)
    for code in SHARED_CODE:
        name = file_name(code, kind)
        assert index["objects"][name] == stamp(code, kind), f"{name} is of another version: {AGAIN}"
        if code in compiled and index["llvm"] == llvm_version():
            made = compile_object(code.text(KINDS[kind][0]), KINDS[kind][0])
            assert zlib.decompress((FOLDER / name).read_bytes()) == made, f"{name} has other code: {AGAIN}"


def test_nothing_else_lies_there():
    names = {file_name(code, kind) for code in SHARED_CODE for kind in KINDS}
    assert {path.name for path in FOLDER.iterdir()} == {*names, INDEX}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < SIZE


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_of_a_kind_takes_its_objects(kind):
    assert kind_of(KINDS[kind][0]) == kind
    assert all(shipped_object(code, KINDS[kind][0]) for code in SHARED_CODE)


def test_other_machines_compile():
    v4, needed = KINDS["x86-64-v4"]
    native = replace(v4, cpu="some-model", features=",".join(f"+{name}" for name in needed))
    assert kind_of(native) == "x86-64-v4"
    lacking = random.choice(needed)
    assert kind_of(replace(native, features=native.features.replace(f"+{lacking}", f"-{lacking}"))) is None
    assert kind_of(replace(native, triple="x86_64-apple-darwin")) is None
    assert kind_of(x86_target("x86-64-v2")) is None


def test_objects_of_another_release_or_text_are_not_taken(monkeypatch):
    target = KINDS["x86-64-v3"][0]
    code = random.choice(SHARED_CODE)
    assert shipped_object(replace(code, content=lambda target: "other text"), target) is None
    monkeypatch.setattr(shipped, "llvm_version", lambda: "99.0.0")
    assert shipped_object(code, target) is None


@pytest.mark.parametrize("level", ["native", "x86-64-v3"])
@pytest.mark.parametrize("dtype", PRODUCTS)
def test_products_have_the_bits_of_those_compiled_here(dtype, level):
    try:
        with knobs(cpu=level):
            target, code = host_target(), PRODUCTS[dtype]
    except ValueProblem:
        pytest.skip(f"this machine is no {level}")
    data = shipped_object(code, target)
    if data is None:
        pytest.skip("no object for this machine")
    symbol = f"weft_gemm_{plan_gemm(dtype, target).suffix}"
    libraries = [load(d, [symbol]) for d in (data, compile_object(code.text(target), target))]
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.CFUNCTYPE(None, *[pointer] * 3, *[word] * 8, ctypes.c_int32, pointer, *[word] * 4)
    for m, n, k in [(1, 70, 90), (33, 1, 50), *([random.randrange(1, 90) for _ in range(3)] for _ in range(5))]:
        generator = np.random.default_rng(random.randrange(2**32))
        a, b = generator.standard_normal((m, k)).astype(dtype), generator.standard_normal((k, n)).astype(dtype)
        scratch, outs = np.zeros(1 << 20), []
        for library in libraries:
            c = np.zeros((m, n), dtype)
            prototype(library[symbol])(
                a.ctypes.data, b.ctypes.data, c.ctypes.data, m, n, k, k, 1, n, 1, n, 0, scratch.ctypes.data, 0, m, 0, n
            )
            outs.append(c)
        np.testing.assert_array_equal(*outs)
        np.testing.assert_allclose(outs[0], a @ b, rtol=1e-3, atol=1e-4)


def test_the_first_program_compiles_itself_only():
    if kind_of(host_target()) is None:
        pytest.skip("no objects for this machine")
    text = (
        "import weft\nx = weft.ones(40, 30)\nweft.compile(lambda x: (x @ x.T).tanh() + 1)(x)\n"
        "print(weft.counters.llvm_compiles)"
    )
    environment = {**os.environ, "WEFT_CACHE": "off", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["1"]
