"""Objects are loaded, give addresses, keep their symbols apart, and go when their handle goes."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from weft.codegen.compiler import compile_object
from weft.codegen.target import host_target
from weft.runtime import engine
from weft.runtime.engine import load, once
from weft.support.errors import StateError

UNARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def adder(amount: int) -> bytes:
    return compile_object(
        f"define i64 @f(i64 %x) nounwind {{\n  %y = add i64 %x, {amount}\n  ret i64 %y\n}}", host_target()
    )


def test_two_objects_may_define_the_same_symbol() -> None:
    amounts = [random.randrange(1, 1 << 40) for _ in range(5)]
    libraries = [load(adder(amount), ["f"]) for amount in amounts]
    x = random.randrange(1 << 40)
    assert [UNARY(library["f"])(x) for library in libraries] == [x + amount for amount in amounts]
    assert libraries[0].exports == ("f",)


def test_symbols_of_the_process_resolve() -> None:
    text = (
        "declare i64 @labs(i64) nounwind\ndefine i64 @f(i64 %x) nounwind {\n  %y = call i64 @labs(i64 %x)\n"
        "  ret i64 %y\n}"
    )
    library = load(compile_object(text, host_target()), ["f"])
    assert UNARY(library["f"])(-17) == 17


def test_unknown_symbols_are_refused() -> None:
    with pytest.raises(StateError, match="nowhere_to_be_found"):
        load(adder(1), ["nowhere_to_be_found"])
    text = (
        "declare i64 @missing_callee(i64)\ndefine i64 @f(i64 %x) {\n  %y = call i64 @missing_callee(i64 %x)\n"
        "  ret i64 %y\n}"
    )
    with pytest.raises(StateError, match="cannot be loaded"):
        load(compile_object(text, host_target()), ["f"])


def test_bytes_that_are_no_object_are_refused() -> None:
    with pytest.raises(StateError):
        load(b"this is no object file", ["f"])


def test_loading_and_unloading_many_libraries() -> None:
    data = adder(3)
    kept = load(data, ["f"])
    for _ in range(100):
        library = load(data, ["f"])
        assert UNARY(library["f"])(4) == 7
    gc.collect()
    assert UNARY(kept["f"])(5) == 8


def test_engines_go_with_their_libraries() -> None:
    data = adder(3)
    kept = load(data, ["f"])
    gc.collect()
    before = len(engine._engines)
    crowd = [load(data, ["f"]) for _ in range(2 * engine.LIBRARIES)]
    assert len(engine._engines) >= before + 2
    addresses = {library["f"] for library in crowd}
    assert len(addresses) == len(crowd)
    cycle = [crowd.pop(), crowd.pop()]
    cycle.append(cycle)  # type: ignore[arg-type]
    del cycle
    crowd.clear()
    gc.collect()
    assert len(engine._engines) <= before + 1
    assert UNARY(kept["f"])(5) == 8


def test_what_the_process_has_one_of_is_made_once() -> None:
    made: list[int] = []
    start = threading.Barrier(4)

    @once
    def one(kind: str) -> object:
        made.append(1)
        time.sleep(0.05)  # long enough for the others to ask too
        return object()

    found: list[object] = []

    def ask() -> None:
        start.wait()
        found.append(one("a"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 1 and len(found) == 4 and len(set(map(id, found))) == 1
    assert one("b") is not found[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_others_load_code_may_load_code() -> None:
    data = adder(1)
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            load(data, ["f"])

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                watch = threading.Timer(20, os._exit, [2])
                watch.daemon = True
                watch.start()
                own = load(data, ["f"])
                os._exit(0 if UNARY(own["f"])(4) == 5 else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for t in threads:
            t.join()


def test_a_process_that_ends_with_code_loaded_says_nothing() -> None:
    code = (
        "import sys, weft\nf = weft.compile(lambda x: x * 2 + 1)\nf(weft.ones(3))\nring = [f]\nring.append(ring)\n"
        "sys.kept = ring"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
