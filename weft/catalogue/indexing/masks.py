"""Masks: masked_fill, masked_scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.catalogue.samples import B, F, case, draw
from weft.ops.batching import Flags, full_rank, whole
from weft.ops.layout import ROW_MAJOR
from weft.ops.op import Op, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import Pointwise, broadcast_dims, check_fits
from weft.support.errors import DTypeError, OutOfBounds, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType

Array = Any

# ---- masks


class _MaskedFill(Pointwise):
    """self's dtype; a bool mask; a value of no dims that self's dtype can hold."""

    def compute_dtype(self, args: tuple[Any, ...]) -> dt.DType:
        x, mask, value = args
        if mask.dtype is not dt.bool_:
            raise DTypeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
        if isinstance(value, TensorType) and value.dims:
            raise ShapeError(
                f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {len(value.dims)} "
                "dimension(s)."
            )
        if not x.dtype.is_complex and (isinstance(value, complex) or (
            isinstance(value, TensorType) and value.dtype is not None and value.dtype.is_complex
        )):
            raise DTypeError(f"value cannot be converted to type {x.dtype} without overflow")
        return super().compute_dtype(args)

    def __call__(self, *args: Any) -> Any:
        self.check_numbers(args)
        return super().__call__(*args)

    def check_numbers(self, args: tuple[Any, ...]) -> None:
        check_fits(args[2], args[0].dtype)


def _masked_fill_batch(op: Op, size: Dim, flags: Flags, self: Any, mask: Any, value: Any) -> Any:
    rank = max(self.ndim - bool(flags[0]), mask.ndim - bool(flags[1]))
    x, holds = (full_rank(v, f, size, rank) if f else v for v, f in zip((self, mask), flags, strict=False))
    if not flags[2]:
        return call(op, (x, holds, value))
    return aten.where(holds, aten._to_copy(full_rank(value, True, size, rank), x.dtype), x)


pointwise(
    "aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
    "self with a 0-dim tensor's number where the mask holds.",
    scalar=lambda s, x, mask, value: s.where(mask, value, x),
    node="MaskedFillBackward1",
    over=("self",),
    keep=("mask",),
    rule=_MaskedFill,
    lies=ROW_MAJOR,
    numbers=False,
    out=False,
    vjp={
        "self": lambda g, mask: aten.masked_fill(g, mask, 0),
        "value": lambda g, mask: aten.sum(aten.where(mask, g, 0)),
    },
    batch=_masked_fill_batch,
    samples=draw(case(F(3, 4), B(3, 4), F())),
)
masked_fill = pointwise(
    "aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
    "self with a number where the mask holds.",
    scalar=lambda s, x, mask, value: s.where(mask, value, x),
    node="MaskedFillBackward0",
    over=("self",),
    keep=("mask",),
    rule=_MaskedFill,
    lies=ROW_MAJOR,
    numbers=False,
    out=False,
    vjp={"self": lambda g, mask: aten.masked_fill(g, mask, 0)},
    reference=lambda x, mask, value: np.where(mask, np.asarray(value, x.dtype), x),
    samples=draw(case(F(3, 4), B(3, 4), 1.5), case(F(3, 4), B(4), 2)),
)


def _masked_scatter_type(self: TensorType, mask: TensorType, source: TensorType) -> TensorType:
    if mask.dtype is not None and mask.dtype is not dt.bool_:
        raise DTypeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if self.dtype is not None and source.dtype is not None and self.dtype is not source.dtype:
        raise DTypeError(
            f"masked_scatter: expected self and source to have same dtypes but got {self.dtype} and {source.dtype}"
        )
    if not (self.is_complete and mask.is_complete):
        return self
    return self.with_dims(broadcast_dims("masked_scatter", [self.shape, mask.shape]))


_TOO_FEW = "masked_scatter: expected source to have at least {element} elements"


def _masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    out = np.array(x, order="C")
    count = int(np.count_nonzero(mask))
    if source.size < count:
        raise OutOfBounds(f"{_TOO_FEW}, got {source.size}".format(element=count))
    out[mask] = source.reshape(-1)[:count]
    return out


def _masked_scatter_grad_source(g: Any, source_dims: Any, mask: Any) -> Any:
    return aten.masked_scatter_backward(g, mask, source_dims)


# ---- masks that differ: the k-th element that an example's mask picks is its k-th source element
def _numbered(mask: Any) -> Any:
    """[batch, n] -> for each element how many picked ones lie before it (for one that is picked: its number)."""
    return aten.clamp(aten.cumsum(aten._to_copy(mask, dt.int64), 1) - 1, 0)


def _flat_examples(value: Any) -> Any:
    return aten.reshape(value, (value.dims[0], dm.product(value.dims[1:])))


def _masked_scatter_batch(op: Op, size: Dim, flags: Flags, self: Any, mask: Any, source: Any) -> Any:
    rank = max(self.ndim - bool(flags[0]), mask.ndim - bool(flags[1]))
    x, holds = aten.broadcast_tensors((full_rank(self, flags[0], size, rank), full_rank(mask, flags[1], size, rank)))
    sources = _flat_examples(source if flags[2] else whole(source, size))
    if sources.dims[1] == 0:
        return aten.clone(x)
    taken = aten.gather(sources, 1, _numbered(_flat_examples(holds)))
    return aten.where(holds, aten.reshape(taken, x.dims), x)


define(
    "aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    "self with the elements of source, in order, where the mask holds.",
    type=_masked_scatter_type,
    kernel=_masked_scatter,
    vjp={"self": lambda g, mask: aten.masked_fill(g, mask, 0), "source": _masked_scatter_grad_source},
    batch=_masked_scatter_batch,
    effect="raises",
    failure=lambda self, mask, source: OutOfBounds(_TOO_FEW),
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4), B(3, 4), F(12))),
)


def _masked_scatter_backward(grad: Array, mask: Array, sizes: Sequence[int]) -> Array:
    grad, mask = np.broadcast_arrays(grad, mask)
    picked = grad[mask]
    out = np.zeros(int(np.prod(sizes)), grad.dtype)
    out[: picked.size] = picked
    return out.reshape(tuple(sizes))


def _masked_scatter_backward_batch(op: Op, size: Dim, flags: Flags, grad: Any, mask: Any, sizes: Any) -> Any:
    rank = max(grad.ndim - bool(flags[0]), mask.ndim - bool(flags[1]))
    g, holds = aten.broadcast_tensors((full_rank(grad, flags[0], size, rank), full_rank(mask, flags[1], size, rank)))
    zeros = aten.new_zeros(g, (size, dm.product(sizes)))
    if zeros.dims[1] == 0:
        return aten.reshape(zeros, (size, *sizes))
    sums = aten.scatter_add(zeros, 1, _numbered(_flat_examples(holds)), _flat_examples(aten.where(holds, g, 0)))
    return aten.reshape(sums, (size, *sizes))


define(
    "aten::masked_scatter_backward(Tensor grad_output, Tensor mask, int[] sizes) -> Tensor",
    "The gradient of masked_scatter for its source: what the mask picks, then zeros.",
    type=lambda grad, mask, sizes: grad.with_dims(tuple(sizes)),
    kernel=_masked_scatter_backward,
    vjp={"grad_output": lambda g, grad_output_dims, mask: aten.masked_scatter(
        aten.new_zeros(g, grad_output_dims), mask, g
    )},
    batch=_masked_scatter_backward_batch,
    public=(),
    samples=draw(case(F(3, 4), B(3, 4), (12,))),
)
