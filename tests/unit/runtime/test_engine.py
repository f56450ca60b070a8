"""Objects are loaded, give addresses, keep their symbols apart, and go when their handle goes."""

from __future__ import annotations

import ctypes
import gc
import random

import pytest

from weft.codegen.compiler import compile_object
from weft.codegen.target import host_target
from weft.runtime.engine import load
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
    text = "declare i64 @labs(i64) nounwind\ndefine i64 @f(i64 %x) nounwind {\n  %y = call i64 @labs(i64 %x)\n  ret i64 %y\n}"
    library = load(compile_object(text, host_target()), ["f"])
    assert UNARY(library["f"])(-17) == 17


def test_unknown_symbols_are_refused() -> None:
    with pytest.raises(StateError, match="nowhere_to_be_found"):
        load(adder(1), ["nowhere_to_be_found"])
    text = "declare i64 @missing_callee(i64)\ndefine i64 @f(i64 %x) {\n  %y = call i64 @missing_callee(i64 %x)\n  ret i64 %y\n}"
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
