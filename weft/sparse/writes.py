"""In-place operators on sparse tensors: values are written where the places stay, else the tensor gets another body's
content, which its aliases share.
"""

from __future__ import annotations

from typing import Any

from weft.autograd.record import gradient_edge
from weft.autograd.views import check_inplace
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.sparse.history import coo_of, dense_of
from weft.sparse.pattern import keys_of
from weft.sparse.rules import open_operator
from weft.sparse.shapes import empty_of
from weft.sparse.tensor import SparseTensor
from weft.support.errors import ShapeError, StateError
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import rewrapped
from weft.types import dims as dm
from weft.types import promotion


def write_operator(op: Op, args: tuple[Any, ...]) -> Any:
    """An in-place operator with a sparse argument. A dense first argument keeps its memory."""
    target: Tensor = rewrapped(args[0])
    args = (target, *args[1:])
    check_inplace(target, modes.grad and _wants(args))
    if not isinstance(target, SparseTensor):
        return _write_dense(op, target, args)
    if op.base == "zero":
        value: Any = empty_of(target.layout, target.dims, target._body.pattern.dense_dim, target.dtype, target.device)
    elif op.base == "copy":
        value = _copied(target, args[1])
    else:
        value = open_operator(op, args)
    if not isinstance(value, SparseTensor):
        raise StateError(f"{op.base}_: the result is dense, and cannot be written into a sparse tensor")
    if value.shape != target.shape:
        raise ShapeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(value.shape)}"
        )
    promotion.check_cast(value.dtype, target.dtype)
    become(target, value if value.dtype is target.dtype else aten._to_copy(value, target.dtype))
    return target


def _wants(args: tuple[Any, ...]) -> bool:
    return any(isinstance(a, Tensor) and a.requires_grad for a in args)


def _write_dense(op: Op, target: Tensor, args: tuple[Any, ...]) -> Tensor:
    if op.base in ("add", "sub"):
        other, alpha = args[1], args[2] if op.base == "add" else -args[2]
        if target.is_contiguous() and not (modes.grad and _wants(args)):
            _add_rows(target, other, alpha)
            return target
    value = dense_of(args[1]) if op.base == "copy" else open_operator(op, args)
    if isinstance(value, SparseTensor):
        value = dense_of(value)
    target.copy_(value)
    return target


def _add_rows(target: Tensor, other: SparseTensor, alpha: Any) -> None:
    """target += alpha * other, touching the rows that have values alone."""
    if target.shape != other.shape:
        raise ShapeError(f"add_: expected sizes to match, but {list(target.shape)} != {list(other.shape)}")
    promotion.check_cast(promotion.promote(target.dtype, other.dtype), target.dtype)
    pattern, values = coo_of(other)
    if type(alpha) not in (int, float) or alpha != 1:
        values = aten.mul(values, alpha)
    values = values if values.dtype is target.dtype else aten._to_copy(values, target.dtype)
    flat = aten.view(target, (dm.product(pattern.sparse_dims), *pattern.dense_dims))
    flat.index_add_(0, keys_of(pattern.first, pattern.sparse_dims), values)


def _copied(target: SparseTensor, source: Any) -> SparseTensor:
    if not isinstance(source, SparseTensor) or source.layout is not target.layout:
        raise StateError(
            f"copy_() between dense and sparse tensors is not implemented: a tensor of layout {target.layout} takes "
            f"one of its own layout, not {getattr(source, 'layout', type(source).__name__)}"
        )
    return aten.clone(source)  # type: ignore[no-any-return]


def become(target: SparseTensor, value: SparseTensor) -> None:
    """Give a tensor and its aliases the content of another one, and the tensor its history."""
    body, new = target._body, value._body
    if body.pattern.is_same(new.pattern) and modes.capture is None and not _wants((target, value)):
        if new.values is not body.values:
            body.values.copy_(new.values)
    else:
        body.pattern, body.values, body.extent = new.pattern, new.values, None
    storage = target.storage()
    storage.version += 1
    edge = gradient_edge(value) if modes.grad else None
    if edge is not None:
        target._autograd = AutogradState(False, *edge)
    if modes.capture is not None:
        modes.capture.outside.note_write(storage)

