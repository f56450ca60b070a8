"""What a program asks a tensor and gets no tensor for, and the tensor's methods that are no operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.catalogue.language.entries import ORDERED
from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.types import dtype as dt
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type, list_of, optional


def _ask(
    schema: str, doc: str, kernel: Callable[..., Any], kind: Type, effect: str = "pure", observes: str = "",
) -> Op:
    return define(
        schema, doc, type=lambda *seen: kind, kernel=kernel, vjp=NOT_DIFFERENTIABLE, effect=effect, public=(),
        host=True, observes=observes,
    )


_ask("aten::size(Tensor self) -> int[]", "The sizes.", lambda x: list(x.shape), list_of(tt.INT))
_ask(
    "aten::size.int(Tensor self, int dim) -> int", "One size. Raises IndexError.", lambda x, dim: x.shape[dim], tt.INT,
    "raises",
)
_ask("aten::dim(Tensor self) -> int", "How many dims there are.", lambda x: x.ndim, tt.INT)
_ask("aten::numel(Tensor self) -> int", "How many elements there are.", lambda x: x.numel(), tt.INT)
_ask("aten::stride(Tensor self) -> int[]", "The strides, in elements.", lambda x: list(x.stride()), list_of(tt.INT))
_ask(
    "aten::stride.int(Tensor self, int dim) -> int", "One stride, in elements.",
    lambda x, dim: x.stride()[dim], tt.INT, "raises",
)
_ask(
    "aten::storage_offset(Tensor self) -> int", "Where the first element lies in the storage.",
    lambda x: x.storage_offset(), tt.INT,
)
_ask("aten::element_size(Tensor self) -> int", "Bytes of an element.", lambda x: x.element_size(), tt.INT)
_ask(
    "aten::is_contiguous(Tensor self) -> bool", "Whether it lies row-major in memory.", lambda x: x.is_contiguous(),
    tt.BOOL,
)
_ask(
    "aten::is_floating_point(Tensor self) -> bool", "Whether its dtype is a floating one.",
    lambda x: x.is_floating_point(), tt.BOOL,
)
_ask("aten::is_complex(Tensor self) -> bool", "Whether its dtype is a complex one.", lambda x: x.is_complex(), tt.BOOL)
_ask(
    "aten::is_signed(Tensor self) -> bool", "Whether its dtype has negative numbers.", lambda x: x.is_signed(), tt.BOOL
)
_ask(
    "aten::item(Tensor self) -> Scalar", "The only element, as a number. Raises RuntimeError if there are several.",
    lambda x: x.item(), tt.NUMBER, ORDERED, observes="raises",
)
_ask(
    "aten::tolist(Tensor self) -> Object", "The elements, as nested lists of numbers.", lambda x: x.tolist(), tt.ANY,
    ORDERED, observes="pure",
)
_ask("prim::dtype(Tensor self) -> ScalarType", "The dtype.", lambda x: x.dtype, tt.DTYPE)
_ask(
    "prim::dtype_number(Tensor self) -> int", "The number of its dtype in TorchScript's programs.",
    lambda x: dt.NUMBERS[x.dtype], tt.INT,
)
_ask(
    "prim::dtype_of_number(int self) -> ScalarType", "The dtype of TorchScript's number. Raises KeyError.",
    lambda number: dt.BY_NUMBER[number], tt.DTYPE, "raises",
)
_ask(
    "prim::dtype_of_optional_number(int? self) -> ScalarType?", "The dtype of TorchScript's number, None for None.",
    lambda number: None if number is None else dt.BY_NUMBER[number], optional(tt.DTYPE), "raises",
)
_ask("prim::device(Tensor self) -> Device", "The device.", lambda x: x.device, tt.DEVICE)
_ask("prim::layout(Tensor self) -> Layout", "The layout.", lambda x: x.layout, tt.LAYOUT)
_ask(
    "prim::requires_grad(Tensor self) -> bool", "Whether gradients flow to it.", lambda x: x.requires_grad, tt.BOOL,
    ORDERED, observes="pure",
)
_ask(
    "prim::is_leaf(Tensor self) -> bool", "Whether nothing computed it.", lambda x: x.is_leaf, tt.BOOL, ORDERED,
    observes="pure",
)
_ask(
    "prim::grad(Tensor self) -> Tensor?", "The gradient that has been collected, or None.", lambda x: x.grad,
    optional(tt.TENSOR), ORDERED, observes="pure",
)
_ask(
    "prim::data(Tensor self) -> Tensor", "The tensor without its history, on the same memory.", lambda x: x.data,
    tt.TENSOR, ORDERED, observes="pure",
)
_ask(
    "aten::detach(Tensor self) -> Tensor", "The tensor without its history, on the same memory.", lambda x: x.detach(),
    tt.TENSOR, ORDERED, observes="pure",
)
_ask(
    "aten::requires_grad_(Tensor self, bool requires_grad=True) -> Tensor",
    "Whether gradients shall flow to it; the tensor itself.", lambda x, flag: x.requires_grad_(flag), tt.TENSOR, ORDERED
)
_ask(
    "aten::contiguous(Tensor self) -> Tensor", "The tensor, copied if it does not lie row-major.",
    lambda x: x.contiguous(), tt.TENSOR, ORDERED, observes="pure",
)
_ask("aten::cpu(Tensor self) -> Tensor", "The tensor itself.", lambda x: x.cpu(), tt.TENSOR, ORDERED, observes="pure")
_ask(
    "aten::backward(Tensor self, Tensor? gradient=None, bool retain_graph=False) -> ()",
    "Collects gradients in the leaves.",
     lambda x, gradient, retain: x.backward(gradient, retain_graph=retain), (), ORDERED)  # type: ignore[arg-type]
_ask(
    "prim::device_type(Device self) -> str", "The kind of a device.",
    lambda d: getattr(d, "type", str(d).partition(":")[0]), tt.STR,
)
_ask(
    "prim::device_index(Device self) -> int?", "The number of a device; None where it has none.",
    lambda d: int(str(d).partition(":")[2]) if ":" in d else None, optional(tt.INT),
)
_ask(
    "prim::make_slice(Object start, Object stop, Object step) -> Object", "A slice, as part of an index.", slice, tt.ANY
)
define(
    "prim::tensor_getitem(Tensor self, Object index) -> Tensor",
    "`self[index]`, by numbers, slices, None, `...`, lists and tensors. Raises IndexError.",
    type=lambda x, index: tt.tensor_type(x.dtype, None, x.device) if isinstance(x, tt.TensorType) else tt.TENSOR,
    kernel=lambda x, index: x[_index(index)], vjp=NOT_DIFFERENTIABLE, effect=ORDERED, public=(), host=True,
    observes="raises",
)
_ask(
    "prim::tensor_setitem(Tensor self, Object index, Object value) -> ()", "`self[index] = value`. Raises IndexError.",
    lambda x, index, value: _put(x, index, value),
     (), ORDERED)  # type: ignore[arg-type]
_ask(
    "prim::tensor_put(Tensor self, Object index, Object value) -> Tensor",
    "A copy of self with `value` at `self[index]`. Raises IndexError.",
    lambda x, index, value: _with_put(x, index, value), tt.TENSOR, "raises",
)


def _index(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(... if isinstance(part, str) else part for part in parts)


def _put(x: Any, index: tuple[Any, ...], value: Any) -> None:
    x[_index(index)] = value


def _with_put(x: Any, index: tuple[Any, ...], value: Any) -> Any:
    copied = x.clone()
    _put(copied, index, value)
    return copied
