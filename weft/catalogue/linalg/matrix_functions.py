"""Products and functions of matrices: kron, cross, multi_dot, matrix_power, matrix_exp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.linalg.square import _adjoint, _check_square
from weft.catalogue.samples import F, P, case, draw
from weft.ops.batching import same
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims, dims_text, normalize_dim
from weft.support.errors import DTypeError, ShapeError
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any

# ---- kron


def _kron(self: Any, other: Any) -> Any:
    rank = max(self.ndim, other.ndim)
    a, b = ((1,) * (rank - x.ndim) + tuple(x.dims) for x in (self, other))
    left = aten.reshape(self, tuple(d for pair in zip(a, (1,) * rank, strict=True) for d in pair))
    right = aten.reshape(other, tuple(d for pair in zip((1,) * rank, b, strict=True) for d in pair))
    return aten.reshape(left * right, tuple(x * y for x, y in zip(a, b, strict=True)))


define(
    "aten::kron(Tensor self, Tensor other) -> Tensor",
    "The Kronecker product: every element of self times the whole of other.",
    decompose=_kron,
    out=Out("castable"),
    samples=draw(case(F(2, 3), F(3, 2)), case(F(2), F(3, 2))),
    reference=np.kron,
)

# ---- cross


def _check_cross(name: str, self: Any, other: Any) -> None:
    if self.ndim != other.ndim:
        raise ShapeError(f"{name}: inputs must have the same number of dimensions.")


def _linalg_cross(self: Any, other: Any, dim: int) -> Any:
    _check_cross("linalg.cross", self, other)
    at = normalize_dim("linalg.cross", dim, self.ndim)
    if not (shape_env.equal(self.dims[at], 3) and shape_env.equal(other.dims[at], 3)):
        raise ShapeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {self.dims[at]} and {other.dims[at]}"
        )
    dims = broadcast_dims("linalg.cross", [tuple(self.dims), tuple(other.dims)])
    a, b = aten.expand(self, dims), aten.expand(other, dims)
    return aten.roll(a, -1, at) * aten.roll(b, -2, at) - aten.roll(a, -2, at) * aten.roll(b, -1, at)


def _cross(self: Any, other: Any, dim: int | None) -> Any:
    if dim is not None:
        return _linalg_cross(self, other, dim)
    _check_cross("linalg.cross", self, other)
    for at in range(self.ndim):
        if shape_env.equal(self.dims[at], 3) and shape_env.equal(other.dims[at], 3):
            return _linalg_cross(self, other, at)
    raise ShapeError("no dimension of size 3 in input")


define(
    "aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    "The cross product of vectors of 3 elements along dim.",
    decompose=_linalg_cross,
    public=("linalg",),
    out=True,
    samples=draw(case(F(4, 3), F(4, 3))),
    reference=lambda a, b, dim: np.cross(a, b, axis=dim),
)
define(
    "aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
    "The cross product of vectors of 3 elements along dim, by default the first that has 3.",
    decompose=_cross,
    out=True,
    samples=draw(case(F(4, 3), F(4, 3), 1)),
    reference=lambda a, b, dim: np.cross(a, b, axis=dim),
)

# ---- products of several matrices


def _cheapest(sizes: Sequence[Dim]) -> list[list[int]]:
    """Where to cut each chain i..j of matrices [sizes[i], sizes[i+1]], by dynamic programming;
    symbolic sizes go left to right."""
    n = len(sizes) - 1
    cuts = [[max(i, j - 1) for j in range(n)] for i in range(n)]
    numbers = [d for d in sizes if isinstance(d, int)]
    if len(numbers) != len(sizes):
        return cuts
    cost = [[0] * n for _ in range(n)]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            ways = [cost[i][k] + cost[k + 1][j] + numbers[i] * numbers[k + 1] * numbers[j + 1] for k in range(i, j)]
            cost[i][j] = min(ways)
            cuts[i][j] = i + ways.index(cost[i][j])
    return cuts


def _multi_dot(tensors: Sequence[Any]) -> Any:
    if len(tensors) < 2:
        raise ShapeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    chain = list(tensors)
    first_is_vector, last_is_vector = chain[0].ndim == 1, chain[-1].ndim == 1
    for i, x in enumerate(chain):
        ends = i in (0, len(chain) - 1)
        if x.ndim != 2 and not (ends and x.ndim == 1):
            raise ShapeError(
                "multi_dot(): "
                f"the {'first and last tensors must be 1D or 2D' if ends else 'middle tensors must be 2D'} but "
                f"got {x.ndim}D"
            )
        if x.dtype is not chain[0].dtype:
            raise DTypeError(
                f"multi_dot(): all tensors must have be the same dtype but got {chain[0].dtype} and {x.dtype}"
            )
    if first_is_vector:
        chain[0] = aten.unsqueeze(chain[0], 0)
    if last_is_vector:
        chain[-1] = aten.unsqueeze(chain[-1], -1)
    for i in range(len(chain) - 1):
        if not shape_env.equal(chain[i].dims[1], chain[i + 1].dims[0]):
            raise ShapeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {dims_text(chain[i].dims)} and "
                f"{dims_text(chain[i + 1].dims)} cannot be multiplied"
            )
    cuts = _cheapest([chain[0].dims[0], *(x.dims[1] for x in chain)])

    def product(i: int, j: int) -> Any:
        return chain[i] if i == j else aten.mm(product(i, cuts[i][j]), product(cuts[i][j] + 1, j))

    out = product(0, len(chain) - 1)
    kept = [d for d, gone in zip(out.dims, (first_is_vector, last_is_vector), strict=True) if not gone]
    return aten.reshape(out, tuple(kept)) if first_is_vector or last_is_vector else out


for _name, _public in (("linalg_multi_dot", ("linalg",)), ("chain_matmul", ("weft",))):
    define(
        f"aten::{_name}(Tensor[] tensors) -> Tensor",
        "The product of several matrices (the first and last may be vectors), in the order that costs least.",
        decompose=_multi_dot,
        public=_public,
        out=True,
        samples=draw(case((F(2, 3), F(3, 4), F(4, 2)))),
        reference=lambda tensors: np.linalg.multi_dot(tensors),
    )

# ---- powers
_PLACES: dict[str, tuple[str, ...]] = {"linalg_matrix_power": ("linalg",), "matrix_power": ("weft", "Tensor")}


def _matrix_power(self: Any, n: int) -> Any:
    _check_square("matrix_power", tensor_type(self.dtype if n < 0 else None, tuple(self.dims)))
    if n == 0:
        # keeps self's history: a gradient of 0
        return aten.where(aten.ones((), dtype=dt.bool_), aten.eye(self.dims[-1], dtype=self.dtype), self)
    base = aten.linalg_inv(self) if n < 0 else self
    n = abs(n)
    if n == 1:
        return base if base is not self else aten.clone(self)
    out = None
    while n:
        if n & 1:
            out = base if out is None else aten.matmul(out, base)
        n >>= 1
        if n:
            base = aten.matmul(base, base)
    return out


for _name, _places in _PLACES.items():
    define(
        f"aten::{_name}(Tensor self, int n) -> Tensor",
        "The n-th power of square matrices, by squaring; of the inverse where n is negative.",
        decompose=_matrix_power,
        public=_places,
        out=True,
        samples=draw(case(F(2, 3, 3), 3), case(F(3, 3), 0)),
        reference=np.linalg.matrix_power,
    )

# ---- the exponential


def _exp_type(self: TensorType) -> TensorType:
    if self.dtype is not None and not self.dtype.is_differentiable:
        raise DTypeError(f"linalg.matrix_exp: Expected a floating point or complex tensor as input. Got {self.dtype}")
    _check_square("matrix_exp", self.with_dtype(dt.float64))  # half precisions are taken too
    return self


PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)
# the norm up to which the approximant of order 13 is exact in double precision (Higham, 2005)
PADE_REACH = 5.371920351148152


def _matrix_exp(A: Array) -> Array:
    """Scaling and squaring with the Pade approximant of order 13, in double precision."""
    if A.size == 0:
        return A.copy()
    x = A.astype(np.complex128 if A.dtype.kind == "c" else np.float64)
    size = np.abs(x).sum(-2).max(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        halvings = np.where(np.isfinite(size), np.maximum(0, np.ceil(np.log2(size / PADE_REACH))), 0).astype(np.int64)
    x = x / (2.0**halvings)[..., None, None]
    b, one = PADE, np.eye(A.shape[-1])
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    out = np.linalg.solve(even - odd, even + odd)
    for i in range(int(halvings.max(initial=0))):
        out = np.where((halvings > i)[..., None, None], out @ out, out)
    return out.astype(A.dtype)


def _matrix_exp_back(g: Any, self: Any) -> Any:
    """The upper right block of exp([[A^H, g], [0, A^H]])."""
    n = self.dims[-1]
    A = _adjoint(self)
    rows = aten.cat([aten.cat([A, g], -1), aten.cat([aten.zeros_like(A), A], -1)], -2)
    return aten.narrow(aten.narrow(aten.linalg_matrix_exp(rows), -2, 0, n), -1, n, n)


define(
    "aten::linalg_matrix_exp(Tensor self) -> Tensor",
    "The exponential of square matrices [..., n, n].",
    type=_exp_type,
    kernel=_matrix_exp,
    vjp={"self": _matrix_exp_back},
    batch=same,
    public=("linalg",),
    samples=draw(case(P(3, 3)), case(F(2, 2, 2))),
    reference=lambda A: sum(
        (np.linalg.matrix_power(A, k) / float(np.prod(np.arange(1.0, k + 1))) for k in range(60)),
        start=np.zeros_like(A),
    ),
)
define(
    "aten::matrix_exp(Tensor self) -> Tensor",
    "The exponential of square matrices.",
    decompose=lambda self: aten.linalg_matrix_exp(self),
    samples=draw(case(P(3, 3))),
)
