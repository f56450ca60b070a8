"""The values of some examples, for a block that only they run, and their way back into the values of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.batching import masks
from weft.batching.padding import (
    fitted,
    forget_clean,
    gathered,
    keeps_history,
    lengths_of,
    selected_rows,
    sized,
)
from weft.batching.rows import Rows, index_tensor
from weft.batching.values import Examples, Lengths, Link, MaskLink, PerExample, differs, in_form, of_example
from weft.jit.interpreter.recording.values import UNSET
from weft.ops.packet import aten
from weft.support.errors import DTypeError, ShapeError
from weft.tensor.tensor import Tensor

Piece = tuple[Rows, Any]


# ---- into a block
def taken(value: Any, rows: Rows) -> Any:
    """What the rows have of a value."""
    if rows.is_all:
        return value
    if type(value) is Examples:
        return _examples(value, rows)
    if type(value) is PerExample:
        return gathered_plainly([value.values[r] for r in rows.indices])
    if isinstance(value, (tuple, list)) and differs(value):
        return in_form(value, [taken(part, rows) for part in value])
    if isinstance(value, dict) and differs(value):
        return {k: taken(v, rows) for k, v in value.items()}
    return value


def gathered_plainly(values: Sequence[Any]) -> Any:
    """Python's values of examples as one; tensors within lists stay the examples'."""
    return gathered(values, keeps_lists=True)


def _examples(value: Examples, rows: Rows) -> Examples:
    version = value.data._version
    cached = value._selected
    if cached is not None and cached[0] == rows and cached[1] == version:
        return cached[2]
    lengths = tuple([None if n is None else n[list(rows.indices)] for n in value.lengths])
    selected = sized(selected_rows(value.data, rows.indices), lengths)
    value.note_taker(selected, Link(value, rows.indices, tuple(range(len(rows)))))
    if keeps_history(value.data):
        value._selected = (rows, version, selected)
    return selected


def written_back(value: Examples) -> None:
    """After a write: the values of which this one has rows get it too."""
    forget_clean(value)
    if any(isinstance(link, MaskLink) for link in value.root.links):
        return masks.written_back(value)
    root = value.root
    for source, there, here in root.links:
        data = root.data if len(here) == root.size else selected_rows(root.data, here)
        cached = source._selected
        source.data.index_copy_(0, index_tensor(there), fitted(data, source.data.shape[1:]))
        written_back(source)
        _refresh_takers(source.root, root)
        if cached is not None and cached[2] is root:  # what was taken is what there is now
            source._selected = (cached[0], source.data._version, root)


def _refresh_takers(root: Examples, written: Examples) -> None:
    """What else has rows of the memory that was written to, by way of another view, has them as they are now."""
    for ref in root.takers:
        taker = ref()
        if taker is not None and taker is not written:
            source, there, _ = taker.links[0]
            taker.data = fitted(selected_rows(source.data, there), taker.data.shape[1:])
            forget_clean(taker)


# ---- out of it
def put(self: Any, rows: Rows, value: Any) -> Any:
    """A value with what the rows have now."""
    if rows.is_all:
        return value
    if isinstance(value, Examples) and _source_of(value, rows) is self:
        return self
    inside = set(rows.indices)
    rest = Rows(tuple([row for row in range(rows.count) if row not in inside]), rows.count)
    return merged([(rows, value), (rest, taken(self, rest))])


def merged(pieces: Sequence[Piece]) -> Any:
    """One value of those that the rows of several blocks gave. Rows that none gave have no value that is read.
    Raises ShapeError, DTypeError where the blocks' tensors cannot be one.
    """
    present = [(rows, value) for rows, value in pieces if value is not UNSET and len(rows)]
    if not present:
        return UNSET
    first = present[0][1]
    source = _common_source(present)
    if source is not None:
        return source
    if len(present) == 1 and (present[0][0].is_all or not differs(first)):
        return first
    values = [value for _, value in present]
    if all(value is first for value in values) and not differs(first):
        return first
    if all(isinstance(value, (Examples, Tensor)) for value in values):
        return _merged_tensors(present)
    if isinstance(first, (tuple, list)) and all(type(v) is type(first) and len(v) == len(first) for v in values):
        return in_form(
            first, [merged([(rows, value[i]) for rows, value in present]) for i in range(len(first))]
        )
    return _merged_plainly(present)


def _common_source(pieces: Sequence[Piece]) -> Examples | None:
    """What all rows still have of one value, which has what they wrote into it: that value."""
    sources = {id(source): source for source in (_source_of(value, rows) for rows, value in pieces)}
    return sources.popitem()[1] if len(sources) == 1 else None


def _source_of(value: Any, rows: Rows) -> Examples | None:
    """The value from which these rows were taken."""
    if not isinstance(value, Examples) or len(value.links) != 1 or value.links[0].there != rows.indices:
        return None
    source = value.links[0].source
    return source if source.size == rows.count and len(value.links[0].here) == value.size else None


def _merged_plainly(pieces: Sequence[Piece]) -> Any:
    count = pieces[0][0].count
    values: list[Any] = [UNSET] * count
    for rows, value in pieces:
        for at, row in enumerate(rows.indices):
            values[row] = of_example(value, at)
    filler = next(value for value in values if value is not UNSET)
    return gathered_plainly([filler if value is UNSET else value for value in values])


def _merged_tensors(pieces: Sequence[Piece]) -> Examples:
    parts = [_as_examples(rows, value) for rows, value in pieces]
    _check_alike(parts)
    count = pieces[0][0].count
    places = [row for rows, _ in pieces for row in rows.indices]
    at_row = {row: at for at, row in enumerate(places)}
    order = [at_row.get(row, 0) for row in range(count)]
    lengths = _joined(parts, order)
    dims = [max(sizes) for sizes in zip(*(part.data.shape[1:] for part in parts), strict=True)]
    whole = aten.cat(tuple([fitted(part.data, dims) for part in parts]), 0)
    in_order = order == list(range(count)) and len(places) == count
    examples = sized(whole if in_order else selected_rows(whole, order), lengths)
    examples.links = tuple([
        Link(part, tuple(range(len(rows))), rows.indices) for (rows, _), part in zip(pieces, parts, strict=True)
        if part.root.links
    ])
    return examples


def _as_examples(rows: Rows, value: Examples | Tensor) -> Examples:
    if isinstance(value, Examples):
        return value
    return Examples(aten.expand(aten.unsqueeze(value, 0), (len(rows), *value.shape)))


def _check_alike(parts: Sequence[Examples]) -> None:
    ranks, dtypes = sorted({p.ndim for p in parts}), {p.dtype for p in parts}
    if len(ranks) > 1:
        raise ShapeError(
            f"batch: the examples give tensors of {' and '.join(map(str, ranks))} dims, by the ways that they take; "
            "give them one rank"
        )
    if len(dtypes) > 1:
        raise DTypeError(
            f"batch: the examples give tensors of {' and '.join(sorted(d.name for d in dtypes))}, by the ways that "
            "they take; convert them to one dtype"
        )


def _joined(parts: Sequence[Examples], order: Sequence[int]) -> Lengths:
    """The lengths of merged examples: known to differ where they did in a part, or do now."""
    if not any(part.is_ragged for part in parts) and len({part.dims for part in parts}) == 1:
        return (None,) * parts[0].ndim
    every = [part.dims_of(at) for part in parts for at in range(part.size)]
    shapes = [every[at] for at in order]
    lengths = list(lengths_of(shapes))
    for dim in range(len(lengths)):
        if lengths[dim] is None and any(part.lengths[dim] is not None for part in parts):
            lengths[dim] = np.array([shape[dim] for shape in shapes], np.int64)
    return tuple(lengths)
