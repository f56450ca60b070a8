"""Orthogonal polynomials at x, of degree n: Chebyshev's of four kinds, plain and shifted to [0, 1], Hermite's of two,
Laguerre's and Legendre's.

n is truncated; below 0 the value is 0. Recurrences of three terms (Abramowitz and Stegun 22.7), as PyTorch evaluates
them: Chebyshev's of higher degree by cosines within [-1, 1] (22.3.15, 22.3.16), exact values at the ends, and NaN for
Hermite's of a degree that overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.samples import Case
from weft.catalogue.special.cylinder_functions import takes_no_halves
from weft.ops.compute import type_of
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.types import dtype as dt

Array = Any
# the value of degree k, from x, k and those of degrees k - 1 and k - 2
Step = Callable[[Array, int, Array, Array], Array]
Value = Callable[[Array, Array], Array]
_FAR = 2.0**62  # an n beyond which it is no degree


def _climb(x: Array, n: Array, first: Array, step: Step) -> Array:
    """From degrees 0 and 1 (`first`) up to n, for n >= 0. NaN stays NaN."""
    below, value = np.ones_like(x), first
    out = np.where(n == 0, below, value)
    for k in range(2, int(n.max(initial=0)) + 1):
        below, value = value, step(x, k, value, below)
        out = np.where(n >= k, value, out)
        if np.isnan(value[n >= k]).all():
            break
    return out


def _doubled(x: Array, k: int, value: Array, below: Array) -> Array:
    return (x + x) * value - below


# ---- Chebyshev's: by cosines from a degree on, by the recurrence up to it


def _first_kind(n: Array, angle: Array, x: Array) -> Array:
    return np.cos(n * angle)


def _second_kind(n: Array, angle: Array, x: Array) -> Array:
    return np.sin((n + 1) * angle) / np.sin(angle)


def _third_kind(n: Array, angle: Array, x: Array) -> Array:
    return np.cos((n + 0.5) * angle) / np.cos(angle / 2)


def _fourth_kind(n: Array, angle: Array, x: Array) -> Array:
    return np.sin((n + 0.5) * angle) / np.sin(angle / 2)


# of each kind: the value of degree 1, at 1 and (but for its sign) at -1, the formula in cosines
_KINDS: dict[str, tuple[Value, Value, Value, Callable[[Array, Array, Array], Array], Any]] = {
    "t": (lambda x, n: x, lambda x, n: n * 0 + 1, lambda x, n: n * 0 + 1, _first_kind, "first"),
    "u": (lambda x, n: x + x, lambda x, n: n + 1, lambda x, n: n + 1, _second_kind, "second"),
    "v": (lambda x, n: x + x - 1, lambda x, n: n * 0 + 1, lambda x, n: n + n + 1, _third_kind, "third"),
    "w": (lambda x, n: x + x + 1, lambda x, n: n + n + 1, lambda x, n: n * 0 + 1, _fourth_kind, "fourth"),
}


def _chebyshev(kind: str, is_shifted: bool) -> Value:
    first, at_one, at_other_end, formula, _ = _KINDS[kind]
    # from which degree on PyTorch takes cosines
    limit = 6 if kind == "t" or (is_shifted and kind != "w") else 4 if is_shifted else 8

    def value(x: Array, n: Array) -> Array:
        places = x + x - 1 if is_shifted else x
        out = np.empty_like(x)
        at_end = np.abs(places) == 1
        by_cosines = (n > limit) & (np.abs(places) < 1)
        rest = ~(at_end | by_cosines)
        degree = n.astype(x.dtype)
        sign = np.where((places < 0) & (n % 2 == 1), -1, 1)
        ends = np.where(places > 0, at_one(places, degree), sign * at_other_end(places, degree))
        out[at_end] = ends[at_end]
        inside = places[by_cosines]
        out[by_cosines] = formula(degree[by_cosines], np.arccos(inside), inside)
        out[rest] = _climb(places[rest], n[rest], first(places[rest], n[rest]), _doubled)
        return out

    return value


# ---- the others


def _hermite(is_physical: bool) -> Value:
    def value(x: Array, n: Array) -> Array:
        limit = 128 if x.dtype == np.float32 else 512
        step: Step = (
            (lambda x, k, value, below: (x + x) * value - (2 * k - 2) * below) if is_physical else
            (lambda x, k, value, below: x * value - (k - 1) * below)
        )
        out = _climb(x, np.minimum(n, limit), x + x if is_physical else x, step)
        return np.where(n > limit, np.asarray(np.nan, x.dtype), out)

    return value


def _laguerre(x: Array, n: Array) -> Array:
    step: Step = lambda x, k, value, below: ((2 * k - 2 + (1 - x)) * value - (k - 1) * below) / k  # noqa: E731
    return np.where(x == 0, np.ones_like(x), _climb(x, np.where(x == 0, 0, n), 1 - x, step))


def _legendre(x: Array, n: Array) -> Array:
    step: Step = lambda x, k, value, below: ((2 * k - 1) * x * value - (k - 1) * below) / k  # noqa: E731
    is_end = np.abs(x) == 1
    ends = np.where((x < 0) & (n % 2 == 1), -np.ones_like(x), np.ones_like(x))
    return np.where(is_end, ends, _climb(x, np.where(is_end, 0, n), x, step))


# ---- entries


def _of_any_degree(value: Value, x: Array, n: Array) -> Array:
    with np.errstate(all="ignore"):
        # what is no number is no degree
        degree = np.trunc(np.where(np.abs(n) < _FAR, n, -1)).astype(np.int64)
        x, degree = (np.array(a) for a in np.broadcast_arrays(x, degree))
        return np.where(degree < 0, np.zeros_like(x), value(x, np.maximum(degree, 0)))


def _samples(rng: np.random.Generator) -> list[Case]:
    return [
        ((rng.uniform(-1.5, 1.5, (3, 4)), rng.integers(-1, 12, 4)), {}),
        ((rng.uniform(0.1, 0.9, 5), int(rng.integers(2, 9))), {}),
    ]


def _define(name: str, doc: str, value: Value, reference: Value) -> None:
    schema = parse_schema(f"aten::special_{name}(Tensor x, Tensor n) -> Tensor")
    rule = Pointwise(
        schema, compute=lambda d: d if d.is_floating_point else dt.get_default(), accepts=takes_no_halves,
        wants="real numbers of at least single precision",
    )

    def kernel(x: Any, n: Any) -> Array:
        target = rule.promoted(tuple(type_of(a) if isinstance(a, np.ndarray) else a for a in (x, n)))
        dtype = target.numpy if target.is_floating_point else dt.get_default().numpy
        return np.asarray(_of_any_degree(value, np.asarray(x, dtype), np.asarray(n, dtype)), dtype)

    define(
        schema, doc, type=rule, kernel=kernel, vjp=NOT_DIFFERENTIABLE, out=True, numbers=True, number_first=True,
        public=("special",), samples=_samples,
        reference=lambda x, n: np.where(np.asarray(n) < 0, 0.0, reference(x, np.maximum(n, 0))),
    )


def _powers(kind: str, is_shifted: bool) -> Value:
    """An oracle: of the two w with w + 1/w = 2 x, the second kind is the sum of w**n, w**(n - 2), ... w**-n, and the
    others are made of it (22.5.6 and 22.5.7)."""
    def reference(x: Array, n: Array) -> Array:
        x, n = np.broadcast_arrays(np.asarray(x, np.float64), n)
        x = 2 * x - 1 if is_shifted else x
        w = x + np.sqrt(x * x - 1 + 0j)

        def second(degree: Array) -> Array:
            return sum(np.where(k <= degree, w ** (degree - 2.0 * k), 0).real for k in range(int(n.max()) + 1))

        if kind == "t":
            return ((w ** (n * 1.0) + w ** (n * -1.0)) / 2).real
        return second(n) + {"u": 0, "v": -1, "w": 1}[kind] * second(n - 1)

    return reference


def _series(evaluate: Callable[..., Array]) -> Value:
    """An oracle: NumPy's sum of a series of which one coefficient is 1."""
    def reference(x: Array, n: Array) -> Array:
        x, n = np.broadcast_arrays(x, n)
        values = [evaluate(v, [0] * int(k) + [1]) for v, k in zip(x.ravel(), n.ravel(), strict=True)]
        return np.array(values, np.float64).reshape(x.shape)

    return reference


for _kind, (*_, _words) in _KINDS.items():
    for _prefix in ("", "shifted_"):
        _define(
            f"{_prefix}chebyshev_polynomial_{_kind}",
            f"Chebyshev's polynomial of the {_words} kind of degree n"
            + (", shifted from [-1, 1] to [0, 1]." if _prefix else "."),
            _chebyshev(_kind, bool(_prefix)), _powers(_kind, bool(_prefix)),
        )
_define(
    "hermite_polynomial_h", "Hermite's polynomial of degree n, orthogonal under exp(-x**2).", _hermite(True),
    _series(lambda v, c: np.polynomial.hermite.hermval(v, c)),
)
_define(
    "hermite_polynomial_he", "Hermite's polynomial of degree n, orthogonal under exp(-x**2 / 2).", _hermite(False),
    _series(lambda v, c: np.polynomial.hermite_e.hermeval(v, c)),
)
_define(
    "laguerre_polynomial_l", "Laguerre's polynomial of degree n.", _laguerre,
    _series(lambda v, c: np.polynomial.laguerre.lagval(v, c)),
)
_define(
    "legendre_polynomial_p", "Legendre's polynomial of degree n.", _legendre,
    _series(lambda v, c: np.polynomial.legendre.legval(v, c)),
)
