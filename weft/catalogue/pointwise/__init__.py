"""Element by element: operands broadcast, and their dtypes are promoted.

arithmetic.py (sums, products, remainders), math.py (powers, exponentials, trigonometry, rounding), comparison.py
(comparison, logic, bits), choice.py (where, clamp, copy), casts.py, complex.py, number_parts.py (frexp, gcd).
"""

from weft.catalogue.pointwise import arithmetic, casts, choice, comparison, complex, math, number_parts  # noqa: F401
