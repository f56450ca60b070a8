"""segment_reduce: reductions over runs of elements along a dim, each of a length of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.samples import Case, F
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim, same_dims
from weft.support.errors import NotForDType, ShapeError, Unsupported
from weft.types import dtype as dt

Array = Any
_REDUCTIONS = {
    "sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0), "max": ("amax", -np.inf), "min": ("amin", np.inf),
    "amax": ("amax", -np.inf), "amin": ("amin", np.inf),
}


def _segment_reduce(
    data: Any, reduce: str, lengths: Any, indices: Any, offsets: Any, axis: int, unsafe: bool, initial: Any
) -> Any:
    axis = normalize_dim("segment_reduce", axis, data.ndim)
    if reduce not in _REDUCTIONS:
        raise ShapeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if indices is not None:
        raise Unsupported("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise ShapeError("segment_reduce(): Either lengths or offsets must be defined.")
    if not data.dtype.is_floating_point:
        raise NotForDType(f'"_segment_reduce_cpu" not implemented for {data.dtype}')
    if lengths is None:
        lengths = aten.diff(offsets)
    if lengths.ndim != axis + 1 or not same_dims(lengths.dims[:-1], data.dims[:axis]):
        raise ShapeError("segment_reduce(): Expected lengths (or offsets) to have the dims of data up to axis.")
    rows, count = data.dims[axis], lengths.dims[-1]
    lengths = aten.to(lengths, dt.int64)
    if not unsafe:
        lengths = aten._checked_values(lengths, 0, None, "lengths contains negative value!")
        text = (
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )
        total = aten._checked_values(aten.sum(lengths, -1, True), rows, rows, text)
        lengths = lengths * aten.ge(total, 0)  # (nobody takes the lengths without the check)
    ends = aten.cumsum(lengths, -1)
    places = aten.expand(aten._iota(rows), (*lengths.dims[:-1], rows))
    segment = aten.searchsorted(ends, places, right=True)  # `count` behind the last one
    how, neutral = _REDUCTIONS[reduce]
    start = neutral if initial is None else initial
    after = data.dims[axis + 1 :]
    wide = aten.expand(aten.reshape(segment, (*segment.dims, *(1,) * len(after))), data.dims)
    out = aten.full((*data.dims[:axis], count + 1, *after), start, dtype=data.dtype)
    out = aten.narrow(aten.scatter_reduce(out, axis, wide, data, how), axis, 0, count)
    if reduce != "mean":
        return out
    sizes = lengths if initial is None else aten.clamp_min(lengths, 1)
    return out / aten.to(aten.reshape(sizes, (*sizes.dims, *(1,) * len(after))), data.dtype)


def _samples(rng: np.random.Generator) -> list[Case]:
    data = F(6, 3).draw(rng)
    return [
        ((data, "sum"), {"lengths": np.array([2, 0, 4])}),
        ((data, "max"), {"lengths": np.array([1, 5]), "initial": 0.5}),
        ((data, "mean"), {"lengths": np.array([[1, 2], [3, 0], [0, 3], [1, 2], [2, 1], [1, 2]]), "axis": 1,
                          "initial": 0.0}),
        ((data, "prod"), {"lengths": np.array([5, 1])}),
    ]  # fmt: skip


def _oracle(
    data: Array, reduce: str, lengths: Any, indices: Any, offsets: Any, axis: int, unsafe: bool, initial: Any
) -> Array:
    """Segment by segment."""
    lengths = np.diff(offsets) if lengths is None else lengths
    out = np.zeros((*lengths.shape, *data.shape[axis + 1 :]))
    step: Any = {"sum": np.sum, "mean": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[reduce]
    for at in np.ndindex(*lengths.shape[:-1]):
        ends = np.cumsum(lengths[at])
        for i, (length, end) in enumerate(zip(lengths[at], ends, strict=True)):
            neutral = _REDUCTIONS[reduce][1] if initial is None else initial
            first = np.full((1, *data.shape[axis + 1 :]), neutral)
            value = step(np.concatenate([first, data[at][end - length : end]]), 0)
            divisor = (length if initial is None else max(length, 1)) if reduce == "mean" else 1
            out[at][i] = value / divisor
    return out


for _name in ("segment_reduce", "_segment_reduce"):
    define(
        f"aten::{_name}(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, "
        "int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        "The sum, mean, prod, max or min of runs of elements along `axis`, whose lengths (or the places where they "
        "begin and end) are given: lengths [*data.shape[:axis], n] -> [..., n, ...]. Raises StateError where the "
        "lengths do not sum to the size of the dim, unless unsafe.",
        decompose=_segment_reduce,
        public=("weft",),
        samples=_samples,
        reference=_oracle,
    )
