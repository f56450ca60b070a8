"""Every pointwise operator at NaN, infinities, zeros of both signs, subnormal and huge numbers: compiled as eager,
values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import NoSample, cases

import weft
from tests.agree.width import TIMES
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.support.errors import NotForDType, ShapeError, Unsupported

DTYPES = {"float32": 2e-6, "float64": 1e-13}  # and how far the two may be apart
TOGETHER = 24  # operators in one program
FEW = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0)
Call = tuple[Callable[..., Any], list[Any]]


def numbers(dtype: str, count: int) -> list[np.ndarray[Any, Any]]:
    """For so many operands: all pairs (or triples) of special numbers."""
    limits = np.finfo(dtype)
    more = (
        limits.smallest_subnormal, -3 * limits.smallest_subnormal, limits.max, -limits.max, limits.tiny, 0.5, -0.5, 1.5,
        2.0, -1.0, 3.0, -3.0, 20.0, -20.0, 100.5,
        # near where doubling, squaring and exp overflow, and where squaring underflows
        0.9 * limits.max, -0.9 * limits.max, 1.1 * np.sqrt(limits.max), np.log(limits.max), np.sqrt(limits.tiny),
    )
    drawn = np.array(FEW if count > 2 else FEW + more, dtype)
    return [x.ravel() for x in np.meshgrid(*[drawn] * count, indexing="ij")]


def is_drawn(op: Op) -> bool:
    return isinstance(op.type, Pointwise) and bool(op.public) and not op.schema.name.endswith("_")


def call_of(op: Op, dtype: str, rng: np.random.Generator) -> Call:
    """The operator as a function of its floating point tensors, and those."""
    values = list(next(iter(cases(op, rng))))
    places = [i for i, v in enumerate(values) if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    if not places or len(places) > 3:
        raise NoSample(op.name)
    special = numbers(dtype, len(places))
    fixed = [
        weft.from_numpy(np.resize(v, special[0].shape).copy()) if isinstance(v, np.ndarray) and i not in places else v
        for i, v in enumerate(values)
    ]

    packet = getattr(aten, op.base)
    overload = getattr(packet, op.schema.overload or "default")

    def call(*tensors: weft.Tensor) -> Any:
        taken = list(fixed)
        for place, tensor in zip(places, tensors, strict=True):
            taken[place] = tensor
        named = {a.name: v for a, v in zip(op.schema.arguments, taken, strict=True) if a.keyword_only}
        return overload(*taken[: len(taken) - len(named)], **named)

    return call, [weft.from_numpy(x) for x in special]


def results(call: Callable[..., Any], tensors: list[weft.Tensor]) -> list[weft.Tensor]:
    """The value, and the gradients of its sum if there are any."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = call(*leaves)
    if not out.requires_grad:
        return [out]
    return [
        out.detach(),
        *(g for g in weft.autograd.grad(out, leaves, weft.ones_like(out), allow_unused=True) if g is not None),
    ]


def all_calls(dtype: str, rng: np.random.Generator) -> dict[str, Call]:
    """Calls of every pointwise operator that takes floating point tensors."""
    calls: dict[str, Call] = {}
    for op in filter(is_drawn, OPS.values()):
        try:
            found = call_of(op, dtype, rng)
            results(*found)
        except (NoSample, NotForDType, ShapeError, Unsupported):  # (one that takes integers, or a number in a tensor)
            continue
        calls[op.name] = found
    return calls


@pytest.mark.parametrize("dtype", DTYPES)
def test_compiled_as_eager(dtype: str, rng: np.random.Generator) -> None:
    calls = all_calls(dtype, rng)
    assert len(calls) > 140
    # (a run that names no width compiles each of them with one of the dtypes)
    names = [n for i, n in enumerate(calls) if TIMES > 1 or i % len(DTYPES) == list(DTYPES).index(dtype)]
    wrong = list[str]()
    for start in range(0, len(names), TOGETHER):
        part = names[start : start + TOGETHER]

        @weft.compile
        def together(given: list[list[weft.Tensor]], part: list[str] = part) -> list[list[weft.Tensor]]:
            return [results(calls[name][0], tensors) for name, tensors in zip(part, given, strict=True)]

        for name, found in zip(part, together([calls[name][1] for name in part]), strict=True):
            for k, (eager, compiled) in enumerate(zip(results(*calls[name]), found, strict=True)):
                lines = differences(eager.numpy(), compiled.numpy(), calls[name][1], DTYPES[dtype])
                wrong += [f"{name}, {f'gradient {k}' if k else 'value'}, {line}" for line in lines]
    assert not wrong, "\n".join(wrong)


def differences(eager: Any, compiled: Any, tensors: list[weft.Tensor], rtol: float) -> list[str]:
    bad = np.zeros(eager.shape, bool)
    for a, b in zip(_parts(eager), _parts(compiled), strict=True):
        with np.errstate(all="ignore"):
            differ = ~np.isclose(b, a, rtol=rtol, atol=0, equal_nan=True)
            differ &= (a == 0) | (b == 0) | ~(abs(a - b) < rtol / 10)  # (what cancels keeps fewer digits, but is not 0)
        bad |= differ | (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    return [
        f"at {[float(t.numpy()[i]) for t in tensors]}: eager {eager[i]}, compiled {compiled[i]}"
        for i in np.flatnonzero(bad)[:4]
    ]


def _parts(x: Any) -> list[Any]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x.astype(np.float64)]
