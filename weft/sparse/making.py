"""Sparse tensors of indices and values, checked; and those of dense tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.sparse.history import compressed_of, converted, make, sparse_of, values_of
from weft.sparse.pattern import Pattern, expanded
from weft.sparse.shapes import empty_of
from weft.sparse.tensor import SparseTensor
from weft.support.errors import ArgumentError, StateError, Unsupported
from weft.tensor.creation import tensor as tensor_of
from weft.tensor.device import usable
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types import formats
from weft.types.sym import SymInt, to_dim

BLOCKED = (formats.sparse_bsr, formats.sparse_bsc)


def refuse_blocks(what: str) -> Unsupported:
    """The error for the layouts of blocks."""
    return Unsupported(
        f"{what}: weft has the layouts sparse_coo, sparse_csr and sparse_csc, and none of blocks (sparse_bsr, "
        "sparse_bsc)"
    )


class check_sparse_tensor_invariants:
    """Whether sparse tensors are checked for indices out of bounds or order when they are made: a context manager,
    a decorator, and switches (`enable()`, `disable()`, `is_enabled()`). Off at first, as in PyTorch."""

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state, self.saved = enable, False

    @staticmethod
    def is_enabled() -> bool:
        """Whether tensors are checked."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Check no more."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self.saved = self.is_enabled()
        check_sparse_tensor_invariants._enabled = self.state

    def __exit__(self, *error: Any) -> None:
        check_sparse_tensor_invariants._enabled = self.saved

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def _wants_checks(asked: bool | None) -> bool:
    wanted = check_sparse_tensor_invariants.is_enabled() if asked is None else asked
    return wanted and modes.capture is None


def _index(data: Any, what: str) -> Tensor:
    index = data if isinstance(data, Tensor) else tensor_of(data)
    if index.dtype.is_complex:
        raise ArgumentError(f"{what} must be an int tensor, not of {index.dtype}")
    if index.dtype in (dt.int64, dt.int32):
        return index.detach()
    return index.detach().to(dt.int64)


def _values(data: Any, dtype: Any) -> Tensor:
    values = data if isinstance(data, Tensor) else tensor_of(data, dtype=dtype)
    return values if dtype is None or values.dtype is dt.as_dtype(dtype) else values.to(dt.as_dtype(dtype))


def _dims(size: Any) -> tuple[Any, ...]:
    sizes = tuple(size) if isinstance(size, Sequence) else (size,)
    for n in sizes:
        if type(n) is int and n < 0:
            raise StateError(f"Trying to create tensor with negative dimension {n}: {list(sizes)}")
    return tuple([to_dim(n) if isinstance(n, SymInt) else int(n) for n in sizes])


def _finished(out: SparseTensor, requires_grad: bool) -> SparseTensor:
    return out.requires_grad_() if requires_grad else out  # type: ignore[return-value]


@overridable
def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A tensor of layout sparse_coo: values [nnz, dense sizes] at indices [sparse dims, nnz]; values of equal indices
    count as their sum. is_coalesced: whether the indices are sorted and there once (by default, if there are fewer than
    two). size: by default as small as the indices allow. With a size alone, a tensor without values.

    Raises StateError where indices, values and size do not fit; with check_invariants, where an index is out of bounds.
    """
    usable(device or "cpu")
    if values is None:
        if indices is not None and size is None:
            indices, size = None, indices
        if size is None:
            raise ArgumentError("sparse_coo_tensor(): expected indices and values, or a size")
        return _finished(empty_of(formats.sparse_coo, _dims(size), 0, dtype or dt.get_default(), device), requires_grad)
    index, numbers = _index(indices, "indices"), _values(values, dtype)
    index = index if index.dtype is dt.int64 else index.to(dt.int64)
    if index.ndim == 1 and index.numel() == 0:
        index = aten.reshape(index, (0 if size is None else len(_dims(size)), 0))
    if index.ndim != 2:
        raise StateError(f"indices must be sparse_dim x nnz, but got: {list(index.shape)}")
    if numbers.ndim == 0:  # the value of the only place
        numbers = aten.expand(aten.unsqueeze(numbers, 0), (index.dims[1],))
    if _differ(index.shape[1], numbers.shape[0]):
        raise StateError(
            f"indices and values must have same nnz, but got nnz from indices: {index.shape[1]}, nnz from values: "
            f"{numbers.shape[0]}"
        )
    sparse_dim, dense_dim = int(index.shape[0]), numbers.ndim - 1
    if size is None:
        dims = (*_smallest(index), *numbers.dims[1:])
    else:
        dims = _dims(size)
        if len(dims) != sparse_dim + dense_dim:
            raise StateError(
                "'len(size) == sparse_dim + dense_dim' is not satisfied: "
                f"len(size) = {len(dims)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
            )
        if any(_differ(a, b) for a, b in zip(dims[sparse_dim:], numbers.dims[1:], strict=True)):
            raise StateError(
                f"values has incorrect size, expected {list(dims[sparse_dim:])}, got {list(numbers.shape[1:])}"
            )
    if _wants_checks(check_invariants):
        _check_bounds(index, dims)
    if is_coalesced is None:
        count = index.dims[1]
        is_coalesced = type(count) is int and count < 2
    pattern = Pattern(formats.sparse_coo, dims, index, None, is_coalesced, sparse_dim)
    return _finished(make(pattern, numbers.detach() if requires_grad else numbers), requires_grad)


def _differ(a: Any, b: Any) -> bool:
    return type(a) is int and type(b) is int and a != b


def _smallest(index: Tensor) -> tuple[Any, ...]:
    if modes.capture is not None:
        raise StateError("sparse_coo_tensor(): in a compiled function the size cannot be read from indices; give it")
    if index.numel() == 0:
        return (0,) * int(index.shape[0])
    lowest = aten.amin(index, 1).tolist()
    for d, low in enumerate(lowest):
        if low < 0:
            raise StateError(f"found negative index {low} for dim {d}")
    return tuple([n + 1 for n in aten.amax(index, 1).tolist()])


def _check_bounds(index: Tensor, dims: tuple[Any, ...]) -> None:
    if index.numel() == 0:
        return
    lowest, highest = aten.amin(index, 1).tolist(), aten.amax(index, 1).tolist()
    for d, (low, high) in enumerate(zip(lowest, highest, strict=True)):
        if low < 0:
            raise StateError(f"found negative index {low} for dim {d}")
        if high >= dims[d]:
            raise StateError(
                f"size is inconsistent with indices: for dim {d}, size is {dims[d]} but found index {high}"
            )


@overridable
def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A tensor of layout sparse_csr or sparse_csc: row (column) i has the values from compressed_indices[i] to
    compressed_indices[i + 1], in the columns (rows) that plain_indices names. Dims in front of all three are batches.

    Raises StateError where they do not fit, Unsupported for the layouts of blocks.
    """
    usable(device or "cpu")
    if layout in BLOCKED:
        raise refuse_blocks("sparse_compressed_tensor()")
    if layout not in (formats.sparse_csr, formats.sparse_csc):
        raise StateError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            f"{'none' if layout is None else layout}"
        )
    first, second = _index(compressed_indices, "compressed_indices"), _index(plain_indices, "plain_indices")
    numbers = _values(values, dtype)
    if first.ndim == 0 or first.ndim != second.ndim or numbers.ndim < second.ndim:
        raise StateError(
            f"compressed_indices, plain_indices and values must have as many batch dims, but got {first.ndim}, "
            f"{second.ndim} and {numbers.ndim} dims"
        )
    batch = first.ndim - 1
    long = first.dims[-1] - 1
    if size is None:
        if modes.capture is not None:
            raise StateError("sparse_compressed_tensor(): in a compiled function the size must be given")
        short = int(second.max().item()) + 1 if second.numel() else 0
        pair = (long, short) if layout is formats.sparse_csr else (short, long)
        dims = (*first.dims[:-1], *pair, *numbers.dims[batch + 1 :])
    else:
        dims = _dims(size)
    pattern = Pattern(layout, dims, first, second)
    if len(dims) != batch + 2 + numbers.ndim - batch - 1:
        raise StateError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (={batch} + 2 + "
            f"{numbers.ndim - batch - 1}) but got {len(dims)}"
        )
    if _wants_checks(check_invariants):
        _check_compressed(pattern, numbers)
    return _finished(make(pattern, numbers.detach() if requires_grad else numbers), requires_grad)


def _check_compressed(pattern: Pattern, values: Tensor) -> None:
    first, second = pattern.first.to(dt.int64), pattern.second
    assert second is not None
    is_csr = pattern.layout is formats.sparse_csr
    long, short = ("crow", "col") if is_csr else ("ccol", "row")
    limit: Any
    count, limit = pattern.sparse_dims if is_csr else pattern.sparse_dims[::-1]
    count_name, limit_name = ("nrows", "ncols") if is_csr else ("ncols", "nrows")
    nnz = second.shape[-1]

    def refuse(condition: str) -> StateError:
        return StateError(f"`{condition}` is not satisfied.")

    if first.shape[-1] != count + 1:
        raise refuse(f"{long}_indices.shape[-1] == {count_name} + 1")
    if values.shape[pattern.batch_dim] != nnz:
        raise refuse(f"{short}_indices.shape[-1] == nnz")
    if first[..., 0].ne(0).any():
        raise refuse(f"{long}_indices[..., 0] == 0")
    if first[..., -1].ne(nnz).any():
        raise refuse(f"{long}_indices[..., -1] == nnz")
    lengths = first[..., 1:] - first[..., :-1]
    if lengths.lt(0).any() or lengths.gt(limit).any():
        raise refuse(f"0 <= {long}_indices[..., 1:] - {long}_indices[..., :-1] <= {limit_name}")
    if second.numel() and (second.lt(0).any() or second.ge(limit).any()):
        raise refuse(f"0 <= {short}_indices < {limit_name}")
    for starts, places in zip(first.reshape(-1, first.shape[-1]), second.reshape(-1, nnz) if nnz else (), strict=False):
        row = expanded(starts, nnz)
        is_next = (row[1:] != row[:-1]).logical_or(places[1:] > places[:-1])
        if not is_next.all():
            raise refuse(
                f"{short}_indices[..., {long}_indices[..., i - 1]:{long}_indices[..., i]] for all i = 1, ..., "
                f"{count_name} are sorted and distinct along the last dimension values"
            )


@overridable
def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **options: Any
) -> SparseTensor:
    """sparse_compressed_tensor of layout sparse_csr: rows, one after another."""
    return sparse_compressed_tensor(
        crow_indices, col_indices, values, size, **{**options, "layout": formats.sparse_csr}
    )


@overridable
def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any
) -> SparseTensor:
    """sparse_compressed_tensor of layout sparse_csc: columns, one after another."""
    return sparse_compressed_tensor(
        ccol_indices, row_indices, values, size, **{**options, "layout": formats.sparse_csc}
    )


def sparse_bsr_tensor(*args: Any, **options: Any) -> SparseTensor:
    """Refused: there are no layouts of blocks. Raises Unsupported."""
    raise refuse_blocks("sparse_bsr_tensor()")


def sparse_bsc_tensor(*args: Any, **options: Any) -> SparseTensor:
    """Refused: there are no layouts of blocks. Raises Unsupported."""
    raise refuse_blocks("sparse_bsc_tensor()")


def spdiags(diagonals: Tensor, offsets: Tensor, shape: tuple[int, int], layout: Any = None) -> SparseTensor:
    """The matrix of a shape [n, m] with the rows of `diagonals` [k, l] on the diagonals that `offsets` [k] names: the
    element of column j is at j of its row. layout: sparse_coo, sparse_csr or sparse_csc.

    Raises StateError where the arguments do not fit.
    """
    if layout not in (None, formats.sparse_coo, formats.sparse_csr, formats.sparse_csc):
        raise StateError(f"spdiags(): only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}")
    if len(shape) != 2:
        raise StateError("spdiags(): Output shape must be 2d")
    diagonals = aten.unsqueeze(diagonals, 0) if diagonals.ndim == 1 else diagonals
    offsets = aten.unsqueeze(offsets, 0) if offsets.ndim == 0 else offsets
    if diagonals.ndim != 2 or offsets.ndim != 1 or diagonals.shape[0] != offsets.shape[0]:
        raise StateError(
            f"spdiags(): Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets "
            f"({offsets.shape[0]})"
        )
    chosen = offsets.tolist()
    if len(set(chosen)) != len(chosen):
        raise StateError("spdiags(): Offset tensor contains duplicate values")
    rows, columns = shape
    row_parts, column_parts, value_parts = [], [], []
    for i, offset in enumerate(chosen):
        begin, end = max(offset, 0), min(columns, rows + offset, int(diagonals.shape[1]))
        column = aten.arange(begin, max(begin, end), device=diagonals.device)
        row_parts.append(column - offset)
        column_parts.append(column)
        value_parts.append(diagonals[i, begin : max(begin, end)])
    indices = aten.stack((aten.cat(tuple(row_parts)), aten.cat(tuple(column_parts))))
    out = make(
        Pattern(formats.sparse_coo, (rows, columns), indices, None, False), aten.cat(tuple(value_parts))
    )
    return out if layout in (None, formats.sparse_coo) else converted(out, layout)


def of_dense(tensor: Tensor, layout: Any, sparse_dim: int | None, dense_dim: int | None, what: str) -> SparseTensor:
    """A dense tensor in a sparse layout. Raises StateError."""
    if layout in BLOCKED:
        raise refuse_blocks(what)
    if layout is formats.sparse_coo:
        count = sparse_dim if sparse_dim is not None else tensor.ndim - (dense_dim or 0)
        if not (0 < count <= tensor.ndim or (tensor.ndim == 0 and count == 0)):
            lowest = min(tensor.ndim, 1)
            raise StateError(
                f"{what}: sparse_dim argument must be in [{lowest},{tensor.ndim}] range, but {count} is given"
            )
        return sparse_of(tensor, count)
    dense = dense_dim or 0
    if tensor.ndim < 2 or not 0 <= dense <= tensor.ndim - 2:
        raise StateError(
            f"{what}: dense_dim argument must be in [0,{max(tensor.ndim - 2, 0)}] range for a tensor of {tensor.ndim} "
            f"dims, but {dense} is given"
        )
    if tensor.ndim - dense == 2:
        matrix = sparse_of(tensor, 2)
        return compressed_of(matrix._body.pattern, values_of(matrix), layout)
    return _batched(tensor, layout, dense, what)


def _batched(tensor: Tensor, layout: Any, dense: int, what: str) -> SparseTensor:
    count = tensor.ndim - dense - 2
    lead = tensor.shape[:count]
    flat = aten.reshape(tensor, (-1, *tensor.dims[count:]))
    parts = [of_dense(matrix, layout, None, dense, what) for matrix in aten.unbind(flat, 0)]
    bodies = [p._body.pattern for p in parts]
    if len({p.second.shape[0] for p in bodies if p.second is not None}) > 1:
        raise StateError(
            f"{what}: expected the same number of specified elements per batch; the layout has no room for others"
        )
    firsts, seconds, values = (
        aten.stack(tuple(each)) for each in (
            [p.first for p in bodies], [p.second for p in bodies], [values_of(p) for p in parts]
        )
    )
    shaped = [aten.reshape(t, (*lead, *t.dims[1:])) for t in (firsts, seconds, values)]
    return make(Pattern(layout, tensor.dims, shaped[0], shaped[1]), shaped[2])

