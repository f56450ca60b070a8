"""Masks: masked_fill, masked_scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.catalogue.samples import B, F, case, draw
from weft.ops.layout import ROW_MAJOR
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise, broadcast_dims, check_fits
from weft.support.errors import DTypeError, OutOfBounds, ShapeError
from weft.types import dtype as dt
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


def _masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    x, mask = np.broadcast_arrays(x, mask)
    out = np.array(x, order="C")
    count = int(np.count_nonzero(mask))
    if source.size < count:
        raise OutOfBounds(f"masked_scatter: expected source to have at least {count} elements, got {source.size}")
    out[mask] = source.reshape(-1)[:count]
    return out


def _masked_scatter_grad_source(g: Any, source_dims: Any, mask: Any) -> Any:
    return aten.masked_scatter_backward(g, mask, source_dims)


define(
    "aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    "self with the elements of source, in order, where the mask holds.",
    type=_masked_scatter_type,
    kernel=_masked_scatter,
    vjp={"self": lambda g, mask: aten.masked_fill(g, mask, 0), "source": _masked_scatter_grad_source},
    effect="raises",
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


define(
    "aten::masked_scatter_backward(Tensor grad_output, Tensor mask, int[] sizes) -> Tensor",
    "The gradient of masked_scatter for its source: what the mask picks, then zeros.",
    type=lambda grad, mask, sizes: grad.with_dims(tuple(sizes)),
    kernel=_masked_scatter_backward,
    vjp={"grad_output": lambda g, grad_output_dims, mask: aten.masked_scatter(
        aten.new_zeros(g, grad_output_dims), mask, g
    )},
    public=(),
    samples=draw(case(F(3, 4), B(3, 4), (12,))),
)
