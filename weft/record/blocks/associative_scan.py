"""associative_scan: running results of an associative function along a dim, in a logarithm of its length of rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.packet import aten
from weft.support import pytree
from weft.support.errors import ArgumentError, ShapeError
from weft.tensor.tensor import Tensor

Combine = Callable[[list[Tensor], list[Tensor]], list[Tensor]]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """For each place along `dim`: what combine_fn makes of all elements up to it, from the left (from the right if
    reverse). xs: tensors of one length along dim, in any containers; combine_fn takes two such containers of slices.
    combine_mode: PyTorch's, which changes nothing here. Raises ArgumentError, ShapeError.

    Source: Blelloch 1990, Prefix sums and their applications.
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ArgumentError(f"associative_scan: combine_mode must be pointwise or generic, got {combine_mode!r}")
    leaves, spec = pytree.flatten(xs)
    if not leaves or not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise ArgumentError("associative_scan: xs must have at least one leaf, and all must be tensors")
    if len({leaf.shape[dim] for leaf in leaves}) > 1:
        raise ShapeError("associative_scan: the tensors of xs have different lengths along dim")

    def combine(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        results, kind = pytree.flatten(combine_fn(pytree.unflatten(a, spec), pytree.unflatten(b, spec)))
        if len(results) != len(leaves):
            raise ArgumentError(f"associative_scan: combine_fn gives {kind!r} where xs is {spec!r}")
        return list(results)

    rows = [aten.movedim(aten.flip(leaf, (dim,)) if reverse else leaf, dim, 0) for leaf in leaves]
    scanned = [aten.movedim(leaf, 0, dim) for leaf in _scanned(combine, rows)]
    return pytree.unflatten([aten.flip(leaf, (dim,)) for leaf in scanned] if reverse else scanned, spec)


def _scanned(combine: Combine, rows: list[Tensor]) -> list[Tensor]:
    """Pairs first, then the scan of the pairs, then the places between them."""
    length = rows[0].shape[0]
    if length < 2:
        return rows
    even, odd = [r[:-1:2] for r in rows], [r[1::2] for r in rows]
    at_odd = _scanned(combine, combine(even, odd))
    before, rest = (at_odd if length % 2 else [r[:-1] for r in at_odd]), [r[2::2] for r in rows]
    at_even = combine(before, rest) if length > 2 else rest
    return [
        _interleaved(aten.cat([r[:1], e], 0), o) for r, e, o in zip(rows, at_even, at_odd, strict=True)
    ]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    count = odd.shape[0]
    both = aten.flatten(aten.stack([even[:count], odd], 1), 0, 1)
    whole: Tensor = aten.cat([both, even[count:]], 0)
    return whole
