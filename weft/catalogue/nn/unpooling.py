"""Unpooling: each maximum back to where it came from, zeros elsewhere."""

from __future__ import annotations

from typing import Any

from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text, same_dims
from weft.support.errors import DTypeError, ShapeError, ValueProblem
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim


def _each(name: str, what: str, value: Any, rank: int) -> tuple[int, ...]:
    values = (value,) * rank if isinstance(value, int) else tuple(value) * (rank if len(value) == 1 else 1)
    if len(values) != rank:
        raise ShapeError(f"{name}: There should be exactly {rank} elements in {what}, but got {list(values)}")
    return values


def _sizes(
    input: Any, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], output_size: Any
) -> tuple[Dim, ...]:
    rank = len(kernel)
    usual = tuple(
        (d - 1) * s + k - 2 * p for d, k, s, p in zip(input.dims[-rank:], kernel, stride, padding, strict=True)
    )
    if output_size is None:
        return usual
    wanted: tuple[Dim, ...] = tuple(output_size)[-rank:] if len(output_size) == rank + 2 else tuple(output_size)
    if len(wanted) != rank:
        raise ValueProblem(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, "
            f"but it has a length of '{len(wanted)}'"
        )
    for d, size, s in zip(usual, wanted, stride, strict=True):
        if not (shape_env.less(d - s, size) and shape_env.less(size, d + s)):
            raise ValueProblem(f"invalid output_size {list(wanted)} (each must be within one stride of {list(usual)})")
    return wanted


def _unpool(rank: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Any:
    name = f"max_unpooling{rank}d"
    kernel, pads = _each(name, "kernel_size", kernel_size, rank), _each(name, "padding", padding, rank)
    steps = kernel if stride is None or stride == () else _each(name, "stride", stride, rank)
    if indices.dtype is not dt.int64:
        raise DTypeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"Input to {name} should be a {rank + 1}d or {rank + 2}d Tensor, "
            f"but got a tensor with {input.ndim} dimensions."
        )
    if input.ndim != indices.ndim or not same_dims(input.dims, indices.dims):
        raise ShapeError(
            f"Expected shape of indices to be same as that of the input tensor ({dims_text(input.dims)}) but got "
            f"indices tensor with shape: {dims_text(indices.dims)}"
        )
    if rank == 3 and any(s <= 0 for s in steps):
        raise ShapeError(f"strides should be greater than zero, but got stride: {list(steps)}")
    sizes = _sizes(input, kernel, steps, pads, output_size)
    lead = tuple(input.dims[:-rank])
    flat = (*lead, dm.product(input.dims[-rank:]))
    zeros = aten.zeros((*lead, dm.product(sizes)), dtype=input.dtype)
    out = aten.scatter(zeros, len(lead), aten.reshape(indices, flat), aten.reshape(input, flat))
    return aten.reshape(out, (*lead, *sizes))


for _rank in (1, 2, 3):
    define(
        f"nn::max_unpool{_rank}d(Tensor input, Tensor indices, int[{_rank}] kernel_size, int[{_rank}]? stride=None, "
        f"int[{_rank}] padding=0, int[]? output_size=None) -> Tensor",
        f"The inverse of max_pool{_rank}d as far as there is one: each value at the place that indices name, "
        "zeros elsewhere.",
        precision="float32" if _rank > 1 else "",
        decompose=lambda *args, rank=_rank: _unpool(rank, *args),
        public=("nn.functional",),
    )
