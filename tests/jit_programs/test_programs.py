"""Hand-written programs: what plain Python gives, the scripted program gives too, gradients included: interpreted, with
loops of machine code, by plans of native groups, and within weft.compile.

Plans and native programs of the larger files are drawn; TEST_PROGRAMS=all runs every one.
"""

from __future__ import annotations

import ast
import copy
import inspect
import math
import os
import textwrap
import types
import zlib
from typing import Any

import numpy as np
import pytest

import weft
import weft.jit
from tests.conftest import SEED
from tests.jit_programs import algorithms, containers, control, numbers, tensor_loops, tensors
from tests.jit_programs.orders import agree, orders_of
from weft.jit.interpreter.hot import compiled_after

MODULES = (numbers, control, containers, tensors, algorithms, tensor_loops)
PROGRAMS = [
    f
    for module in MODULES
    for f in vars(module).values()
    if isinstance(f, types.FunctionType) and f.__module__ == module.__name__
]


def draw(annotation: Any, rng: np.random.Generator) -> Any:
    """A value for a parameter, by its annotation."""
    text = str(annotation).replace("Optional[int]", "int | None").replace("List", "list")
    if text == "int":
        return int(rng.integers(-4, 11))
    if text == "float":
        return float(np.round(rng.uniform(-3, 3), 2))
    if text == "bool":
        return bool(rng.integers(2))
    if text == "str":
        return "".join(chr(97 + int(c)) for c in rng.integers(0, 26, int(rng.integers(5))))
    if text == "list[int]":
        return [int(v) for v in rng.integers(-5, 6, int(rng.integers(1, 5)))]
    if text == "list[float]":
        return [float(v) for v in rng.uniform(-5, 6, int(rng.integers(0, 5)))]
    if text == "int | None":
        return None if rng.random() < 0.3 else int(rng.integers(-4, 9))
    assert "Tensor" in text, text
    return weft.from_numpy(rng.uniform(-2, 2, (2, 3)).astype(np.float32))


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, in type too; a weft.Size counts as a list, as in TorchScript."""
    if isinstance(a, weft.Tensor):
        return (
            isinstance(b, weft.Tensor)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and np.array_equal(a.detach().numpy(), b.detach().numpy(), equal_nan=True)
        )
    if isinstance(a, (list, tuple)):
        kind = list if isinstance(a, (list, weft.Size)) or isinstance(b, list) else tuple
        return isinstance(b, (kind, weft.Size)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    return type(a) is type(b) and bool(a == b)


def outcome(function: Any, args: list[Any]) -> Any:
    """The result with the arguments as they are afterwards, and first and second gradients of leaves; or what was
    raised. (A scripted function has lists and dicts of its own, and leaves the caller's as they were.)
    """
    before = [copy.deepcopy(a) for a in args if not isinstance(a, weft.Tensor)]
    args = copy.deepcopy(args)
    leaves = [a.requires_grad_() for a in args if isinstance(a, weft.Tensor)]
    try:
        result = function(*args)
    except Exception as error:
        return (
            "raised",
            next(
                k
                for k in type(error).__mro__
                if (k.__module__ == "builtins" and k is not RuntimeError) or k is Exception
            ).__name__,
        )
    grads = []
    outs = [
        r
        for r in (result if isinstance(result, tuple) else (result,))
        if isinstance(r, weft.Tensor) and r.requires_grad
    ]
    if outs and leaves:
        total = sum((r * r).sum() for r in outs)
        grads = [g for g in weft.autograd.grad(total, leaves, create_graph=True, allow_unused=True)]
        flowing = [g for g in grads if g is not None and g.requires_grad]
        if flowing:
            grads += weft.autograd.grad(sum((g * g).sum() for g in flowing), leaves, allow_unused=True)
    is_scripted = isinstance(function, weft.jit.ScriptFunction)
    return result, [a for a in args if not isinstance(a, weft.Tensor)] if is_scripted else before, grads


INTERPRETED = 1 << 60  # runs before a group of operators is compiled


def close(a: Any, b: Any) -> bool:
    """Whether two results are equal, floats but for rounding."""
    if isinstance(a, weft.Tensor):
        return (
            isinstance(b, weft.Tensor) and a.dtype == b.dtype and a.shape == b.shape
            and np.allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5, equal_nan=True)
        )
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) or same(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    return same(a, b)


def drawn(functions: list[Any], count: int) -> list[Any]:
    """Some of the functions, others with another seed."""
    rng = np.random.default_rng([SEED, zlib.crc32(functions[0].__module__.encode())])
    at = rng.permutation(len(functions))[: None if os.environ.get("TEST_PROGRAMS") == "all" else count]
    return [functions[i] for i in sorted(at)]


TENSORS = [f for f in PROGRAMS if f.__module__ == tensors.__name__]
LOOPS = [f for f in PROGRAMS if f.__module__ == tensor_loops.__name__]
_FLOW = (ast.If, ast.For, ast.While, ast.IfExp, ast.ListComp)


def test_control_flow_is_in_most_programs() -> None:
    trees = [ast.parse(textwrap.dedent(inspect.getsource(f))) for f in PROGRAMS]
    assert sum(any(isinstance(n, _FLOW) for n in ast.walk(t)) for t in trees) >= 150


@pytest.mark.parametrize("function", [*TENSORS, *drawn(LOOPS, 12)], ids=lambda f: f.__name__)
def test_a_program_of_tensors_runs_by_its_plans(function) -> None:
    scripted = weft.jit.script(function)
    rng = np.random.default_rng(len(function.__name__))
    parameters = inspect.signature(function).parameters.values()
    with compiled_after(0, 0):
        for _ in range(3):
            args = [draw(p.annotation, rng) for p in parameters]
            assert agree(orders_of(function, args), orders_of(scripted, args), exact=False), args


# What hangs on sizes that a loop changes, or on values in a list or branch of Python's, is known when the program runs.
REFUSED = ("growing", "shrinking", "halves", "sums_to_numbers", "at_most", "windows", "two_directions", "accumulated")


@pytest.mark.parametrize("function", drawn(LOOPS, 6), ids=lambda f: f.__name__)
def test_a_program_of_tensors_is_part_of_a_native_one(function) -> None:
    compiled = weft.compile(weft.jit.script(function))
    rng = np.random.default_rng(len(function.__name__))
    parameters = inspect.signature(function).parameters.values()
    for _ in range(2):
        args = [draw(p.annotation, rng) for p in parameters]
        found = orders_of(compiled, args)
        if function.__name__ not in REFUSED or type(found.results) is not str:
            assert agree(orders_of(function, args), found, exact=False), args


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f"{f.__module__.rpartition('.')[2]}-{f.__name__}")
def test_a_scripted_program_does_what_python_does(function) -> None:
    scripted = weft.jit.script(function)
    rng = np.random.default_rng(len(function.__name__))
    parameters = inspect.signature(function).parameters.values()
    for _ in range(12):
        args = [draw(p.annotation, rng) for p in parameters]
        expected = outcome(function, args)
        for steps in (48, 0):
            with compiled_after(steps, INTERPRETED):
                assert same(expected, outcome(scripted, args)), (args, expected)
    with weft.jit.optimized_execution(False):
        assert same(expected, outcome(scripted, args)), (args, expected)
