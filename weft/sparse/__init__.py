"""Floor 12: sparse tensors, of layouts sparse_coo, sparse_csr and sparse_csc; may import from all floors.

pattern.py says where values are, tensor.py is SparseTensor, history.py its steps of autograd and its other forms.
rules.py is asked for every operator with a sparse operand: pointwise.py, products.py, shapes.py, softmax.py say what
the operators mean, writes.py what those in place do. making.py makes them of indices and values, legacy.py by their
older constructors, methods.py has the methods of tensors, embedding.py the sparse gradient of a table. Start reading at
history.py; docs/sparse.md is for users.
"""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.sparse import history as _history
from weft.sparse import products as _products
from weft.sparse import rules as _rules
from weft.sparse import writes as _writes
from weft.sparse.making import check_sparse_tensor_invariants, spdiags
from weft.sparse.softmax import log_softmax, softmax
from weft.sparse.tensor import SparseTensor
from weft.support.absent import refuse
from weft.tensor.tensor import Tensor

__all__ = [
    "SparseTensor", "addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax",
    "spdiags", "sum",
]

SparseTensor.__tensor_unflatten__ = staticmethod(_history.tensor_of_parts)
SparseTensor.__weft_parts__ = staticmethod(_history.parts_of)
SparseTensor.__weft_open__ = staticmethod(_rules.open_operator)
SparseTensor.__weft_write__ = staticmethod(_writes.write_operator)


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """mat1 @ mat2: dense if one of them is, else sparse. Gradients flow to both. reduce: what is made of the products
    of a row of mat1 with a column of a dense mat2: their "sum", "mean", "amax" or "amin" (0 where there are none).
    Raises ValueProblem for another reduce."""
    return aten.mm(mat1, mat2) if reduce == "sum" else _products.reduced(mat1, mat2, reduce)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2)."""
    return aten.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)  # type: ignore[no-any-return]


def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2), at the places of the sparse input, where alone it is computed."""
    return _products.sampled_addmm(input, mat1, mat2, beta, alpha)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all elements, or along dims: sparse, or dense where no dim with indices is left."""
    return aten.sum(input, dim, dtype=dtype)  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    """The older constructors are made when one is first asked for."""
    if name.endswith("Tensor"):
        from weft.sparse.legacy import TYPES

        if name in TYPES:
            return TYPES[name]
    refuse("module 'weft.sparse'", name)
