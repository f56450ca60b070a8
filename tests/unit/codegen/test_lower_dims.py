"""Dims as native arithmetic against dims.evaluate, negative numbers and zero divisors included."""

from __future__ import annotations

import ctypes
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.codegen.compiler import compile_object
from weft.codegen.emit import I64, PTR, Module, const
from weft.codegen.lower_dims import DimLowering, is_covered
from weft.codegen.native import build
from weft.codegen.target import aarch64_target, x86_target
from weft.types import dims as dm

NAMES = ("s0", "s1", "i0")
S0, S1, I0 = map(dm.symbol, NAMES)


def _leaf():
    return random.choice([S0, S1, I0, random.randint(-9, 9)])


def _random_dim(depth):
    if depth == 0:
        return _leaf()
    a, b = _random_dim(depth - 1), _random_dim(random.randrange(depth))
    kind = random.choice(["add", "sub", "mul", "floordiv", "mod", "max", "min"])
    if kind in ("floordiv", "mod"):
        b = random.choice([-7, -2, 2, 3, 5]) if random.random() < 0.7 else dm.maximum(S1, 1)
        return dm.floordiv(a, b) if kind == "floordiv" else dm.mod(a, b)
    return {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "max": lambda: dm.maximum(a, b),
            "min": lambda: dm.minimum(a, b)}[kind]()  # fmt: skip


def _module(dims, module=None):
    module = module or Module()
    f = module.function("sizes", I64, [(PTR, "symbols"), (PTR, "out")])
    symbols, out = f.params
    lowering = DimLowering(f, lambda name: f.load(I64, f.gep(I64, symbols, NAMES.index(name)), name=name))
    for i, d in enumerate(dims):
        f.store(lowering.value(d), f.gep(I64, out, i))
    f.ret(const(I64, 0))
    return module


def _native(dims):
    library = build(_module(dims).text(), ("sizes",))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(library["sizes"])

    def run(*values):
        given_values, out = (ctypes.c_int64 * len(NAMES))(*values), (ctypes.c_int64 * len(dims))()
        function(given_values, out)
        return list(out)

    run.keep = library
    return run


def test_random_expressions():
    dims = [_random_dim(random.randint(1, 4)) for _ in range(60)]
    run = _native(dims)
    for _ in range(200):
        values = (random.randrange(50), random.randrange(50), random.randint(-50, 50))
        expected = [dm.evaluate(d, dict(zip(NAMES, values, strict=True))) for d in dims]
        if all(abs(e) < 1 << 62 for e in expected):
            assert run(*values) == expected


def test_division_by_a_size_of_zero_does_not_trap():
    run = _native([dm.floordiv(S0, S1), dm.mod(S0, S1)])
    assert run(17, 5, 0) == [3, 2]
    assert run(17, 0, 0) == [17, 0]


@pytest.mark.parametrize("target", [aarch64_target(), x86_target("x86-64-v3")], ids=["aarch64", "x86-64-v3"])
def test_other_targets(target):
    assert compile_object(_module([_random_dim(3) for _ in range(10)], Module.for_target(target)).text(), target)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 5), st.integers(0, 5))
def test_covered_is_never_wrong(s, t, a, b):
    for small, large in ((S0 * a, S0 * b), (S0 + a, S0 + S1 + b), (S0 * S1, S0 * S1 * b + a), (dm.maximum(S0, S1), S0 + S1)):
        if is_covered(small, large):
            values = {"s0": s, "s1": t}
            assert dm.evaluate(small, values) <= dm.evaluate(large, values)
