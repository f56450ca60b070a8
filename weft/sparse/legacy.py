"""The older constructors: weft.sparse.FloatTensor(indices, values, size) and its like, of layout sparse_coo."""

from __future__ import annotations

from typing import Any

from weft.sparse.making import sparse_coo_tensor
from weft.sparse.tensor import SparseTensor
from weft.support.errors import ArgumentError
from weft.tensor.legacy import TYPE_NAMES
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType


class _SparseType(type):
    """A class whose calls make sparse tensors, and whose instances are those of its dtype."""

    dtype: DType

    def __call__(cls, *args: Any, device: Any = None) -> SparseTensor:
        """Of nothing: no sizes; of sizes alone: without values, of its dtype; of indices [dims, nnz], values and maybe
        a size: of the values' dtype."""
        first = args[0] if args else None
        if len(args) in (2, 3) and isinstance(first, Tensor) and isinstance(args[1], Tensor):
            return sparse_coo_tensor(*args, device=device)
        if len(args) == 1 and isinstance(first, (Size, tuple, list)):
            return sparse_coo_tensor(size=tuple(first), dtype=cls.dtype, device=device)
        if all(isinstance(size, int) for size in args):
            return sparse_coo_tensor(size=args or (0,), dtype=cls.dtype, device=device)
        shown = ", ".join(type(a).__name__ for a in args)
        raise ArgumentError(f"{cls.__name__}: expected (indices, values, size) or sizes, got ({shown})")

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, SparseTensor) and instance.is_sparse and instance.dtype is cls.dtype


def _sparse_type(name: str, dtype: DType) -> Any:
    doc = f"Sparse tensors of {dtype}: {name}(indices, values, size); isinstance(x, {name}) asks for layout and dtype."
    return _SparseType(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "weft.sparse"})


TYPES: dict[str, Any] = {f"{name}Tensor": _sparse_type(f"{name}Tensor", dtype) for name, dtype in TYPE_NAMES.items()}
