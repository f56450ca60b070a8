"""Eigenvalues and eigenvectors of matrices that need not be Hermitian: eig, eigvals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.linalg.square import _adjoint, _check_square, _iterated
from weft.ops.batching import same
from weft.ops.layout import column_major
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.types.tensor_type import TensorType, tensor_type

Array = Any


def _eig_type(self: TensorType) -> tuple[TensorType, TensorType]:
    _check_square("eig", self)
    dtype = None if self.dtype is None else self.dtype.to_complex()
    if not self.is_complete:
        return tensor_type(dtype, None), tensor_type(dtype, None)
    return tensor_type(dtype, self.shape[:-1], self.device), tensor_type(dtype, self.shape, self.device)


def _eig(A: Array) -> tuple[Array, Array]:
    values, vectors = _iterated("eig", A, lambda: np.linalg.eig(A))
    kind = np.result_type(A.dtype, np.complex64)
    return values.astype(kind, copy=False), vectors.astype(kind, copy=False)


def _eig_back(gs: Sequence[Any], self_dtype: Any, result0: Any, result1: Any) -> Any:
    """V^-H (diag(gL) + (V^H gV - V^H V Re diag(V^H gV)) / E) V^H, where E holds the conjugate
    differences of eigenvalues."""
    gL, gV = gs
    L, V = result0, result1
    VH = _adjoint(V)
    if gV is None:
        inner = aten.unsqueeze(gL, -1) * VH
    else:
        turned = aten.matmul(VH, gV)
        along = aten.to(aten.real(aten.diagonal(turned, 0, -2, -1)), V.dtype)
        apart = aten.unsqueeze(aten.conj(L), -2) - aten.unsqueeze(aten.conj(L), -1)
        same = aten.eye(L.dims[-1], dtype=V.dtype)
        inner = (turned - aten.matmul(VH, V) * aten.unsqueeze(along, -2)) / (apart + same) * (1 - same)
        inner = aten.matmul(inner if gL is None else inner + aten.diag_embed(gL), VH)
    out = aten.linalg_solve(VH, inner)
    return out if self_dtype.is_complex else aten.real(out)


define(
    "aten::linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    "The eigenvalues (complex, in no order) and eigenvectors (columns of norm 1) of square matrices. "
    "Gradients exist where they are distinct and the loss does not hang on the vectors' phases.",
    precision="float32",
    type=_eig_type,
    kernel=_eig,
    lies=lambda self: (None, column_major(self.ndim)),
    vjp={"self": _eig_back},
    batch=same,
    effect="raises",
    public=("linalg",),
    out=Out("castable"),
)
define("aten::linalg_eigvals(Tensor self) -> Tensor", "The eigenvalues of square matrices: complex, in no order.",
precision="float32",
       decompose=lambda self: aten.linalg_eig(self)[0], public=("linalg",), out=Out("castable"))
