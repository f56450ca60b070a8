"""Half precision rounds once: what an operator gives in float16 and bfloat16 is what it gives in float64 for the same
operands, rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sampling import NoSample, cases

import weft
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.support.errors import WeftError

EPS = {weft.bfloat16: 2.0**-8, weft.float16: 2.0**-11}
LIMIT = 2.1  # halves of a unit in the last place: one for the result, one where a function is not exactly rounded
# PyTorch's are made of several operators too, each of which rounds.
COMPOSED = {
    "einsum", "cov", "corrcoef", "diff", "trapezoid", "trapz", "cumulative_trapezoid", "gradient", "tanhshrink",
    "cosine_similarity", "istft", "linalg_matrix_power", "matrix_power", "linalg_multi_dot", "chain_matmul",
    "linalg_cross", "cross", "linalg_vecdot", "index_put", "put",
}
Array = np.ndarray[Any, Any]


def results(op: Op, values: tuple[Any, ...], dtype: Any, half: Any) -> list[Array]:
    """The floating point results for operands of the half precision, computed in `dtype`."""

    def tensor(v: Any) -> Any:
        if isinstance(v, np.ndarray):
            t = weft.from_numpy(np.array(v))
            return t.to(half).to(dtype) if t.is_floating_point() else t
        return type(v)(map(tensor, v)) if isinstance(v, (list, tuple)) else v

    taken = [tensor(v) for v in values]
    named = {a.name: v for a, v in zip(op.schema.arguments, taken, strict=True) if a.keyword_only}
    out = getattr(getattr(aten, op.base), op.schema.overload or "default")(*taken[: len(taken) - len(named)], **named)
    listed = out if isinstance(out, (list, tuple)) else [out]
    return [t.to(half).double().numpy() for t in listed if isinstance(t, weft.Tensor) and t.is_floating_point()]


def is_drawn(op: Op) -> bool:
    return (
        op.schema.namespace == "aten" and bool(op.public) and not op.schema.name.endswith("_")
        and op.effect in ("pure", "raises") and op.base not in COMPOSED
    )


def distance(op: Op, half: Any, rng: np.random.Generator) -> float | None:
    """The greatest error relative to the result, in halves of units in the last place; None without a sample."""
    worst = None
    try:
        for values in list(cases(op, rng))[:3]:
            found, wanted = results(op, values, half, half), results(op, values, weft.float64, half)
            for x, y in zip(found, wanted, strict=True):
                with np.errstate(all="ignore"):
                    scale = np.maximum(abs(y), 0.02 * np.max(abs(y), initial=0.05))
                    errors = np.where(np.isfinite(x) & np.isfinite(y), abs(x - y) / scale, 0)
                worst = max(worst or 0.0, float(np.max(errors, initial=0)) / EPS[half])
    except (NoSample, WeftError, AttributeError):  # (one that takes no half precision, or no tensors at all)
        return None
    return worst


@pytest.mark.parametrize("half", EPS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_operators_round_once(half: Any, seed: int) -> None:
    found = {op.name: distance(op, half, np.random.default_rng(seed)) for op in filter(is_drawn, OPS.values())}
    known = {name: value for name, value in found.items() if value is not None}
    assert len(known) > 300
    assert {name: value for name, value in known.items() if value > LIMIT} == {}
