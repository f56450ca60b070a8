"""Operands that lie in memory in many ways, as text: permuted (channels innermost too), with gaps, repeated,
overlapping, of fewer dims, and broadcast."""

from __future__ import annotations

import numpy as np

Rng = np.random.Generator


def draw_operand(rng: Rng, dims: tuple[int, ...], is_full: bool = False) -> str:
    """A tensor of ones that broadcasts to these dims, or has them; `ones` makes it."""
    own = [n if is_full or rng.random() < 0.8 else 1 for n in dims]
    own = own[int(rng.integers(len(own))) if not is_full and rng.random() < 0.2 else 0 :]
    kinds = ["rows", "order", "gaps", "repeated", "both", "last", "overlapping"]
    kind = str(rng.choice(kinds, p=[0.2, 0.2, 0.15, 0.1, 0.15, 0.1, 0.1]))
    if kind == "rows":
        return f"ones({tuple(own)})"
    if kind == "repeated":
        kept = int(rng.integers(len(own)))
        return f"ones({tuple(1 if i == kept else n for i, n in enumerate(own))}).expand({tuple(own)})"
    if kind == "overlapping":
        strides = tuple(int(s) for s in rng.integers(1, 4, len(own)))
        memory = 1 + sum((n - 1) * s for n, s in zip(own, strides, strict=True))
        return f"ones(({memory},)).as_strided({tuple(own)}, {strides})"
    every = ", ".join(["::2"] * len(own))
    if kind == "gaps":
        return f"ones({tuple(2 * n for n in own)})[{every}]"
    order = [int(i) for i in rng.permutation(len(own))]
    if kind == "last":
        order = sorted(range(len(own)), key=lambda i: (i == 1, i))
    packed = tuple(own[i] * (2 if kind == "both" else 1) for i in order)
    made = f"ones({packed})[{every}]" if kind == "both" else f"ones({packed})"
    return f"{made}.permute({tuple(order.index(i) for i in range(len(own)))})"


def joint_order(dims: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The strides of a result, by PyTorch's rule told anew: dims are inserted one after another, from the last to the
    first; the first operand that has strides for both of two dims says which is the outer one.
    """
    inner_first: list[int] = []
    for dim in reversed(range(len(dims))):
        at = len(inner_first)
        for place in reversed(range(len(inner_first))):
            verdict = _outer(inner_first[place], dim, dims, strides)
            if verdict is None:
                continue
            if not verdict:
                break
            at = place
        inner_first.insert(at, dim)
    found, step = [0] * len(dims), 1
    for dim in inner_first:
        found[dim], step = step, step * dims[dim]
    return tuple(found)


def _outer(a: int, b: int, dims: tuple[int, ...], strides: list[tuple[int, ...]]) -> bool | None:
    """Whether dim a lies outside dim b."""
    for of in strides:
        if of[a] and of[b] and of[a] != of[b]:
            return of[a] > of[b]
        if of[a] and of[b] and dims[a] > dims[b]:
            return True
    return None
