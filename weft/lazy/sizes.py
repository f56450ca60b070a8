"""Where numbers of a call come from. A view's sizes are mostly its operand's, taken apart or multiplied. A program that
knows them so has fewer inputs, and its kernels know more; a call where they are others has a program of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from weft.types.dims import Dim, Expr, product
from weft.types.shape_env import ShapeEnv

MOST_FACTORS = 4


def sizes_from(numbers: Sequence[int], dims: Sequence[Dim], env: ShapeEnv) -> list[Dim | None]:
    """For each number of a list what it is in terms of an operand's dims; None where they do not say."""
    values = [env.hint(d) for d in dims]
    numbers = _inferred(numbers, values)
    if math.prod(numbers) == math.prod(values) != 0:
        return _regrouped(numbers, dims, values, env)
    matched: list[Dim | None] = [None] * len(numbers)
    for back in range(1, min(len(numbers), len(dims)) + 1):  # as in broadcasting, dims are counted from the last one
        if numbers[-back] == values[-back]:
            matched[-back] = dims[-back]
    return matched


def size_from(number: int, size: Dim, env: ShapeEnv) -> Dim | None:
    """The number of a call about one dim of a size (a place in it, or a length): as of a list."""
    if env.hint(size) == number:
        return size
    return number if type(size) is int else None


def _inferred(numbers: Sequence[int], values: Sequence[int]) -> list[int]:
    """With the size in place of -1."""
    rest = math.prod([n for n in numbers if n != -1])
    whole = math.prod(values)
    return [whole // rest if n == -1 and rest and not whole % rest else n for n in numbers]


def _regrouped(numbers: Sequence[int], dims: Sequence[Dim], values: Sequence[int], env: ShapeEnv) -> list[Dim | None]:
    """Of a reshape: runs of dims become runs of sizes with the same product."""
    regrouped: list[Dim | None] = [None] * len(numbers)
    i = j = 0
    while i < len(dims) and j < len(numbers):
        first, start, left, right = i, j, values[i], numbers[j]
        while left != right:
            if left < right:
                i += 1
                left *= values[i]
            else:
                j += 1
                right *= numbers[j]
        i, j = i + 1, j + 1
        regrouped[start:j] = _shared_out(numbers[start:j], product(dims[first:i]), env)
    return regrouped


def _shared_out(numbers: Sequence[int], whole: Dim, env: ShapeEnv) -> list[Dim | None]:
    """The factors of a product, shared out among numbers with that product."""
    if type(whole) is int:
        return list(numbers)
    if len(numbers) == 1:
        return [whole]
    assert isinstance(whole, Expr)
    if len(whole.terms) > 1 or len(whole.terms[0][0]) > MOST_FACTORS:
        return [None] * len(numbers)
    atoms, factor = whole.terms[0]
    factors = _first_fit(numbers, [Expr({(a,): 1}) for a in atoms], factor, env)
    return [None] * len(numbers) if factors is None else [*factors]


def _first_fit(numbers: Sequence[int], symbols: Sequence[Dim], factor: int, env: ShapeEnv) -> list[Dim] | None:
    if not numbers:
        return None if symbols or factor != 1 else []
    for count in range(len(symbols), -1, -1):
        for taken in combinations(range(len(symbols)), count):
            size = product([symbols[i] for i in taken])
            times, rest = divmod(numbers[0], env.hint(size))
            if rest or not times or factor % times:
                continue
            left = [s for i, s in enumerate(symbols) if i not in taken]
            others = _first_fit(numbers[1:], left, factor // times, env)
            if others is not None:
                return [size * times, *others]
    return None
