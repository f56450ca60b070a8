"""What is cached of a call (overload, plan, NumPy calls) serves calls with other numbers and words: each gives,
or refuses, what it would as the first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import NoSample, cases, cast, mine

import weft
from weft.ops import compute, planned
from weft.ops.op import OPS, Op
from weft.ops.packet import Overload, aten
from weft.ops.schema import Argument
from weft.types import dtype as dt

Outcome = tuple[Any, ...]
ENTRIES = 70  # drawn anew for every run; all of them take a minute
DTYPES = (dt.float32, dt.int64, dt.bool_, dt.complex64)
FOR_NONE: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, -1, 100), "Scalar": (0, -1.5, 0.0, True), "float": (0.5, -1.0), "str": ("floor", "nonsense"),
    "ScalarType": DTYPES, "bool": (True, False),
}
WORDS = ("nonsense", "sum", "none", "mean", "floor", "trunc", "tanh", "reflect")


def others(value: Any, argument: Argument) -> list[Any]:
    """Other values for an argument that is no tensor, good and bad ones."""
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, int):
        return [value + 1, -value, -100, 100, 0, 1, True, float(value), 1.5]
    if isinstance(value, float):
        return [value + 1, -value, 0.0, -0.0, 2, math.inf, math.nan, 1j]
    if isinstance(value, str):
        return list(WORDS)
    if isinstance(value, dt.DType):
        return list(DTYPES)
    if value is None:
        return (
            [(0,), (-1,), (100,), (0, 0)] if argument.is_list and argument.kind == "int"
            else list(FOR_NONE.get(argument.kind, ()))
        )
    if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        return [
            (), (*value, 0), tuple(-v for v in value), value[::-1],
            tuple(v + 1 for v in value), (-1,), (0, 1), *value[:1],
        ]
    return []


def outcome(call: Callable[..., Any], values: list[Any]) -> Outcome:
    """Everything that a caller sees of a call on fresh tensors."""
    try:
        return ("gives", seen(call(*map(tensors, values))))
    except Exception as problem:
        return ("raises", type(problem), str(problem))


def tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return weft.from_numpy(value.copy())
    return tuple(map(tensors, value)) if isinstance(value, tuple) else value


def seen(out: Any) -> Any:
    if isinstance(out, weft.Tensor):
        # + 0: the sign of a 0 may hang on where an array lies
        return out.dtype, tuple(out.shape), (out.numpy() + 0).tobytes()
    return tuple(map(seen, out)) if isinstance(out, (tuple, list)) else repr(out)


VIEWS = [op for op in OPS.values() if op.view is not None]


def forget(call: Overload) -> None:
    """As before the first call."""
    for op in VIEWS:
        compute.views_of(op).clear()
    planned.forget()
    call.calls.signatures.clear()


def varied(op: Op, rng: np.random.Generator) -> list[list[Any]]:
    """A sample of an entry, and the same with one argument after the other changed."""
    found = list(cases(op, rng))
    dtype = (dt.float64, dt.int64)[rng.integers(2)]
    values = [cast(v, dtype, rng) for v in found[rng.integers(len(found))]] if found else []
    changed = [
        [*values[:i], other, *values[i + 1 :]] for i, a in enumerate(op.schema.arguments) if values
        for other in others(values[i], a)
    ]
    return [values, *changed] if changed else []


@pytest.mark.filterwarnings("ignore")
def test_a_kept_plan_looks_at_every_value(rng: np.random.Generator) -> None:
    pure = [op for op in mine() if op.effect != "random" and op.schema.namespace == "aten"]
    tried = 0
    for op in rng.permutation(np.array(pure, object))[:ENTRIES]:
        try:
            calls = varied(op, rng)
        except NoSample:
            continue
        call = getattr(getattr(aten, op.base), op.schema.overload or "default")
        first = []
        for values in calls:
            forget(call)
            first.append(outcome(call, values))
        forget(call)
        for i in rng.permutation(2 * len(calls)) % max(len(calls), 1):
            tried += 1
            assert outcome(call, calls[i]) == first[i], (op.name, calls[i])
    assert tried > 100
