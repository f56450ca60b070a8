"""Axes that every access walks as one are one loop."""

from __future__ import annotations

from collections.abc import Sequence

from weft.types import shape_env
from weft.types.dims import Dim


def is_broadcast(d: Dim, size: Dim) -> bool:
    """Whether a dim of an operand is a 1 that stands for every index of the axis."""
    if isinstance(d, int):
        return d == 1
    return d != size and not shape_env.equal(d, size) and shape_env.equal(d, 1)


def walked(stride: Dim, size: Dim) -> Dim:
    """The stride along a dim. A dim of no elements is walked in any case: what does not vary along an axis is read
    before its loop begins, and there is nothing to read."""
    return 1 if isinstance(size, int) and size == 0 else stride


def is_adjacent(outer: Dim, inner: Dim, size: Dim) -> bool:
    """Whether an access walks two axes as one: a step of the outer is the inner axis from end to end."""
    if isinstance(inner, int) and inner == 0:
        return isinstance(outer, int) and outer == 0
    joined = inner * size
    return outer == joined or shape_env.equal(outer, joined)


def coalesce(
    axes: list[int], space: Sequence[Dim], strides: list[tuple[Dim, ...]]
) -> tuple[list[Dim], list[list[Dim]]]:
    """Join neighbouring axes that every access walks as one."""
    kept: list[int] = []
    sizes: list[Dim] = []
    for axis in axes:
        previous = kept[-1] if kept else None
        if previous is not None and all(is_adjacent(s[previous], s[axis], space[axis]) for s in strides):
            kept[-1], sizes[-1] = axis, sizes[-1] * space[axis]
            continue
        kept.append(axis)
        sizes.append(space[axis])
    return sizes, [[s[a] for a in kept] for s in strides]


def joins(
    outer_sizes: list[Dim], inner_sizes: list[Dim], outer: list[list[Dim]], inner: list[list[Dim]]
) -> bool:
    """Whether the inner axes and the last of the outer ones are one loop for every access."""
    return (
        len(inner_sizes) == 1
        and all(is_adjacent(o[0], i[0], inner_sizes[0]) for o, i in zip(outer, inner, strict=False))
    )
