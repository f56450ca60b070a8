"""The LLVM scalar handler agrees with the NumPy one, method by method, for every legal dtype and special value."""

from __future__ import annotations

import inspect
import os
from typing import Any

import numpy as np
import pytest
from native_arrays import run

from weft.codegen.compiler import compile_object
from weft.codegen.emit import F32, Module, const
from weft.codegen.scalar.handler import LlvmScalar
from weft.codegen.target import aarch64_target, host_target, x86_target
from weft.ops.scalar import METHODS, ScalarOps
from weft.ops.scalar_numpy import NUMPY
from weft.support.errors import DTypeError
from weft.types import dtype as dt
from weft.types.dtype import DType

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(int(os.environ["WEFT_TEST_SEED"]))

INTS = (dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64)
HALVES = (dt.float16, dt.bfloat16)
FLOATS = (*HALVES, dt.float32, dt.float64)
COMPLEX = (dt.complex64, dt.complex128)
REAL = (*INTS, *FLOATS)
BITS = (dt.bool_, *INTS)

FLOAT_UNARY = [
    "floor",
    "ceil",
    "trunc",
    "round",
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "erf",
    "erfc",
    "erfinv",
]
COMPLEX_UNARY = ["sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"]
# name: (operands, dtypes)
LEGAL: dict[str, tuple[int, tuple[DType, ...]]] = {
    "add": (2, (*REAL, *COMPLEX)), "sub": (2, (*REAL, *COMPLEX)), "mul": (2, (*REAL, *COMPLEX)),
    "div": (2, (*FLOATS, *COMPLEX)), "floordiv": (2, REAL), "truncdiv": (2, REAL), "remainder": (2, REAL),
    "fmod": (2, REAL), "neg": (1, (*REAL, *COMPLEX)), "abs": (1, (dt.bool_, *REAL, *COMPLEX)),
    "sign": (1, (dt.bool_, *REAL, *COMPLEX)), "pow": (2, REAL), "copysign": (2, FLOATS),
    "atan2": (2, FLOATS), "maximum": (2, (dt.bool_, *REAL)), "minimum": (2, (dt.bool_, *REAL)),
    "isnan": (1, (*FLOATS, *COMPLEX)), "isinf": (1, (*FLOATS, *COMPLEX)), "isfinite": (1, (*FLOATS, *COMPLEX)),
    "signbit": (1, REAL),
    "bit_and": (2, BITS), "bit_or": (2, BITS), "bit_xor": (2, BITS), "bit_not": (1, BITS), "shl": (2, INTS),
    "shr": (2, INTS),
    "real": (1, COMPLEX), "imag": (1, COMPLEX), "conj": (1, COMPLEX), "angle": (1, (*FLOATS, *COMPLEX)),
    "bits": (1, (dt.float32, dt.float64)),
    **{name: (2, (*BITS, *FLOATS, *COMPLEX)) for name in ("eq", "ne")},
    **{name: (2, (*BITS, *FLOATS)) for name in ("lt", "le", "gt", "ge")},
    **{name: (1, FLOATS + (COMPLEX if name in COMPLEX_UNARY else ())) for name in FLOAT_UNARY},
}
ELSEWHERE = {"const", "cast", "dtype", "from_bits", "where", "complex"}  # have tests of their own below
# NumPy's own single precision functions are up to 4 ulp off; halves round once, or once more where both
# handlers disagree by one
ULPS = {"float32": 8, "float64": 8, "float16": 1, "bfloat16": 1, "complex64": 40, "complex128": 40}
EXACT = {
    "add",
    "sub",
    "mul",
    "div",
    "floordiv",
    "truncdiv",
    "remainder",
    "fmod",
    "neg",
    "abs",
    "sign",
    "copysign",
    "maximum",
    "minimum",
    "floor",
    "ceil",
    "trunc",
    "round",
    "sqrt",
    "bits",
}


def numbers(dtype: DType, count: int = 400) -> Array:
    """Random numbers of every size, and the special ones, in random order."""
    if dtype is dt.bool_:
        return rng.random(count) < 0.5
    if dtype.is_complex:
        part = numbers(dtype.to_real(), count)
        finite = part[np.isfinite(part) & (np.abs(part) < 50) & (np.abs(part) > 1e-6)]
        return np.asarray(rng.choice(finite, count) + 1j * rng.choice(finite, count)).astype(dtype.numpy)
    if dtype.category == dt.INT:
        info = np.iinfo(dtype.numpy)
        drawn = rng.integers(info.min, info.max, count, dtype.numpy, endpoint=True)
        small = rng.integers(0 if not dtype.is_signed else -9, 10, count // 2)
        special = np.array([info.min, info.max, 0, 1, 2] + ([-1] if dtype.is_signed else [255]))
        return np.asarray(
            rng.permutation(np.concatenate([drawn[: count // 2], small, special]).astype(dtype.numpy))[:count]
        )
    drawn = np.concatenate(
        [rng.normal(size=count // 2) * 3, rng.uniform(-1, 1, count // 3), np.exp(rng.normal(size=count // 3) * 8)]
    )
    special = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, np.inf, -np.inf, np.nan, 1e-6, -3, 3, 7.5, -2.5])
    with np.errstate(all="ignore"):
        return np.asarray(rng.permutation(np.concatenate([drawn, special]).astype(dtype.numpy))[: count + 15])


def assert_same(got: Array, want: Array, note: str = "") -> None:
    """Equal values and dtypes; NaN equals NaN (also of bfloat16, which NumPy's own check cannot do)."""
    assert got.dtype == want.dtype
    if got.dtype == dt.bfloat16.numpy:
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want, err_msg=note)


def assert_close(got: Array, want: Array, ulps: float) -> None:
    assert got.dtype == want.dtype
    if got.dtype.kind == "c":
        scale = np.maximum(np.abs(want), np.finfo(want.dtype).tiny)
        assert np.all(np.abs(got - want) <= ulps * np.finfo(want.dtype).eps * scale)
        return
    if got.dtype.kind in "iub" or ulps == 0:
        assert_same(got, want)
        return
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    spacing = _spacing(want)
    with np.errstate(all="ignore"):
        off = np.abs(wide_got - wide_want) / spacing
    same = (wide_got == wide_want) | (np.isnan(wide_got) & np.isnan(wide_want))
    bad = ~same & ~(off <= ulps)
    assert not bad.any(), (got[bad][:5], want[bad][:5])


def _spacing(x: Array) -> Array:
    digits, low = {"float16": (10, -24), "bfloat16": (7, -133), "float32": (23, -149), "float64": (52, -1074)}[
        x.dtype.name
    ]
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(x).astype(np.float64))[1] - 1
    return np.asarray(np.ldexp(1.0, np.maximum(exponent - digits, low)))


def expected(name: str, dtype: DType, operands: list[Array]) -> Array:
    """The NumPy handler's value; halves are computed in float32 and rounded, as operators do."""
    half = dtype in HALVES
    with np.errstate(all="ignore"):
        out = getattr(NUMPY, name)(*(a.astype(np.float32) if half else a for a in operands))
        out = np.broadcast_to(np.asarray(out), operands[0].shape)
        return np.asarray(out.astype(dtype.numpy)) if half and out.dtype == np.float32 else np.asarray(out)


def test_every_method_of_the_protocol_is_written_out() -> None:
    written = {name for part in LlvmScalar.__mro__[:-1] for name in vars(part)}
    missing = [name for name in METHODS if name not in written]
    assert "__getattr__" not in written
    assert missing == []
    assert set(METHODS) == set(LEGAL) | ELSEWHERE
    for name in METHODS:
        wanted = [p for p in inspect.signature(getattr(ScalarOps, name)).parameters]
        assert list(inspect.signature(getattr(LlvmScalar, name)).parameters) == wanted, name


@pytest.mark.parametrize("name", sorted(LEGAL))
def test_methods_agree_with_numpy(name: str) -> None:
    arity, dtypes = LEGAL[name]
    for dtype in dtypes:
        operands = [numbers(dtype) for _ in range(arity)]
        length = min(map(len, operands))
        operands = [a[:length] for a in operands]
        if name in ("floordiv", "truncdiv", "remainder", "fmod") and dtype.category == dt.INT:
            operands[1][operands[1] == 0] = 3
        if name == "erfinv":
            operands[0] = np.clip(operands[0].astype(np.float64), -0.99, 0.99).astype(dtype.numpy)
        want = expected(name, dtype, operands)
        got = run(lambda s, *xs: getattr(s, name)(*xs), *operands)
        try:
            assert_close(got, want, 0 if name in EXACT and not dtype.is_complex else ULPS.get(want.dtype.name, 0))
        except AssertionError as problem:
            raise AssertionError(f"{name} of {dtype}: {problem}") from None


@pytest.mark.parametrize("source", dt.ALL, ids=str)
def test_casts_agree_with_numpy(source: DType) -> None:
    x = numbers(source)
    for target in dt.ALL:
        values = x
        if target.category == dt.INT and source.category >= dt.FLOAT:
            values = np.clip(np.nan_to_num(x.real.astype(np.float64)), 0, 120).astype(
                source.numpy
            )  # others have no defined integer
        with np.errstate(all="ignore"):
            want = (values != 0) if target is dt.bool_ else np.asarray(NUMPY.cast(values, target))
        got = run(lambda s, v, to=target: s.cast(v, to), values)
        assert got.dtype == want.dtype
        assert_same(got, want, f"{source} to {target}")


def test_every_half_precision_number_survives_and_rounds_right() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    for dtype in HALVES:
        x = every.view(dtype.numpy)
        assert_same(run(lambda s, v: s.cast(v, dt.float32), x), x.astype(np.float32))
    bits = rng.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    edges = (every.astype(np.uint32) << 16) + rng.choice(np.array([0, 1, 0x7FFF, 0x8000, 0x8001], np.uint32), 1 << 16)
    ties = every.view(np.float16).astype(np.float32)
    ties = (ties[:-1].astype(np.float64) + ties[1:]) / 2
    with np.errstate(all="ignore"):
        x = np.concatenate([bits.view(np.float32), edges.view(np.float32), ties.astype(np.float32)])
        for dtype in HALVES:
            assert_same(run(lambda s, v, to=dtype: s.cast(v, to), x), x.astype(dtype.numpy))
        near = x[np.isfinite(x)].astype(np.float64)
        near = near * (1 + rng.choice([-1, 0, 1], len(near)) * 2.0**-40)  # double rounding would show here
        for dtype in HALVES:
            assert_same(run(lambda s, v, to=dtype: s.cast(v, to), near), near.astype(dtype.numpy))


@pytest.mark.skipif(not host_target().is_x86, reason="x86 levels")
@pytest.mark.parametrize("level", ["x86-64", "x86-64-v3"])
def test_lower_levels_agree_too(level: str) -> None:
    """Baseline x86-64 has neither fma nor F16C nor rounding instructions."""
    if level == "x86-64-v3" and host_target().vector_bytes < 32:
        pytest.skip("this machine has no AVX2")
    target = x86_target(level)
    target = type(target)(
        host_target().triple, target.cpu, target.features, target.vector_bytes, target.vector_registers, target.has_fma
    )
    for name in ("exp", "log1p", "sin", "tanh", "erf", "pow", "fmod", "remainder", "atan2", "round", "maximum", "add"):
        for dtype in (dt.float32, dt.float64, dt.float16, dt.bfloat16):
            operands = [numbers(dtype) for _ in range(LEGAL[name][0])]
            got = run(lambda s, *xs, n=name: getattr(s, n)(*xs), *operands, target=target)
            assert_close(got, expected(name, dtype, operands), ULPS[dtype.name])


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 16, 32])
def test_results_do_not_depend_on_the_number_of_lanes(lanes: int) -> None:
    x, y = numbers(dt.float32), numbers(dt.float32)

    def body(s: Any, a: Any, b: Any) -> Any:
        return s.add(
            s.mul(s.tanh(a), s.sin(b)),
            s.cast(s.floordiv(s.cast(s.tanh(b), dt.int32), s.const(3, dt.int32)), dt.float32),
        )

    assert_same(run(body, x, y, lanes=lanes), run(body, x, y))


def test_products_and_sums_are_not_contracted() -> None:
    """The random generator and the promise of bitwise equality with NumPy rest on this."""
    for dtype in (np.float32, np.float64):
        a, b, c = (rng.normal(size=5000).astype(dtype) for _ in range(3))
        c = np.where(rng.random(5000) < 0.5, c, -a * b)  # where fusing shows most
        got = run(lambda s, x, y, z: s.add(s.mul(x, y), z), a, b, c)
        np.testing.assert_array_equal(got.view(np.uint8), (a * b + c).view(np.uint8))
        got = run(lambda s, x, y, z: s.sub(s.sqrt(s.abs(z)), s.div(x, y)), a, b, c)
        np.testing.assert_array_equal(got.view(np.uint8), (np.sqrt(np.abs(c)) - a / b).view(np.uint8))


def test_where_complex_and_bits() -> None:
    for dtype in dt.ALL:
        x, y = numbers(dtype), numbers(dtype)
        chosen = rng.random(len(x)) < 0.5
        assert_same(run(lambda s, c, a, b: s.where(c, a, b), chosen, x, y), np.where(chosen, x, y).astype(dtype.numpy))
    for dtype in (dt.float32, dt.float64):
        a, b = numbers(dtype), numbers(dtype)
        assert_same(run(lambda s, x, y: s.complex(x, y), a, b), NUMPY.complex(a, b))
        round_trip = run(lambda s, x, d=dtype: s.from_bits(s.bits(x), d), a)
        np.testing.assert_array_equal(round_trip, a)


def test_constants_of_every_dtype() -> None:
    for dtype in dt.ALL:
        for value in (0, 1, -1, 3, 200, True, 2.5, -1e10, 1 << 40):
            if dtype.category == dt.INT and isinstance(value, float):
                continue
            x = np.zeros(5, dtype.numpy)
            with np.errstate(all="ignore"):
                want = NUMPY.const(value, dtype) if dtype is not dt.bool_ else np.bool_(value != 0)
            got = run(lambda s, v, c=value, d=dtype: s.const(c, d), x)
            np.testing.assert_array_equal(got, np.full(5, want))


def test_powers_with_known_exponents() -> None:
    for dtype in (dt.float32, dt.float64, dt.int32, dt.uint8):
        x = numbers(dtype)
        for exponent in (0, 1, 2, 3, 8) if dtype.category == dt.INT else (0, 1, 2, -1, 3, 0.5):
            y = np.full(len(x), exponent, dtype.numpy)
            got = run(lambda s, v, e=exponent, d=dtype: s.pow(v, s.const(e, d)), x)
            assert_close(got, expected("pow", dtype, [x, y]) if exponent != 0.5 else expected("sqrt", dtype, [x]), 2)


def test_division_by_zero_does_not_trap() -> None:
    for dtype in INTS:
        x = numbers(dtype)
        zero = np.zeros(len(x), dtype.numpy)
        for name in ("floordiv", "truncdiv", "remainder", "fmod"):
            assert not run(lambda s, a, b, n=name: getattr(s, n)(a, b), x, zero).any()


def test_wrong_dtypes_are_named() -> None:
    x = np.ones(4, np.int32)
    for body in (lambda s, v: s.exp(v), lambda s, v: s.div(v, v), lambda s, v: s.atan2(v, v)):
        with pytest.raises(DTypeError, match="int32"):
            run(body, x)
    with pytest.raises(DTypeError, match=r"int32.*int64"):
        run(lambda s, v: s.add(v, s.cast(v, dt.int64)), x)
    with pytest.raises(DTypeError, match="is held as"):
        f = Module().function("f")
        LlvmScalar(f, 4, host_target()).element(dt.float32, const(F32, 1.0))


def test_every_method_compiles_for_aarch64() -> None:
    """Emission only; NEON has other vectors, no F16C, and its own rounding."""
    from native_arrays import body_module

    target = aarch64_target()
    for name in ("exp", "log", "sin", "pow", "erfinv", "fmod", "atan2", "round", "maximum"):
        for dtype in FLOATS:
            arity = LEGAL[name][0]
            module, _ = body_module(lambda s, *xs, n=name: getattr(s, n)(*xs), [dtype] * arity, target.lanes(4), target)
            assert compile_object(module.text(), target)[:4] == b"\x7fELF"
