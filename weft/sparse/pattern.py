"""Pattern: where the values of a sparse tensor are; and the arithmetic of places, with operators."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.tensor.tensor import Tensor
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import formats
from weft.types.dims import Dim
from weft.types.formats import layout as Layout


class Pattern:
    """Where the values of a sparse tensor are.

    COO: `first` holds the indices [sparse dims, nnz]. CSR and CSC: `first` [..., n + 1] says where each row (column)
    begins among the values, `second` [..., nnz] holds the columns (rows).
    is_coalesced: whether the places are sorted and each is there once (always, in a compressed layout).
    """

    __slots__ = ("count", "dims", "first", "is_coalesced", "layout", "second")

    def __init__(
        self, layout: Layout, dims: tuple[Dim, ...], first: Tensor, second: Tensor | None = None,
        is_coalesced: bool = True, count: int | None = None,
    ) -> None:
        self.count = count  # of dims with indices, where `first` has a symbol there
        self.layout, self.dims, self.first, self.second, self.is_coalesced = layout, dims, first, second, is_coalesced

    @property
    def is_coo(self) -> bool:
        """Whether places are coordinates."""
        return self.layout is formats.sparse_coo

    @property
    def sparse_dim(self) -> int:
        """How many dims have indices."""
        if not self.is_coo:
            return 2
        rows = self.first.dims[0]
        if type(rows) is int:
            return rows
        assert self.count is not None
        return self.count

    @property
    def batch_dim(self) -> int:
        """How many dims in front hold matrices of the same number of values (compressed layouts)."""
        return 0 if self.is_coo else self.first.ndim - 1

    @property
    def dense_dim(self) -> int:
        """How many dims at the end every value has."""
        return len(self.dims) - self.sparse_dim - self.batch_dim

    @property
    def sparse_dims(self) -> tuple[Dim, ...]:
        """The sizes of the dims with indices."""
        return self.dims[self.batch_dim : self.batch_dim + self.sparse_dim]

    @property
    def dense_dims(self) -> tuple[Dim, ...]:
        """The sizes of a value."""
        return self.dims[self.batch_dim + self.sparse_dim :]

    def is_same(self, other: Pattern) -> bool:
        """Whether two patterns are certainly equal: they hold the same tensors."""
        return self.layout is other.layout and self.first is other.first and self.second is other.second

    def replaced(self, **fields: Any) -> Pattern:
        """The pattern with other fields."""
        return Pattern(**{**{name: getattr(self, name) for name in self.__slots__}, **fields})


# ---- one number for each place
def keys_of(indices: Tensor, sizes: tuple[Dim, ...]) -> Tensor:
    """Coordinates [dims, n] as row-major numbers [n]."""
    if len(sizes) == 1:
        return aten.select(indices, 0, 0)  # type: ignore[no-any-return]
    if not sizes:
        return aten.new_zeros(indices, (indices.dims[1],), dtype=dt.int64)  # type: ignore[no-any-return]
    key = aten.select(indices, 0, 0)
    for i, size in enumerate(sizes[1:], 1):
        key = aten.add(aten.mul(key, size), aten.select(indices, 0, i))
    return key  # type: ignore[no-any-return]


def indices_of(keys: Tensor, sizes: tuple[Dim, ...]) -> Tensor:
    """keys_of, backwards: [n] -> [dims, n]."""
    if not sizes:
        return aten.new_zeros(keys, (0, keys.dims[0]))  # type: ignore[no-any-return]
    rows: list[Tensor] = []
    for size in reversed(sizes[1:]):
        size = dm.maximum(size, 1)
        rows.append(aten.remainder(keys, size))
        keys = aten.floor_divide(keys, size)
    return aten.stack((keys, *reversed(rows)))  # type: ignore[no-any-return]


def counting(count: Dim, like: Tensor) -> Tensor:
    """0, 1, 2, ... below a count, on the device of a tensor."""
    return aten.arange(count, device=like.device)  # type: ignore[no-any-return]


# ---- compressed and coordinates
def expanded(starts: Tensor, count: Dim) -> Tensor:
    """For each of `count` values the row that it is in, from where the rows start [n + 1]."""
    starts = _as_int64(starts)
    return aten.sub(aten.searchsorted(starts, counting(count, starts), right=True), 1)  # type: ignore[no-any-return]


def compressed(rows: Tensor, count: Dim) -> Tensor:
    """Where each of `count` rows starts, from the sorted rows of values."""
    return aten.searchsorted(rows, counting(count + 1, rows))  # type: ignore[no-any-return]


def starts_of_rows(input: Tensor, size: Dim, *, out_int32: bool = False) -> Tensor:
    """Where each of `size` rows starts [size + 1], from the sorted rows of values [n]. (PyTorch's
    `_convert_indices_from_coo_to_csr`.)"""
    return aten._to_copy(compressed(input, size), dt.int32 if out_int32 else dt.int64)  # type: ignore[no-any-return]


def rows_and_columns(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Coordinates [2, n] from where rows start and the columns of values; transpose: columns first. (PyTorch's
    `_convert_indices_from_csr_to_coo`.)"""
    pair = [expanded(crow_indices, col_indices.dims[0]), _as_int64(col_indices)]
    stacked = aten.stack(tuple(pair[::-1] if transpose else pair))
    return aten._to_copy(stacked, dt.int32) if out_int32 else stacked  # type: ignore[no-any-return]


def _as_int64(index: Tensor) -> Tensor:
    return index if index.dtype is dt.int64 else aten._to_copy(index, dt.int64)


def coordinates(pattern: Pattern) -> Pattern:
    """The same places as coordinates, in the same order (that of rows; of columns for CSC), batches included."""
    if pattern.is_coo:
        return pattern
    first, second = pattern.first, pattern.second
    assert second is not None
    count = second.dims[-1]
    if pattern.batch_dim:
        batch = pattern.dims[: pattern.batch_dim]
        total = dm.product(batch)
        starts = aten.reshape(first, (total, first.dims[-1]))
        places = aten.expand(aten.unsqueeze(counting(count, first), 0), (total, count))
        long = aten.sub(aten.searchsorted(_as_int64(starts), aten.clone(places), right=True), 1)
        long = aten.reshape(long, (total * count,))
        of_batch = indices_of(aten.floor_divide(counting(total * count, first), dm.maximum(count, 1)), batch)
        short = aten.reshape(_as_int64(second), (total * count,))
    else:
        long, short, of_batch = expanded(first, count), _as_int64(second), None
    pair = (long, short) if pattern.layout is formats.sparse_csr else (short, long)
    indices = aten.stack(pair)
    if of_batch is not None:
        indices = aten.cat((of_batch, indices))
    return Pattern(
        formats.sparse_coo, pattern.dims, indices, None, pattern.layout is formats.sparse_csr
    )


def coalescing(pattern: Pattern) -> tuple[Pattern, Tensor]:
    """A COO pattern with its places sorted and each there once; and for each value the new one that it goes to."""
    keys, inverse, _ = aten._unique2(keys_of(pattern.first, pattern.sparse_dims), True, True)
    return pattern.replaced(first=indices_of(keys, pattern.sparse_dims), is_coalesced=True), inverse


def summed(values: Tensor, places: Tensor, count: Dim) -> Tensor:
    """[count, ...]: the sum of the values [n, ...] of each place. int types and halves are summed as they are."""
    out = aten.new_zeros(values, (count, *values.dims[1:]))
    return aten.index_add(out, 0, places, values)  # type: ignore[no-any-return]


def positions_among(sorted_keys: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """For each key its position among sorted ones, and whether it is there. (An absent one has some position.)"""
    count = sorted_keys.dims[0]
    places = aten.clamp(aten.searchsorted(sorted_keys, keys), max=dm.maximum(count, 1) - 1)
    padded = aten.cat((sorted_keys, aten.new_full(sorted_keys, (1,), -1)))  # (there may be none)
    return places, aten.eq(aten.index_select(padded, 0, places), keys)


def repeated(counts: Tensor, total: Any = None) -> tuple[Tensor, Tensor]:
    """Each number i counts[i] times, and for each of them how many of its own are before it."""
    of = aten.repeat_interleave(counts, output_size=total)
    starts = aten.sub(aten.cumsum(counts, 0), counts)
    return of, aten.sub(counting(of.dims[0], of), aten.index_select(starts, 0, of))
