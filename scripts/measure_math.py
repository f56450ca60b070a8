"""Print the largest error of every vector math function, in units in the last place: python scripts/measure_math.py
[count]

Compares with float64 for single precision and with long double for double precision (erf, erfc: the C library's
double). Infinite, NaN and zero results must agree exactly; the column `special` counts those that do not.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.codegen.emit import F32, F64, I64, PTR, Module, vec
from weft.codegen.math.core import FloatMath
from weft.codegen.math.functions import BINARY, UNARY
from weft.codegen.native import build
from weft.codegen.target import Target, host_target

Array = np.ndarray[Any, Any]


def kernel_module(name: str, bits: int, lanes: int, target: Target) -> Module:
    """`void kernel(ptr x, ptr y, ptr out, i64 n)`, n a multiple of `lanes`."""
    elem = F32 if bits == 32 else F64
    module = Module.for_target(target)
    f = module.function("kernel", params=[(PTR, "x"), (PTR, "y"), (PTR, "out"), (I64, "n")])
    x, y, out, n = f.params
    m = FloatMath(f, target.has_fma, target.has_scale)
    with f.loop(0, n, lanes) as loop:
        a, b = (f.load(vec(elem, lanes), f.gep(elem, p, loop.index)) for p in (x, y))
        result = UNARY[name](m, a) if name in UNARY else BINARY[name](m, a, b)
        f.store(result, f.gep(elem, out, loop.index))
    f.ret()
    return module


def kernel(name: str, bits: int, lanes: int = 0, target: Target | None = None) -> Callable[..., Array]:
    """The function `name` on arrays, in generated code of `lanes` lanes (0: one register)."""
    target = target or host_target()
    lanes = lanes or target.lanes(bits // 8)
    library = build(kernel_module(name, bits, lanes, target).text(), ["kernel"], target)
    address = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(library["kernel"])
    dtype = np.float32 if bits == 32 else np.float64

    def call(x: Array, y: Array | None = None) -> Array:
        count = -(-len(x) // lanes) * lanes
        ins = [np.ones(count, dtype), np.ones(count, dtype)]
        ins[0][: len(x)] = x
        if y is not None:
            ins[1][: len(x)] = y
        out = np.empty(count, dtype)
        address(ins[0].ctypes.data, ins[1].ctypes.data, out.ctypes.data, count)
        return out[: len(x)]

    call.library = library  # type: ignore[attr-defined]  # keeps the code mapped
    return call


def _each(f: Callable[..., float]) -> Callable[..., Array]:
    return lambda *xs: np.array([f(*map(float, p)) for p in zip(*xs, strict=True)], xs[0].dtype)


def _floordiv(x: Array, y: Array) -> Array:
    return np.where(y == 0, x / y, np.floor_divide(x, y))


def _erfinv_one(y: float) -> float:
    """Bisection and Newton's method on whichever of erf and erfc is small; good to about 2 ulp in double precision."""
    a = abs(y)
    if not a < 1:
        return math.copysign(math.inf, y) if a == 1 else math.nan
    x = 0.0 if a < 0.5 else math.sqrt(-math.log((1 - a) * (1 + a)))
    for _ in range(60):
        off = math.erf(x) - a if a < 0.5 else (1 - a) - math.erfc(x)
        step = off / (2 / math.sqrt(math.pi) * math.exp(-x * x))
        x -= step / (1 + x * step)
    return math.copysign(x, y)


def _sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-np.abs(x))))


TRUTH: dict[str, Callable[..., Array]] = {
    "round": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": _sigmoid, "erf": _each(math.erf),
    "erfc": _each(math.erfc), "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power, "floordiv": _floordiv,
    "truncdiv": lambda x, y: np.trunc(x / y), "erfinv": _each(_erfinv_one),
}
UNIT = ("asin", "acos", "atanh", "erfinv")
EXACT = ("fmod", "remainder", "floordiv", "truncdiv")


def samples(name: str, bits: int, count: int, rng: np.random.Generator) -> Array:
    """Inputs over the whole range of the function: uniform in value, in exponent, near 1, and the special ones."""
    dtype = np.dtype(f"f{bits // 8}")
    signs = rng.choice([-1.0, 1.0], count)
    top = 126 if bits == 32 else 1020
    reach = {"exp": 110, "exp2": 155, "expm1": 110, "sinh": 95, "cosh": 95, "sigmoid": 110}.get(name, 100)
    if bits == 64 and reach > 100:
        reach = 760 if name != "exp2" else 1090
    if name in UNIT:
        parts = [
            signs * rng.random(count),
            signs * (1 - np.exp2(-rng.uniform(1, bits - 10, count))),
            signs * np.exp2(-rng.uniform(0, 40, count)),
        ]
    else:
        parts = [
            signs * rng.uniform(0, reach, count),
            signs * rng.uniform(0, 3, count),
            signs * rng.uniform(0, 1e5, count),
            signs * np.exp2(rng.uniform(-top, top, count)),
            1 + signs * np.exp2(-rng.uniform(1, 23, count)),
        ]
    with np.errstate(all="ignore"):
        return np.concatenate([*(p.astype(dtype) for p in parts), special_values(bits)])


def special_values(bits: int) -> Array:
    """Zeros, infinities, NaN, the ends of the range, and numbers where functions have edges."""
    facts = np.finfo(f"f{bits // 8}")
    sizes = [0.0, 0.5, 1, 2, 3, np.inf, facts.smallest_subnormal, facts.tiny, facts.max, 1e5, 1e6, 2.0**24 + 2]
    return np.array([*sizes, *(-v for v in sizes), np.nan], facts.dtype)


def pairs(name: str, bits: int, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Inputs of a function of two numbers: random ones, and every pair of special ones."""
    x, y = samples(name, bits, count, rng), rng.permutation(samples(name, bits, count, rng))
    special = special_values(bits)
    return np.concatenate([x, np.repeat(special, len(special))]), np.concatenate([y, np.tile(special, len(special))])


def errors(name: str, bits: int, x: Array, y: Array | None, got: Array) -> tuple[float, int, Array]:
    """(largest error in ulp over finite nonzero results, special results that differ, where the largest is)."""
    dtype = np.dtype(f"f{bits // 8}")
    wide = np.float64 if bits == 32 else np.longdouble
    args = [a.astype(dtype if name in EXACT else wide) for a in (x, y) if a is not None]
    with np.errstate(all="ignore"):
        truth = TRUTH.get(name, getattr(np, name, None))(*args)  # type: ignore[misc]
        rounded = truth.astype(dtype)
        plain = np.isfinite(rounded) & np.isfinite(got)
        unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(dtype).tiny)).astype(wide)
        off = np.where(plain, np.abs(got.astype(wide) - truth) / unit, 0)
        signs = (
            (name not in ("maximum", "minimum"))
            & (rounded == 0)
            & (got == 0)
            & (np.signbit(rounded) != np.signbit(got))
            & (truth == 0)
        )
        # (which zero is greater, NumPy leaves open); one ulp below an overflow is not a special result gone wrong
        bad = signs | (~plain & ~((rounded == got) | (np.isnan(rounded) & np.isnan(got))))
    at = int(np.argmax(off))
    worst = int(np.argmax(bad)) if bad.any() else at
    return float(off[at]), int(bad.sum()), np.array([a[i] for i in (at, worst) for a in (x, y) if a is not None])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    rng = np.random.default_rng()
    print(f"{host_target().cpu}, {8 * host_target().vector_bytes} bits, fma {host_target().has_fma}")
    for name in [*UNARY, *BINARY]:
        for bits in (32, 64):
            per_item = name in ("erf", "erfc", "erfinv")
            amount = count // (10 if per_item else 1)
            x, y = pairs(name, bits, amount, rng) if name in BINARY else (samples(name, bits, amount, rng), None)
            worst, special, where = errors(name, bits, x, y, kernel(name, bits)(x, y))
            print(f"{name:10} f{bits} {worst:8.3f} ulp   special {special:5}   at {where.tolist()}")


if __name__ == "__main__":
    main()
