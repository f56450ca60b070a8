"""The logarithm of |gamma| beside its zeros between -18 and -2, with full relative precision.

Reflection takes the difference of two logarithms there, which keeps an absolute precision alone. Of a zero x0 that is
known to twice the precision, each of the two differences is small, and is computed as such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.types import dtype as dt

# The zeros, one in each half unit from -2 downwards, as sums of two numbers. (Lower ones lie closer to a pole than
# float64 has numbers.)
_ZEROS = (
    (-2.4570247382208006, -3.7075610815513266e-17),
    (-2.7476826467274127, 9.055340329338315e-17),
    (-3.14358088834998, -2.1818179852331714e-16),
    (-3.955294284858598, -1.999428391746348e-17),
    (-4.039361839740537, 2.1143995503980602e-16),
    (-4.991544640560048, 1.5174411760571722e-16),
    (-5.0082181683225935, -4.3926353491015815e-17),
    (-5.998607480080875, -3.311862478893795e-16),
    (-6.001385294453155, 6.415847287933042e-17),
    (-6.999801507890638, 1.0550130037400023e-17),
    (-7.000198333407325, 2.504354173632409e-16),
    (-7.999975197095821, -5.261737128572354e-17),
    (-8.000024800270682, -4.354586297860107e-16),
    (-8.999997244250977, -2.2185620509727132e-16),
    (-9.000002755714823, -9.491348611623208e-17),
    (-9.99999972442663, 4.883037618642443e-16),
    (-10.000000275573013, -3.4909708332642057e-16),
    (-10.99999997494789, 1.9843998306985407e-16),
    (-11.000000025052106, -6.850849812286175e-16),
    (-11.999999997912324, -1.0020693920103036e-16),
    (-12.000000002087676, 1.2222548112048185e-16),
    (-12.99999999983941, 6.747262033096337e-16),
    (-13.00000000016059, -6.745919484964342e-16),
    (-13.99999999998853, 8.094860741926607e-16),
    (-14.00000000001147, -8.094853704222662e-16),
    (-14.999999999999236, 8.82932241476868e-16),
    (-15.000000000000764, -8.829322382710274e-16),
    (-15.999999999999952, -1.668613399265054e-16),
    (-16.000000000000046, -1.6094954994609367e-15),
    (-16.999999999999996, -7.412564244549576e-16),
    (-17.000000000000004, 7.412564244550028e-16),
    (-18.0, 1.5619206968586233e-16),
)
_STEPS = 5  # of the recurrence from 3, to where the asymptotic series is exact


def _number(s: Any, value: float) -> Any:
    return s.const(float(value), dt.float64)


def _nearest_zero(s: Any, v: Any) -> tuple[Any, Any]:
    """The zero in the same half unit as v, in two parts: a tree of choices by the bits of its place."""
    count = len(_ZEROS)
    place = s.cast(
        s.maximum(s.minimum(s.sub(s.mul(v, _number(s, -2)), _number(s, 4)), _number(s, count - 0.5)), _number(s, 0)),
        dt.int64,
    )
    parts = [[_number(s, zero[part]) for zero in _ZEROS] for part in (0, 1)]
    bit = 1
    while bit < count:
        is_odd = s.ne(s.bit_and(place, s.const(bit, dt.int64)), s.const(0, dt.int64))
        parts = [[s.where(is_odd, b, a) for a, b in zip(row[::2], row[1::2], strict=True)] for row in parts]
        bit *= 2
    return parts[0][0], parts[1][0]


def lgamma_beside_zeros(s: Any, v: Any, cotangent: Any, coefficients: Sequence[float]) -> Any:
    """lgamma(v) for v in (-18, -2) where it is not large. cotangent: of pi v; coefficients: those of Stirling's series.

    With d = v - x0, y = 1 - v: log(sin(pi x0) / sin(pi v)), by the sine of a difference, and
    lgamma(y + d) - lgamma(y), by the recurrence and by the difference of Stirling's series, term for term.
    """
    high, low = _nearest_zero(s, v)
    d = s.sub(s.sub(v, high), low)
    angle = s.mul(d, _number(s, math.pi))
    half = s.sin(s.mul(angle, _number(s, 0.5)))
    turned = s.add(s.mul(s.mul(half, half), _number(s, 2)), s.mul(cotangent, s.sin(angle)))
    y = s.sub(_number(s, 1), v)
    grown = _number(s, 0)  # the product of 1 + d / (y + k), less 1
    for k in range(_STEPS):
        share = s.div(d, s.add(y, _number(s, k)))
        grown = s.add(s.add(grown, share), s.mul(grown, share))
    far = s.add(y, _number(s, _STEPS))
    further = s.add(far, d)
    u, u0 = s.div(_number(s, 1), far), s.div(_number(s, 1), further)
    # u0**(2k - 1) - u**(2k - 1) is u0 - u times a sum of products, which grows by two powers from term to term
    sums, power, terms = _number(s, 1), u, [_number(s, 1)]
    for _ in coefficients[1:]:
        for _ in range(2):
            sums = s.add(s.mul(sums, u0), power)
            power = s.mul(power, u)
        terms.append(sums)
    tail = _number(s, 0)
    for term, coefficient in zip(reversed(terms), reversed(coefficients), strict=True):
        tail = s.add(tail, s.mul(term, _number(s, coefficient)))
    tail = s.mul(tail, s.neg(s.mul(s.mul(d, u), u0)))
    stirling = s.add(
        s.mul(s.sub(far, _number(s, 0.5)), s.log1p(s.mul(d, u))), s.mul(d, s.sub(s.log(further), _number(s, 1)))
    )
    ratio = s.neg(s.div(s.add(turned, grown), s.add(grown, _number(s, 1))))
    return s.add(s.add(stirling, tail), s.log1p(ratio))
