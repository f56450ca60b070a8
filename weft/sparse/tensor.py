"""SparseTensor: indices, values and sizes as one tensor.

It is a wrapper (tensor/wrapper.py) that is asked above autograd and the transforms what an operator is made of: every
operator on one is written with ordinary operators on its indices and values (rules.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from weft.ops.geometry import contiguous
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.sparse.pattern import Pattern
from weft.support.errors import StateError, Unsupported
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.wrapper import WrapperPayload, opening_classes, shaped
from weft.types import dtype as dt
from weft.types import formats
from weft.types.formats import layout as Layout
from weft.types.tensor_type import tensor_type


class Body:
    """What a sparse tensor holds; its aliases hold the same one, so that a write is seen through all of them."""

    __slots__ = ("extent", "pattern", "values")

    def __init__(self, pattern: Pattern, values: Tensor) -> None:
        self.pattern, self.values = pattern, values
        self.extent: Tensor | None = None


class SparseTensor(Tensor):
    """A tensor of layout weft.sparse_coo, weft.sparse_csr or weft.sparse_csc. Make one with weft.sparse_coo_tensor,
    weft.sparse_csr_tensor, weft.sparse_csc_tensor or Tensor.to_sparse."""

    _body: Body

    # ---- what it is
    @property
    def layout(self) -> Layout:
        """weft.sparse_coo, weft.sparse_csr or weft.sparse_csc."""
        return self._body.pattern.layout

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether the layout is weft.sparse_coo."""
        return self._body.pattern.is_coo

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the layout is weft.sparse_csr."""
        return self.layout is formats.sparse_csr

    def stride(self, dim: int | None = None) -> Any:
        """Zeros in COO, as in PyTorch. Raises StateError in the compressed layouts."""
        if not self._body.pattern.is_coo:
            raise StateError(f"Sparse {layout_name(self)} tensors do not have strides")
        return (0,) * self.ndim if dim is None else 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Never: there are no strides."""
        return False

    def _refuse_memory(self, what: str) -> NoReturn:
        raise Unsupported(f"{what}: a tensor of layout {self.layout} has no storage; take .values(), or .to_dense()")

    def untyped_storage(self) -> NoReturn:
        """Refused: the indices and the values have storages."""
        self._refuse_memory("untyped_storage()")

    def data_ptr(self) -> NoReturn:
        """Refused: the indices and the values have addresses."""
        self._refuse_memory("data_ptr()")

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Refused: to_dense() first."""
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __dlpack__(self, **options: Any) -> NoReturn:
        raise BufferError("Can't export tensors with layout other than weft.strided")

    def tolist(self) -> NoReturn:
        """Refused: to_dense() first."""
        self._refuse_memory("tolist()")

    def item(self) -> Any:
        """The only element. Raises StateError for any other number of elements."""
        if self.numel() != 1:
            raise StateError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self.to_dense().item()

    def is_set_to(self, other: Tensor) -> bool:
        """Whether both are aliases."""
        return isinstance(other, SparseTensor) and self._body is other._body

    # ---- a wrapper's protocol
    @property
    def _extent(self) -> Tensor:
        """A tensor without elements that carries the sizes: they are symbols where a program takes it. (That of sizes
        which are numbers has no part in a program that is being recorded.)"""
        body = self._body
        if body.extent is None:
            dims = (0, *body.pattern.dims)
            is_fixed = all(type(d) is int for d in dims)
            body.extent = tensor_around(np.empty(dims, np.bool_)) if is_fixed else aten.empty(dims, dtype=dt.bool_)
        return body.extent

    @property
    def _first(self) -> Tensor:
        return self._body.pattern.first

    @property
    def _second(self) -> Tensor:
        second = self._body.pattern.second
        assert second is not None
        return second

    @property
    def _numbers(self) -> Tensor:
        return self._body.values

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        pattern = self._body.pattern
        names = ["_extent", "_first", "_numbers"] if pattern.is_coo else ["_extent", "_first", "_second", "_numbers"]
        return names, (pattern.layout, pattern.is_coalesced)

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        raise refusal(getattr(func, "__name__", str(func)), next(a for a in args if isinstance(a, SparseTensor)))

    # What the package installs, for it is written with sparse tensors: what an operator is made of, and the way back
    # from inner tensors and to those with history.
    __tensor_unflatten__: ClassVar[Callable[..., SparseTensor]]
    __weft_parts__: ClassVar[Callable[[SparseTensor], list[Tensor]]]
    __weft_open__: ClassVar[Callable[[Op, tuple[Any, ...]], Any]]
    __weft_write__: ClassVar[Callable[[Op, tuple[Any, ...]], Any]]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from weft.sparse.printing import text_of  # it is here for people alone

        return text_of(self)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec) if spec else repr(self)


opening_classes.append(SparseTensor)


def layout_name(tensor: Tensor) -> str:
    """PyTorch's name of a layout in messages: Strided, Sparse, SparseCsr, SparseCsc."""
    if not isinstance(tensor, SparseTensor):
        return "Strided"
    return {"csr": "SparseCsr", "csc": "SparseCsc"}.get(tensor.layout.rpartition("_")[2], "Sparse")


def refusal(name: str, tensor: Tensor) -> Unsupported:
    """The error for an operator without a meaning for this layout."""
    return Unsupported(
        f"Could not run 'aten::{name}' with arguments of layout {tensor.layout}: weft has no such operator on sparse "
        "tensors (docs/sparse.md lists those that it has); use .to_dense(), or compute with .values()"
    )


def of_body(body: Body) -> SparseTensor:
    """A sparse tensor without history around a body."""
    pattern, values = body.pattern, body.values
    kind = tensor_type(values.dtype, pattern.dims, values.device.type)
    env = getattr(values._data, "env", None)
    if env is None:
        env = getattr(pattern.first._data, "env", None)
    payload = WrapperPayload(SparseTensor, {}, kind, contiguous(pattern.dims), env)
    return shaped(SparseTensor, payload, {"_body": body})  # type: ignore[return-value]
