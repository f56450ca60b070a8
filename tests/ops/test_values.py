"""Every entry with an oracle: values over dtypes and memory layouts, and the type rule against what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sampling import cases, cast, mine, oracle_of, relaid

import weft
from tests.ops.oracles import OF_BITS, OF_FLOATS
from tests.ops.oracles.draws import DISTRIBUTIONS, DRAWS
from weft.ops import bind as binding
from weft.ops.array import Array
from weft.ops.compute import evaluate, type_of
from weft.ops.op import OPS, Op
from weft.ops.route import call, default_route
from weft.support.errors import DTypeError, LinAlgError, WeftError
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType

TOLERANCE = {
    dt.float64: (1e-12, 1e-13), dt.float32: (2e-5, 2e-6), dt.float16: (2e-2, 4e-3), dt.bfloat16: (1e-1, 4e-2),
    dt.complex64: (1e-4, 1e-5), dt.complex128: (1e-11, 1e-12),
}
DTYPES = dt.ALL
RANDOM = {op.name for op in mine() if op.effect == "random"}
WITH_ORACLE = [op for op in mine() if oracle_of(op) is not None]
# Results that jump where rounding to the dtype moves an operand, so that low precision and the float64 oracle may
# differ by a whole step.
JUMPS = {
    "floor_divide", "remainder", "fmod", "div", "divide", "floor", "round", "isclose", "argsort", "sort", "signbit",
    "arange", "linspace",
}
# Values with places: which of equal elements is named is not the oracle's to say.
VALUES_ALONE = {"sort", "topk", "mode", "median", "nanmedian", "kthvalue", "cummax", "cummin"}


def arrays(results: Any) -> list[Any]:
    return [r for v in results for r in arrays(v)] if isinstance(results, tuple) else [results]


def is_cast(sample: Any) -> bool:
    """Whether an argument takes the dtype that is tested; indices and masks keep theirs."""
    return (
        any(map(is_cast, sample)) if isinstance(sample, tuple)
        else isinstance(sample, np.ndarray) and sample.dtype == np.float64
    )


def widened(v: Any, to_float: bool) -> Any:
    if isinstance(v, tuple):
        return tuple(widened(x, to_float) for x in v)
    if not isinstance(v, np.ndarray) or (v.dtype.kind in "biu" and not to_float):
        return v
    return v.astype(np.complex128 if v.dtype.kind == "c" else np.float64)


def oracle(op: Op, sample: tuple[Any, ...], args: tuple[Any, ...], to_float: bool) -> list[Any] | None:
    """What NumPy says, floats (and integers that become floats) computed in float64;
    None where NumPy has no answer for these operands."""
    wide = (
        list(args) if op.name in OF_BITS
        else [widened(v, to_float and is_cast(s)) for s, v in zip(sample, args, strict=True)]
    )
    try:
        with np.errstate(all="ignore"):
            return [np.asarray(r) for r in arrays(oracle_of(op)(*wide))]
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


@pytest.mark.parametrize("op", WITH_ORACLE, ids=lambda op: op.name)
def test_values_dtypes_and_layouts(op, rng):
    tested = 0
    for args in cases(op, rng):
        kinds = [dt.float64, dt.float32, *rng.choice(np.array(DTYPES, object), 4, replace=False)]
        for dtype in dict.fromkeys(kinds):
            plain = tuple(cast(v, dtype, rng) for v in args)
            # a repeated row makes a matrix singular
            tested += (
                check_value(op, args, tuple(relaid(v, rng) for v in plain), dtype)
                or check_value(op, args, plain, dtype)
            )
    assert tested, "no sample was accepted by both the entry and its oracle"


def check_value(op: Op, sample: tuple[Any, ...], operands: tuple[Any, ...], dtype: dt.DType) -> int:
    """Compares what the entry computes with what its oracle says: 1, or 0 where one of the two has no answer."""
    before = [v.copy() if isinstance(v, np.ndarray) else v for v in operands]
    try:
        with default_route(Array.__weft_route__):
            got = arrays(evaluate(op, operands))
    except (DTypeError, WeftError):
        return 0
    for now, then in zip(operands, before, strict=False):
        if isinstance(now, np.ndarray):
            np.testing.assert_array_equal(now, then, err_msg="an operand was changed")
    if (
        (op.base in JUMPS and dtype in (dt.float16, dt.bfloat16, dt.float32))
        or (op.name in OF_FLOATS and not (dtype.is_differentiable and not dtype.is_complex))
    ):
        return 0
    expected = oracle(op, sample, operands, any(np.asarray(g).dtype.kind not in "biu" for g in got))
    if expected is None:
        return 0
    rtol, atol = TOLERANCE.get(dtype, TOLERANCE[dt.float32])
    assert len(got) == len(expected) or op.base in VALUES_ALONE
    for g, e in zip(got, expected, strict=False):
        g = np.asarray(g)
        assert g.shape == e.shape, f"{g.shape} instead of {e.shape} for {operands}"
        wide = g.astype(np.complex128 if g.dtype.kind == "c" else np.float64)
        if g.dtype.kind in "biu" and not np.isfinite(e).all():
            continue  # divisions of integers by 0: ours are 0
        if g.dtype.kind == "b":
            e = e.astype(bool).astype(np.float64)
        elif g.dtype.kind in "iu":
            e = e.astype(np.float64).astype(np.int64).astype(g.dtype)
        elif g.dtype.kind != "c":
            e = e.real
        if g.dtype.itemsize == 2:  # what overflows half precision is infinite there
            with np.errstate(over="ignore"):
                e = e.astype(g.dtype).astype(np.float64)
        np.testing.assert_allclose(wide, e, rtol, atol, err_msg=f"{op.name} {dtype} {operands}")
    return 1


def bound(op: Op, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    return binding.bind(op, tuple(weft.from_numpy(v) if isinstance(v, np.ndarray) else v for v in args), named)


@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_draws_have_their_distribution(name):
    """Kolmogorov's distance between what was drawn and the distribution, at the values and just below them,
    which counts where they are few."""
    arguments, cumulative = DISTRIBUTIONS[name]
    weft.manual_seed(11)
    drawn = np.sort(np.asarray(call(OPS[name], bound(OPS[name], *arguments(DRAWS))).numpy(), np.float64).reshape(-1))
    values, counts = np.unique(drawn, return_counts=True)
    reached = np.cumsum(counts) / len(drawn)
    expected = np.array([cumulative(v) for v in values])
    below = np.array([cumulative(float(np.nextafter(v, -np.inf))) for v in values])
    distance = max(np.abs(reached - expected).max(), np.abs(reached - counts / len(drawn) - below).max())
    assert distance < 2.0 / np.sqrt(DRAWS), f"{name}: {distance} from its distribution"


# Entries whose type rule accepts what their kernel refuses: two ask for strides, of which a type says nothing.
LENIENT = {
    "view_as_complex", "view_bits", "_softmax", "_log_softmax", "repeat_interleave", "tril", "triu", "searchsorted"
}
FORETOLD = [op for op in mine() if op.type is not None and op.name not in RANDOM and op.base not in LENIENT]


@pytest.mark.parametrize("op", FORETOLD, ids=lambda op: op.name)
def test_the_type_rule_foretells_the_result(op, rng):
    for args in cases(op, rng):
        for dtype in (dt.float32, *rng.choice(np.array(DTYPES, object), 2, replace=False)):
            operands = tuple(relaid(cast(v, dtype, rng), rng) for v in args)
            try:
                foretold = arrays(op.type(*[type_of(v) for v in operands]))
            except WeftError:
                with pytest.raises(WeftError), default_route(Array.__weft_route__):
                    evaluate(op, operands)
                continue
            try:
                with default_route(Array.__weft_route__):
                    got = arrays(evaluate(op, operands))
            except (IndexError, LinAlgError):
                continue  # an index tensor with values out of bounds, a matrix that became singular
            assert len(got) == len(foretold)
            for g, t in zip(got, foretold, strict=False):
                agrees(g, t)


def agrees(value: Any, t: Any) -> None:
    """The value is of the type, where the type is known."""
    if not isinstance(t, TensorType):
        assert not isinstance(value, np.ndarray)
        return
    assert t.dtype is None or dt.from_numpy(value.dtype) is t.dtype, f"dtype {value.dtype}, foretold {t}"
    if t.dims is not None:
        assert (
            len(t.dims) == value.ndim and all(d is None or d == n for d, n in zip(t.dims, value.shape, strict=False))
        ), f"{value.shape}, foretold {t}"
