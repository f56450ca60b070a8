"""A module compiled in parts by several threads is the module compiled whole."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.codegen.compilation as compilation
from weft.codegen.compilation import Compilation, Part
from weft.codegen.compiler import CodegenError, new_machine, parsed
from weft.codegen.emit import F64, I64, PTR, Module, const
from weft.codegen.target import host_target
from weft.programs.live_programs import forget
from weft.runtime.engine import load
from weft.support.counters import counters

ROOT = Path(__file__).resolve().parents[3]


def write(module: Module, count: int) -> None:
    """Functions f0, f1, ...: each adds entries of a table that all share, through a helper that nobody else sees, and
    what the function before it gives."""
    helper = module.function("twice", F64, [(F64, "x")], internal=True)
    helper.ret(helper.fadd(helper.params[0], helper.params[0]))
    for number in range(count):
        f = module.function(f"f{number}", F64, [(I64, "at")])
        table = module.table("numbers", F64, [0.5, 1.5, 2.5, 3.5])
        total = f.call(helper.signature, [f.load(F64, f.gep(F64, table, f.params[0]))])
        for step in range(random.randrange(2, 9)):
            total = f.fadd(f.intrinsic("sqrt", total), const(F64, float(step)))
        if number:
            total = f.fadd(total, f.call(module.functions[f"f{number - 1}"].signature, [f.params[0]]))
        f.ret(total)
        module.finished(f)
    f = module.function("by_pointer", F64, [(I64, "which"), (I64, "at")])
    functions = module.addresses("functions", [module.functions[f"f{n}"].signature for n in range(count)])
    f.ret(f.call_pointer(f.load(PTR, f.gep(PTR, functions, f.params[0]), align=8), F64, [f.params[1]]))


def compiled(threads: int, batch: int, seed: int, count: int) -> tuple[tuple[bytes, ...], list[float]]:
    """The objects, and what the functions give."""
    random.seed(seed)
    target = host_target()
    module = Module.for_target(target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "BATCH", batch)
        with Compilation(module, target, threads) as work:
            write(module, count)
            objects = work.objects()
    library = load(objects, ["by_pointer"])
    call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_int64)(library["by_pointer"])
    return objects, [call(which, at) for which in range(count) for at in range(4)]


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_parts_do_what_the_whole_does(threads):
    seed, count = random.randrange(2**32), random.randrange(3, 12)
    before = counters.llvm_compiles
    whole, expected = compiled(1, 1, seed, count)
    assert len(whole) == 1 and counters.llvm_compiles == before + 1
    for batch, parts in ((1, count + 1), (10**6, 1)):
        objects, results = compiled(threads, batch, seed, count)
        assert len(objects) == parts and results == expected
        assert objects == compiled(threads, batch, seed, count)[0]
    assert counters.llvm_compiles == before + 5
    assert not working()


def working() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "weft-compile"]


def test_no_thread_outlives_a_compilation_that_fails():
    target = host_target()
    module = Module.for_target(target)
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(KeyboardInterrupt),
        Compilation(module, target, 3),
    ):
        patch.setattr(compilation, "BATCH", 1)
        write(module, 6)
        raise KeyboardInterrupt
    assert not working()


def test_a_process_without_more_threads_compiles_by_itself(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    seed = random.randrange(2**32)
    expected = compiled(2, 1, seed, 5)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    objects, results = compiled(2, 1, seed, 5)
    assert results == expected[1] and len(objects) > 1


def test_a_part_that_llvm_refuses_is_quoted():
    target = host_target()
    module = Module.for_target(target)
    f = module.function("bad", F64, [(F64, "x")])
    f.ret(f.fadd(f.params[0], f.params[0]))
    f._lines[0] = f._lines[0].replace("%x", "%nothing")
    with pytest.raises(CodegenError, match="nothing"), Compilation(module, target, 2) as work:
        work.objects()
    assert not working()


def test_a_part_is_compiled_while_llvm_is_used_by_others():
    target = host_target()
    for _ in range(10):  # on a busy machine the other thread may not get its turn in time
        module = Module.for_target(target)
        write(module, 300)
        part = Part(module.text(), target)
        worker = threading.Thread(target=part.compile, args=(new_machine(target),))
        worker.start()
        parsed("define i64 @f() {\n  ret i64 0\n}", target).close()
        together = not part.is_done
        worker.join()
        assert part.code()
        part.close()
        if together:
            return
    raise AssertionError("llvmlite's lock was held while a part was compiled")


@pytest.mark.parametrize("threads", [1, 2])
def test_programs_are_the_same_for_every_number_of_threads(threads):
    text = (
        "import sys, weft\nweft.manual_seed(int(sys.argv[1]))\nmodel = weft.nn.Sequential(weft.nn.Linear(7, 9), "
        "weft.nn.GELU(), weft.nn.LayerNorm(9), weft.nn.Linear(9, 3))\n"
        "optimizer = weft.optim.AdamW(model.parameters())\n"
        "@weft.compile\ndef step(x, y):\n    optimizer.zero_grad()\n"
        "    loss = weft.nn.functional.cross_entropy(model(x), y)\n    loss.backward()\n    optimizer.step()\n"
        "    return loss\n"
        "x, y = weft.randn(11, 7), weft.arange(11) % 3\n"
        "print([step(x, y).item().hex() for _ in range(3)], weft.counters.llvm_compiles)"
    )
    seed, outs = str(random.randrange(2**31)), set()
    for count in ("1", str(threads + 1)):
        environment = {**os.environ, "WEFT_CACHE": "off", "WEFT_NUM_THREADS": count, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", text, seed]
        outs.add(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    assert len(outs) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_during_a_compilation_may_compile():
    x = weft.ones(3)
    over = threading.Event()

    def others() -> None:
        while not over.is_set():
            compiled(2, 1, 5, 12)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                good = compiled(2, 1, 5, 12)[1] and weft.compile(lambda x: x.tanh() * 3)(x).shape == (3,)
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        over.set()
        thread.join()


def test_a_program_of_parts_comes_back_from_the_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.setattr(compilation, "BATCH", 1)
    outs = []
    for compiles in (1, 0):
        with weft.knobs(cache=str(tmp_path)):
            counters.reset()
            step = weft.compile(lambda x, y: (x.tanh().sum(0), (y @ x).exp().cumsum(1), x[1:] * y[0, 0]))
            x = weft.arange(12.0).reshape(4, 3) / 7
            outs.append([r.numpy() for r in step(x, x.T.contiguous())])
            assert counters.llvm_compiles == compiles
        del step
        gc.collect()
        forget()
    for first, second in zip(*outs, strict=True):
        np.testing.assert_array_equal(first, second)

