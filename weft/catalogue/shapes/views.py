"""Views that change the dims as a whole: view, reshape, permute, transpose. Gradients and twins follow (twins.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.catalogue.shapes.batching import known_sizes, moved
from weft.catalogue.shapes.twins import view
from weft.ops.batching import shifted
from weft.ops.geometry import Geometry, is_contiguous, merge_strides
from weft.ops.op import define, itself
from weft.ops.packet import aten
from weft.ops.rules import dims_text, normalize_dim
from weft.support.errors import ShapeError
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim

Dims = tuple[Dim, ...]

# ---- the same elements in other dims


def infer_size(size: Sequence[Dim], dims: Dims) -> Dims:
    """The requested size with its -1 filled in. Raises ShapeError if the number of elements differs."""
    numel = dm.product(dims)
    unknown = [i for i, d in enumerate(size) if shape_env.is_left_open(d)]
    if len(unknown) > 1:
        raise ShapeError("only one dimension can be inferred")
    for d in size:
        if type(d) is not int or d < -1:
            shape_env.refuse_less(d, -1, lambda d=d: ShapeError(f"invalid shape dimension {d}"))  # type: ignore[misc]
    if not unknown:
        _check_numel(dm.product(size), numel, size)
        return tuple(size)
    rest = dm.product(d for i, d in enumerate(size) if i != unknown[0])
    shape_env.refuse_equal(rest, 0, lambda: ShapeError(
        f"cannot reshape tensor of 0 elements into shape {dims_text(size)} because the unspecified dimension size -1 "
        "can be any value and is ambiguous"))
    inferred = dm.floordiv(numel, rest)
    _check_numel(inferred * rest, numel, size)
    return tuple(inferred if i == unknown[0] else d for i, d in enumerate(size))


def _check_numel(wanted: Dim, numel: Dim, size: Sequence[Dim]) -> None:
    if not shape_env.equal(wanted, numel):
        raise ShapeError(f"shape '{dims_text(size)}' is invalid for input of size {numel}")


def _reshape(g: Geometry, shape: Sequence[Dim]) -> Geometry | None:
    dims = infer_size(shape, g.dims)
    strides = merge_strides(g, dims)
    return None if strides is None else Geometry(dims, strides, g.offset)


def _view(g: Geometry, size: Sequence[Dim]) -> Geometry:
    geometry = _reshape(g, size)
    if geometry is None:
        raise ShapeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return geometry


def _numpy_view(x: Any, size: Sequence[int]) -> Any:
    if not x.flags.c_contiguous or x.size == 0 or (size and min(size) < -1):  # any negative size is a -1 to NumPy
        return None
    try:
        return x.reshape(size)
    except (ValueError, TypeError):
        return None  # the geometry says what is wrong


def reshaped_back(g: Any, self_dims: Any) -> Any:
    """The gradient of whatever only changes the dims."""
    return aten.reshape(g, self_dims)


view_ = view(
    "aten::view(Tensor(a) self, int[] size) -> Tensor(a)",
    "The same elements in other dims, without a copy; one size may be -1. Raises ShapeError where strides "
    "cannot express it.",
    _view,
    _numpy_view,
    inverse=reshaped_back,
    batch=moved(lambda dims, size: ("view", ((dims[0], *known_sizes(dims, size)),))),
    public=("Tensor",),
    samples=draw(case(F(2, 6), (3, 4)), case(F(2, 6), (-1,)), case(F(4), (2, 1, 2))),
    reference=lambda x, size: np.reshape(x, size),
    keeps_order=True,
    compiled=_reshape,
    identity=itself,
)

reshape = view(
    "aten::reshape(Tensor(a) self, int[] shape) -> Tensor(a)",
    "The same elements in other dims: a view where strides can express it, else a copy.",
    _reshape,
    _numpy_view,
    node="ViewBackward0.reshape",
    inverse=reshaped_back,
    batch=moved(lambda dims, shape: ("reshape", ((dims[0], *known_sizes(dims, shape)),))),
    samples=draw(case(F(2, 6), (3, 4)), case(F(2, 6), (-1, 2)), case(F(), (1,))),
    reference=lambda x, shape: np.reshape(x, shape),
    keeps_order=True,
    may_copy=True,
    identity=itself,
)

define(
    "aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    "The tensor viewed with the dims of other.",
    decompose=lambda self, other: aten.view(self, other.dims),
    public=("Tensor",),
)

define(
    "aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    "The tensor reshaped to the dims of other.",
    decompose=lambda self, other: aten.reshape(self, other.dims),
    public=("Tensor",),
)


def _flatten(self: Any, start_dim: int, end_dim: int) -> Any:
    start = normalize_dim("flatten", start_dim, self.ndim)
    end = normalize_dim("flatten", end_dim, self.ndim)
    if start > end:
        raise ShapeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if self.ndim == 0:
        return aten.reshape(self, (1,))
    if start == end:
        return self
    dims = self.dims
    return aten.reshape(self, (*dims[:start], dm.product(dims[start : end + 1]), *dims[end + 1 :]))


define(
    "aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
    "The dims from start_dim to end_dim joined into one.",
    decompose=_flatten,
    samples=draw(case(F(2, 3, 4)), case(F(2, 3, 4), 1), case(F())),
    reference=lambda x, a, b: x.reshape((*x.shape[:a], -1) if b == -1 else x.shape),
)


def _ravel(g: Geometry) -> Geometry | None:
    return Geometry((dm.product(g.dims),), (1,), g.offset) if is_contiguous(g) else None


ravel = view(
    "aten::ravel(Tensor(a) self) -> Tensor(a)",
    "All elements in one dim: a view where they lie row-major, else a copy.",
    _ravel,
    node="ViewBackward0.ravel",
    inverse=reshaped_back,
    batch=moved(lambda dims: ("reshape", ((dims[0], dm.product(dims[1:])),))),
    samples=draw(case(F(2, 6)), case(F()), case(F(4))),
    reference=lambda x: np.ravel(x),
    keeps_order=True,
    compiled=lambda g: _reshape(g, (-1,)),
    may_copy=True,
    identity=itself,
)


def _unflatten(self: Any, dim: int, sizes: Sequence[Dim]) -> Any:
    at = normalize_dim("unflatten", dim, self.ndim)
    if not sizes:
        raise ShapeError("unflatten: sizes must be non-empty")
    try:
        filled = infer_size(sizes, self.dims[at : at + 1])
    except ShapeError:
        raise ShapeError(
            f"unflatten: Provided sizes {dims_text(sizes)} don't multiply up to the size of dim {at} ({self.dims[at]}) "
            "in the input tensor"
        ) from None
    return aten.view(self, (*self.dims[:at], *filled, *self.dims[at + 1 :]))


define(
    "aten::unflatten.int(Tensor(a) self, int dim, int[] sizes) -> Tensor(a)",
    "One dim opened into several.",
    decompose=_unflatten,
    samples=draw(case(F(2, 6), 1, (2, 3)), case(F(6), 0, (-1, 2))),
)

# ---- order of the dims


def permuted(g: Geometry, order: Sequence[int]) -> Geometry:
    """The dims (or some of them) in another order."""
    return Geometry(tuple(g.dims[d] for d in order), tuple(g.strides[d] for d in order), g.offset)


def _permute(g: Geometry, dims: Sequence[int]) -> Geometry:
    if len(dims) != g.ndim:
        raise ShapeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {g.ndim} is not equal to len(dims) = {len(dims)}"
        )
    order = [normalize_dim("permute", d, g.ndim) for d in dims]
    if len(set(order)) != len(order):
        raise ShapeError("permute(): duplicate dims are not allowed.")
    return permuted(g, order)


def _numpy_permute(x: Any, dims: Sequence[int]) -> Any:
    try:
        return x.transpose(dims) if len(dims) == x.ndim else None
    except ValueError:
        return None


def _inverse_permute(g: Any, dims: Sequence[int]) -> Any:
    inverse = [0] * len(dims)
    for i, d in enumerate(dims):
        inverse[d % len(dims)] = i
    return aten.permute(g, inverse)


permute = view(
    "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)",
    "The tensor with its dims in another order.",
    _permute,
    _numpy_permute,
    inverse=_inverse_permute,
    batch=moved(lambda dims, order: ("permute", ((0, *shifted(order, len(dims) - 1)),))),
    samples=draw(case(F(2, 3, 4), (2, 0, 1)), case(F(2, 3), (-1, 0))),
    reference=lambda x, dims: np.transpose(x, dims),
    identity=lambda self, dims: 0 if list(dims) == list(range(len(dims))) else None,
)


def _transpose(g: Geometry, dim0: int, dim1: int) -> Geometry:
    a, b = normalize_dim("transpose", dim0, g.ndim), normalize_dim("transpose", dim1, g.ndim)
    order = list(range(g.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return permuted(g, order)


def _numpy_transpose(x: Any, dim0: int, dim1: int) -> Any:
    try:
        return x.swapaxes(dim0, dim1)
    except ValueError:
        return None


def _transpose_moved(dims: Dims, dim0: int, dim1: int) -> tuple[str, tuple[int, ...]]:
    return ("transpose", shifted((dim0, dim1), len(dims) - 1)) if len(dims) > 1 else ("alias", ())


transpose = view(
    "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
    "The tensor with two dims exchanged.",
    _transpose,
    _numpy_transpose,
    inverse=lambda g, dim0, dim1: aten.transpose(g, dim0, dim1),
    batch=moved(_transpose_moved),
    samples=draw(case(F(2, 3, 4), 0, 2), case(F(2, 3), -1, 0)),
    reference=lambda x, a, b: np.swapaxes(x, a, b),
)


def _t(g: Geometry) -> Geometry:
    if g.ndim > 2:
        raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {g.ndim}D")
    return permuted(g, range(g.ndim)[::-1])


t = view(
    "aten::t(Tensor(a) self) -> Tensor(a)",
    "The transpose of a matrix; tensors with fewer dims are returned as they are.",
    _t,
    lambda x: x.T if x.ndim <= 2 else None,
    inverse=lambda g: aten.t(g),
    batch=moved(lambda dims: ("transpose", (1, 2)) if len(dims) == 3 else ("alias", ())),
    samples=draw(case(F(2, 3)), case(F(3))),
    reference=np.transpose,
)


def _mT(self: Any, name: str = "mT") -> Any:
    if self.ndim == 0:
        return aten.alias(self)
    if self.ndim < 2:
        raise ShapeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
        )
    return aten.transpose(self, -2, -1)


def _numpy_T(self: Any) -> Any:
    return aten.permute(self, tuple(range(self.ndim))[::-1])


def _matrix_H(self: Any) -> Any:
    if self.ndim not in (0, 2):
        raise ShapeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
    return aten.conj(aten.transpose(self, 0, 1) if self.ndim else self)


define("aten::matrix_H(Tensor(a) self) -> Tensor(a)", "A matrix's conjugate transpose (the property `H`).",
       decompose=_matrix_H, public=())
define("aten::mT(Tensor(a) self) -> Tensor(a)", "Each matrix transposed (the property `mT`).",
       decompose=lambda self: _mT(self), public=())
define("aten::mH(Tensor(a) self) -> Tensor(a)", "Each matrix's conjugate transpose (the property `mH`).",
       decompose=lambda self: aten.conj(_mT(self, "mH")), public=())
define(
    "aten::adjoint(Tensor(a) self) -> Tensor(a)", "Each matrix's conjugate transpose.",
    decompose=lambda self: aten.conj(_mT(self, "adjoint()")),
)
define(
    "aten::numpy_T(Tensor(a) self) -> Tensor(a)", "The dims in reverse order (the property `T`).", decompose=_numpy_T,
    public=(),
)

for _name, _dim in (("swapaxes", "axis"), ("swapdims", "dim")):
    define(
        f"aten::{_name}(Tensor(a) self, int {_dim}0, int {_dim}1) -> Tensor(a)",
        "The tensor with two dims exchanged.",
        decompose=lambda self, dim0, dim1: aten.transpose(self, dim0, dim1),
    )


def _movedim(self: Any, source: Sequence[int], destination: Sequence[int]) -> Any:
    if len(source) != len(destination):
        raise ShapeError(
            f"movedim: Invalid source or destination dims: source ({dims_text(source)} dims) should contain the same "
            f"number of dims as destination ({dims_text(destination)} dims)"
        )
    from_dims = [normalize_dim("movedim", d, self.ndim) for d in source]
    to_dims = [normalize_dim("movedim", d, self.ndim) for d in destination]
    for name, axes in (("source", from_dims), ("destination", to_dims)):
        if len(set(axes)) != len(axes):
            raise ShapeError(f"movedim: repeated dim in `{name}` ({dims_text(axes)})")
    rest = iter(d for d in range(self.ndim) if d not in from_dims)
    placed = dict(zip(to_dims, from_dims, strict=True))
    return aten.permute(self, [placed[i] if i in placed else next(rest) for i in range(self.ndim)])


for _name in ("movedim", "moveaxis"):
    define(
        f"aten::{_name}.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        "One dim moved to another place; the others keep their order.",
        decompose=lambda self, source, destination: _movedim(self, (source,), (destination,)) if self.ndim else self,
    )
    define(
        f"aten::{_name}.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
        "Dims moved to other places; the others keep their order.",
        decompose=_movedim,
    )


alias = view(
    "aten::alias(Tensor(a) self) -> Tensor(a)",
    "The tensor as a view of itself.",
    lambda g: g,
    inverse=lambda g: g,
    batch=moved(lambda dims: ("alias", ())),
    public_copy=True,
    public=(),
    keeps_order=True,
    identity=itself,
)

define(
    "aten::detach_copy(Tensor self) -> Tensor",
    "What `detach` shows, in memory of its own; gradients go through, as in PyTorch.",
    decompose=lambda self: aten.alias_copy(self),
    public=("weft",), out=True, samples=alias.samples,
)
