"""The matmul family: mm, bmm, mv, dot, outer, matmul of any rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.ops.batching import Flags, everywhere
from weft.ops.op import Op, Out, define
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims, dims_text
from weft.ops.tangents import product
from weft.support.errors import DTypeError, NotForDType, ShapeError
from weft.support.knobs import knobs
from weft.support.seams import native_product
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any


def joint_dtype(name: str, a: TensorType, b: TensorType) -> dt.DType | None:
    if a.dtype is not None and b.dtype is not None and a.dtype is not b.dtype:
        raise DTypeError(
            f"{name}: expected m1 and m2 to have the same dtype, but got: {a.dtype.name} != {b.dtype.name}"
        )
    if a.dtype is dt.bool_:
        raise NotForDType(f'"{name}" not implemented for \'Bool\'')
    return a.dtype or b.dtype


def _operand(x: Array) -> Array:
    """An array whose last two dims BLAS can read; others (broadcast, doubly strided) are copied, since NumPy would
    multiply them one by one."""
    size = x.itemsize
    if size != 2 and x.flags.c_contiguous:
        return x
    if size == 2 and x.dtype.kind in "fV":  # the half precisions
        return x.astype(np.float32)
    if x.ndim == 0 or x.size == 0 or size in x.strides[-2:]:
        return x if 0 not in x.strides[-2:] else np.ascontiguousarray(x)
    return np.ascontiguousarray(x)


NATIVE_FROM = 1 << 16  # multiplications: below, NumPy is as fast, on one thread


def multiply(a: Array, b: Array) -> Array:
    """The product of matrices or of batches of them, by the native product where it is large and of floats,
    else by NumPy's matmul; half precisions accumulate in float32."""
    if a.size * b.shape[-1] >= NATIVE_FROM and a.dtype.kind == "f" and a.itemsize > 2 and knobs.backend == "llvm":
        native = native_product(a, b)
        if native is not None:
            return native
    out = np.matmul(_operand(a), _operand(b))
    return out if out.dtype == a.dtype else np.asarray(out).astype(a.dtype)


def conjugate(x: Any) -> Any:
    """The complex conjugate; a real tensor is itself, without a copy."""
    return aten.conj(x) if x.dtype.is_complex else x


def mm_type(self: TensorType, mat2: TensorType) -> TensorType:
    dtype = joint_dtype("mm", self, mat2)
    if not (self.is_complete and mat2.is_complete):
        return tensor_type(dtype, None if self.dims is None else (None, None))
    if self.ndim != 2:
        raise ShapeError("self must be a matrix")
    if mat2.ndim != 2:
        raise ShapeError("mat2 must be a matrix")
    (n, k), (k2, m) = self.shape, mat2.shape
    if not shape_env.equal(k, k2):
        raise ShapeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {k2}x{m})")
    return tensor_type(dtype, (n, m), self.device)


mm = define(
    "aten::mm(Tensor self, Tensor mat2) -> Tensor",
    "Product of matrices: [n, k], [k, m] -> [n, m].",
    precision="lower",
    type=mm_type,
    kernel=multiply,
    reads_any_strides=True,
    vjp={
        "self": lambda g, mat2: aten.mm(g, conjugate(aten.t(mat2))),
        "mat2": lambda g, self: aten.mm(conjugate(aten.t(self)), g),
    },
    batch=lambda op, size, flags, self, mat2: aten.matmul(self, mat2),
    jvp=product, padding=0, by_rank=True,
    out=True,
    samples=draw(case(F(2, 3), F(3, 4)), case(F(0, 3), F(3, 2)), case(F(2, 0), F(0, 2))),
    reference=np.matmul,
)


def bmm_type(self: TensorType, mat2: TensorType) -> TensorType:
    dtype = joint_dtype("bmm", self, mat2)
    if not (self.is_complete and mat2.is_complete):
        return tensor_type(dtype, None if self.dims is None else (None, None, None))
    if self.ndim != 3 or mat2.ndim != 3:
        raise ShapeError(f"batch1 must be a 3D tensor; got {self.ndim}D and {mat2.ndim}D")
    (b, n, k), (b2, k2, m) = self.shape, mat2.shape
    if not (shape_env.equal(b, b2) and shape_env.equal(k, k2)):
        raise ShapeError(
            f"Expected size for first two dimensions of batch2 tensor to be: {dims_text((b, k))} but got: "
            f"{dims_text((b2, k2))}."
        )
    return tensor_type(dtype, (b, n, m), self.device)


def _bmm_batch(op: Op, size: Dim, flags: Flags, self: Any, mat2: Any) -> Any:
    a, b = everywhere(size, flags, (self, mat2))
    flat = aten.bmm(aten.flatten(a, 0, 1), aten.flatten(b, 0, 1))
    return aten.reshape(flat, (size, a.dims[1], *flat.dims[1:]))


bmm = define(
    "aten::bmm(Tensor self, Tensor mat2) -> Tensor",
    "Products of matrices in batches: [b, n, k], [b, k, m] -> [b, n, m].",
    precision="lower",
    type=bmm_type,
    kernel=multiply,
    reads_any_strides=True,
    vjp={
        "self": lambda g, mat2: aten.bmm(g, conjugate(aten.transpose(mat2, 1, 2))),
        "mat2": lambda g, self: aten.bmm(conjugate(aten.transpose(self, 1, 2)), g),
    },
    batch=_bmm_batch, jvp=product, padding=0,
    out=True,
    samples=draw(case(F(2, 2, 3), F(2, 3, 4))),
    reference=np.matmul,
)


def mv_type(self: TensorType, vec: TensorType) -> TensorType:
    dtype = joint_dtype("mv", self, vec)
    if not (self.is_complete and vec.is_complete):
        return tensor_type(dtype, None if self.dims is None else (None,))
    if self.ndim != 2 or vec.ndim != 1:
        raise ShapeError(f"vector + matrix @ vector expected, got {vec.ndim}, {self.ndim}, {vec.ndim}")
    if not shape_env.equal(self.shape[1], vec.shape[0]):
        raise ShapeError(
            f"size mismatch, got input ({self.shape[0]}), mat ({self.shape[0]}x{self.shape[1]}), vec ({vec.shape[0]})"
        )
    return tensor_type(dtype, (self.shape[0],), self.device)


mv = define(
    "aten::mv(Tensor self, Tensor vec) -> Tensor",
    "Matrix times vector: [n, k], [k] -> [n].",
    type=mv_type,
    decompose=lambda self, vec: aten._unsafe_view(aten.mm(self, aten.unsqueeze(vec, 1)), self.dims[:1]),
    vjp={
        "self": lambda g, vec: aten.unsqueeze(g, 1) * conjugate(vec),
        "vec": lambda g, self: aten.mv(conjugate(aten.t(self)), g),
    },
    padding=0, by_rank=True,
    out=True,
    samples=draw(case(F(2, 3), F(3))),
    reference=np.matmul,
)


def _dot_type(self: TensorType, tensor: TensorType) -> TensorType:
    if not (self.is_complete and tensor.is_complete):
        return tensor_type(self.dtype, ())
    if self.ndim != 1 or tensor.ndim != 1:
        raise ShapeError(f"1D tensors expected, but got {self.ndim}D and {tensor.ndim}D tensors")
    if self.dtype is not tensor.dtype:
        raise DTypeError(
            f"dot : expected both vectors to have same dtype, but found {self.dtype} and {tensor.dtype}"
        )
    if not shape_env.equal(self.shape[0], tensor.shape[0]):
        raise ShapeError(
            "inconsistent tensor size, expected tensor "
            f"{dims_text(self.shape)} and src {dims_text(tensor.shape)} to have the same number of elements, "
            f"but got {self.shape[0]} and {tensor.shape[0]} elements respectively"
        )
    return tensor_type(self.dtype, (), self.device)


def _dot(self: Any, tensor: Any) -> Any:
    return aten._unsafe_view(aten.mm(aten.unsqueeze(self, 0), aten.unsqueeze(tensor, 1)), ())


define(
    "aten::dot(Tensor self, Tensor tensor) -> Tensor",
    "Sum of the products of two vectors' elements.",
    type=_dot_type,
    decompose=_dot,
    vjp={"self": lambda g, tensor: g * conjugate(tensor), "tensor": lambda g, self: g * conjugate(self)},
    padding=0, by_rank=True,
    out=True,
    samples=draw(case(F(3), F(3))),
    reference=np.dot,
)
define(
    "aten::vdot(Tensor self, Tensor other) -> Tensor",
    "dot with the first vector conjugated.",
    type=_dot_type,
    decompose=lambda self, other: _dot(conjugate(self), other),
    vjp={"self": lambda g, other: conjugate(g) * other, "other": lambda g, self: g * self},
    out=True,
)


def _inner(self: Any, other: Any) -> Any:
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    if not shape_env.equal(self.dims[-1], other.dims[-1]):  # (tensordot would repeat a single element)
        raise ShapeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{dims_text(self.dims)} and {dims_text(other.dims)}"
        )
    if self.ndim == other.ndim == 1:
        return aten.dot(self, other)
    return aten.tensordot(self, other, [-1], [-1])


define(
    "aten::inner(Tensor self, Tensor other) -> Tensor", "Sums of products over the last dims.",
    decompose=_inner,
    out=True,
)


def _outer(self: Any, vec2: Any) -> Any:
    if self.ndim != 1 or vec2.ndim != 1:
        raise ShapeError(
            f"outer: Expected 1-D argument {'self' if self.ndim != 1 else 'vec2'}, "
            f"but got {self.ndim if self.ndim != 1 else vec2.ndim}-D"
        )
    return aten.unsqueeze(self, 1) * vec2


for _name in ("outer", "ger"):
    define(
        f"aten::{_name}(Tensor self, Tensor vec2) -> Tensor",
        "All products of two vectors' elements: [n], [m] -> [n, m].", decompose=_outer, out=Out("castable"),
    )

# ---- matmul: any ranks


def _matmul(self: Any, other: Any) -> Any:
    n, m = self.ndim, other.ndim
    if n == 0 or m == 0:
        raise ShapeError(f"both arguments to matmul need to be at least 1D, but they are {n}D and {m}D")
    if n == 1 and m == 1:
        return aten.dot(self, other)
    if n == 2 and m == 2:
        return aten.mm(self, other)
    if n == 2 and m == 1:
        return aten.mv(self, other)
    if n == 1:
        out = _matmul(aten.unsqueeze(self, 0), other)
        return aten._unsafe_view(out, (*out.dims[:-2], out.dims[-1]))
    if m <= 2:
        lead = self.dims[:-1]
        rows = aten.reshape(self, (dm.product(lead), self.dims[-1]))
        product = aten.mv if m == 1 else aten.mm
        return aten._unsafe_view(product(rows, other), (*lead, *other.dims[1:]))
    return _batched(self, other)


def _batched(self: Any, other: Any) -> Any:
    batch = broadcast_dims("matmul", [tuple(self.dims[:-2]), tuple(other.dims[:-2])])
    count = dm.product(batch)
    left, right = tuple(self.dims[-2:]), tuple(other.dims[-2:])
    a = (
        aten.reshape(aten.expand(self, (*batch, *left)), (count, *left)) if self.ndim != 3 or len(batch) != 1
        else aten.expand(self, (*batch, *left))
    )
    b = aten.reshape(aten.expand(other, (*batch, *right)), (count, *right))
    return aten._unsafe_view(aten.bmm(a, b), (*batch, left[0], right[1]))


for _name, _public in (("matmul", ("weft", "Tensor")), ("linalg_matmul", ("linalg",))):
    define(
        f"aten::{_name}(Tensor self, Tensor other) -> Tensor",
        "Matrix product: vectors and matrices as in mathematics; dims before the last two are batches, "
        "which broadcast.",
        precision="lower",
        decompose=_matmul,
        **({"padding": 0, "by_rank": True} if _name == "matmul" else {}),
        public=_public,
        out=True,
    )
