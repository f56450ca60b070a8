"""The call gate: arguments, status, errors, lifetime, and the GIL."""

from __future__ import annotations

import ctypes
import gc
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from weft.codegen.native import build, native_caller
from weft.runtime.engine import Library
from weft.runtime.native_call import NativeCaller

ENTRY = """
define i64 @entry(ptr %frame) nounwind {
  %old = load i64, ptr %frame
  %new = add i64 %old, 1
  store i64 %new, ptr %frame
  ret i64 %old
}
define i64 @wait(ptr %frame) nounwind {
entry:
  br label %loop
loop:
  %flag = load atomic i64, ptr %frame acquire, align 8
  %go = icmp ne i64 %flag, 0
  br i1 %go, label %exit, label %loop
exit:
  ret i64 %flag
}
"""


@pytest.fixture(params=["gate", "ctypes"])
def caller(request: pytest.FixtureRequest) -> NativeCaller:
    return native_caller() if request.param == "gate" else NativeCaller(None)


@pytest.fixture
def library() -> Library:
    return build(ENTRY, ("entry", "wait"))


def test_status_and_memory(caller: NativeCaller, library: Library) -> None:
    start = random.randrange(-(1 << 62), 1 << 62)
    frame = (ctypes.c_int64 * 1)(start)
    call = caller.callable(library["entry"], library)
    assert [call(ctypes.addressof(frame)) for _ in range(3)] == [start, start + 1, start + 2]
    bound = caller.bound(library["entry"], ctypes.addressof(frame), (library, frame))
    assert bound() == start + 3
    assert frame[0] == start + 4


def test_wrong_arguments_raise(caller: NativeCaller, library: Library) -> None:
    call = caller.callable(library["entry"], library)
    wrong: list[Callable[[], object]] = [
        lambda: call(),
        lambda: call("address"),
        lambda: call(1, 2),
        lambda: call(1.5),  # type: ignore[call-arg, arg-type]
        lambda: caller.bound(library["entry"], 0, library)(7),  # type: ignore[call-arg]
    ]
    for attempt in wrong:
        with pytest.raises(TypeError):
            attempt()


def test_a_callable_keeps_its_owner_and_lets_it_go(caller: NativeCaller) -> None:
    class Owner:
        pass

    owner = Owner()
    watch = weakref.ref(owner)
    library = build(ENTRY, ("entry",))
    frame = (ctypes.c_int64 * 1)(5)
    call = caller.bound(library["entry"], ctypes.addressof(frame), (library, owner))
    del owner, library
    gc.collect()
    assert watch() is not None
    assert call() == 5
    del call
    gc.collect()
    assert watch() is None


def test_calls_do_not_leak_references(library: Library) -> None:
    frame = (ctypes.c_int64 * 1)(1 << 40)
    address = ctypes.addressof(frame)
    call = native_caller().callable(library["entry"], library)
    before = sys.getrefcount(address)
    for _ in range(1000):
        call(address)
    assert sys.getrefcount(address) == before


def test_the_gil_is_released(caller: NativeCaller, library: Library) -> None:
    """The native code waits for a word that only another Python thread sets."""
    frame = (ctypes.c_int64 * 1)(0)

    def release() -> None:
        time.sleep(0.02)
        frame[0] = 42

    thread = threading.Thread(target=release)
    thread.start()
    assert caller.callable(library["wait"], library)(ctypes.addressof(frame)) == 42
    thread.join()
