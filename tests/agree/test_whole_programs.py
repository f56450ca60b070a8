"""Whole training programs give in every mode what eager mode gives: results, results of earlier calls as they are now,
and all that the program keeps. Where a call cannot be captured it runs as Python, and nothing was changed before."""

from __future__ import annotations

import dataclasses
import linecache
import os
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.whole_programs import WholeProgram, draw_whole
from tests.agree.width import times
from tests.deferred import deferred
from weft import compiled_autograd

SEED = int(os.environ.get("WEFT_TEST_SEED", "20261130"))
Step = Callable[..., Any]


def within_compiled_autograd(step: Step) -> Step:
    def run(*args: Any) -> Any:
        with compiled_autograd.enable():
            return step(*args)

    return run


MODES: dict[str, Callable[[Step], Step]] = {
    "eager": lambda step: step,
    "compiled": partial(weft.compile, backend="interpret"),
    "split": partial(weft.compile, split=True, backend="interpret"),
    "deferred": partial(deferred, backend="interpret"),
    "compiled_autograd": within_compiled_autograd,
    "lazy": lambda step: step,
}


def run(program: WholeProgram, mode: str) -> list[Any]:
    """What each call gives, as plain data; an error ends it."""
    name, device = f"<whole {program.seed} {mode}>", "lazy" if mode == "lazy" else "cpu"
    linecache.cache[name] = (len(program.source), None, program.source.splitlines(keepends=True), name)
    module = sys.modules["whole"] = types.ModuleType("whole")  # what dataclasses ask for
    scope = module.__dict__
    weft.set_default_dtype(weft.float64)
    weft.set_default_device(device)
    weft.manual_seed(program.seed)
    seen: list[Any] = []
    held: list[Any] = []
    try:
        exec(compile(program.source, name, "exec"), scope)
        plain = scope["step"]
        step = MODES[mode](plain)
        for i, (size, change) in enumerate(program.calls):
            exec(change, scope)
            rng = np.random.default_rng([program.seed, i])
            arrays = rng.normal(size=(size, 3)), rng.integers(0, 3, size), rng.integers(0, 6, size)
            args = [weft.from_numpy(a).to(device) for a in arrays]
            try:
                out = step(*args)
            except weft.CaptureError:
                out = plain(*args)
            held.append(out)
            seen.append([data(out), [data(older) for older in held[-3:]], data(vars(scope["s"]))])
    except Exception as error:
        return [*seen, next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins")]
    finally:
        weft.set_default_dtype(weft.float32)
        weft.set_default_device("cpu")
        linecache.cache.pop(name, None)
        del sys.modules["whole"]
    return seen


def data(value: Any) -> Any:
    """A value as plain data, with arrays in the place of tensors."""
    if isinstance(value, weft.Tensor):
        grad = value.grad if value.is_leaf and value.requires_grad else None
        return [value.requires_grad, value.detach().cpu().numpy().copy(), None if grad is None else data(grad)]
    if isinstance(value, weft.nn.Module):
        numbers = {n: (m.training, m.__dict__.get("calls")) for n, m in value.named_modules()}
        return [numbers, {n: data(t) for n, t in (*value.named_parameters(), *value.named_buffers())}]
    if isinstance(value, weft.optim.Optimizer):
        return data(value.state_dict()["state"])
    if dataclasses.is_dataclass(value):
        return data(vars(value))
    if isinstance(value, dict):
        return {key: data(each) for key, each in value.items() if key != "_weft_compiled"}
    if isinstance(value, (list, tuple, deque)):
        return [type(value).__name__, *map(data, value)]
    return value


def difference(a: Any, b: Any, path: str = "") -> str | None:
    """Where two values differ by more than rounding."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        alike = a.shape == b.shape and a.dtype == b.dtype
        is_exact = a.dtype.kind in "biu"
        same = alike and (np.array_equal(a, b) if is_exact else np.allclose(a, b, 1e-6, 1e-6, equal_nan=True))
        return None if same else f"{path}: {a} and {b}"
    if type(a) is not type(b):
        return f"{path}: {a!r} and {b!r}"
    if isinstance(a, dict) and list(a) == list(b):
        return next(filter(None, (difference(a[key], b[key], f"{path}.{key}") for key in a)), None)
    if isinstance(a, list) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return next(filter(None, (difference(x, y, f"{path}[{i}]") for i, (x, y) in pairs)), None)
    if isinstance(a, float):
        return None if np.isclose(a, b, 1e-6, 1e-6, equal_nan=True) else f"{path}: {a!r} and {b!r}"
    return None if a == b else f"{path}: {a!r} and {b!r}"


@pytest.mark.parametrize("number", range(times(8)))
def test_every_mode_agrees_with_eager_mode(number: int) -> None:
    program = draw_whole(SEED + number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = run(program, "eager")
        for mode in MODES:
            problem = difference(run(program, mode), eager)
            text = f"{program.source}\n{program.calls}"
            assert problem is None, f"seed {program.seed}, {mode} and eager mode: {problem}\n{text}"


def test_most_of_them_run_to_their_end() -> None:
    ends = [run(draw_whole(SEED + i), "eager") for i in range(12)]
    assert sum(len(seen) == 6 for seen in ends) > 6
