"""Sizes as tables of steps against dims.evaluate, negative numbers and zero divisors included."""

from __future__ import annotations

import ctypes
import itertools
import random

import pytest

from weft.codegen.compiler import compile_object
from weft.codegen.emit import Module
from weft.codegen.native import build
from weft.codegen.program.functions import emit_plan
from weft.codegen.program.launch import SERVICES, emit_services
from weft.codegen.target import aarch64_target, host_target, x86_target
from weft.plan.sizes import is_covered
from weft.plan.words import Words
from weft.runtime.engine import load
from weft.runtime.segments import TOTAL
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
            "min": lambda: dm.minimum(a, b)}[kind]()


def _planned(dims, slots=None, target=None):
    """A module with `plan`, the words of its frame, and the first of those where it leaves the dims,
    then the offsets."""
    module = Module.for_target(target) if target else Module()
    words = Words(0, NAMES, len(NAMES))
    first = words.take(len(dims))
    emit_plan(
        module, "plan", words, {first + i: d for i, d in enumerate(dims)},
        slots=slots and (words.take(len(slots)), slots),
    )
    return module, words, first


def _services(target=None):
    module = Module.for_target(target) if target else Module()
    emit_services(module)
    return module.text()


def _native(dims, slots=None):
    module, words, first = _planned(dims, slots)
    shared = build(_services(), SERVICES)
    library = load(compile_object(module.text(), host_target()), ("plan",), {name: shared[name] for name in SERVICES})
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(library["plan"])

    def run(*values):
        frame = (ctypes.c_int64 * words.count)()
        for word, content in words.preset.items():
            frame[word] = content
        for name, value in zip(NAMES, values, strict=True):
            frame[words.symbol(name)] = value
        function(frame)
        return frame[first : first + len(dims)] if slots is None else (frame[first : first + len(slots)], frame[TOTAL])

    run.keep = (library, shared)
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
    module, *_ = _planned([_random_dim(3) for _ in range(10)], target=target)
    assert compile_object(module.text(), target)
    assert compile_object(_services(target), target)


def test_code_does_not_grow_with_the_number_of_sizes():
    def code(count):
        module, *_ = _planned([S0 * i + S1 // (i + 2) for i in range(count)], [S0 * i for i in range(1, count)])
        return module.functions["plan"].text().count("\n")

    assert code(500) == code(5)


def test_offsets_are_aligned_sums():
    run = _native([], [S0 * 4, dm.maximum(S1, 1) * 8, S0 * S1])
    assert run(3, 9, 0) == ([0, 64, 192], 256)
    assert run(0, 0, 0) == ([0, 0, 64], 64)


@pytest.mark.parametrize("most", [1, 100])
def test_covered_is_never_wrong(most):
    for a, b in itertools.product(range(6), repeat=2):
        for s, t in [(0, 0), *((random.randint(0, most), random.randint(0, most)) for _ in range(3))]:
            _check_covered(s, t, a, b)


def _check_covered(s, t, a, b):
    for small, large in (
        ((S0 * a, S0 * b), (S0 + a, S0 + S1 + b), (S0 * S1, S0 * S1 * b + a), (dm.maximum(S0, S1), S0 + S1))
    ):
        if is_covered(small, large):
            values = {"s0": s, "s1": t}
            assert dm.evaluate(small, values) <= dm.evaluate(large, values)
