"""Rearranging: repeat, flip, roll, triangles, diagonals, padding with a constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, I, case, draw
from weft.ops.batching import Flags, along, unary
from weft.ops.layout import LIKE_IMAGES, LIKE_SELF, ROW_MAJOR
from weft.ops.op import Op, define
from weft.ops.packet import aten
from weft.ops.rules import check_fits, dims_text, normalize_dim, normalize_dims
from weft.ops.tangents import linear
from weft.support.errors import IndexBoundsError, NotForDType, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any


# ---- repetition


def _check_repeats(ndim: int, repeats: Sequence[Dim]) -> None:
    if len(repeats) < ndim:
        raise ShapeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape_env.refuse_negative(
        repeats, lambda: ShapeError(f"Trying to create tensor with negative dimension in repeat {dims_text(repeats)}")
    )


def _repeat(self: Any, repeats: Sequence[Dim]) -> Any:
    _check_repeats(self.ndim, repeats)
    # (-1 is refused here, and stands for something in expand and reshape)
    repeats = [r if shape_env.is_known(r) else dm.maximum(r, 0) for r in repeats]
    dims = (1,) * (len(repeats) - self.ndim) + tuple(self.dims)
    lined: list[Dim] = []
    spread: list[Dim] = []
    for r, d in zip(repeats, dims, strict=True):
        lined += [1, d]
        spread += [r, d]
    whole = [r * d for r, d in zip(repeats, dims, strict=True)]
    return aten._contiguous_copy(aten.reshape(aten.expand(aten.reshape(self, lined), spread), whole))


def _repeat_type(self: TensorType, repeats: Sequence[Dim]) -> TensorType:
    if not self.is_complete:
        return tensor_type(self.dtype, (None,) * len(repeats))
    dims = (1,) * (len(repeats) - self.ndim) + self.shape
    _check_repeats(self.ndim, repeats)
    return tensor_type(self.dtype, tuple([r * d for r, d in zip(repeats, dims, strict=True)]), self.device)


def _of_repeat(g: Any, self_dims: Any, repeats: Sequence[Dim]) -> Any:
    lead = len(repeats) - len(self_dims)
    split, axes = list(repeats[:lead]), list(range(lead))
    for r, d in zip(repeats[lead:], self_dims, strict=True):
        axes.append(len(split))
        split += [r, d]
    return aten.sum(aten.reshape(g, split), axes) if axes else g


define(
    "aten::repeat(Tensor self, int[] repeats) -> Tensor",
    "The tensor repeated along each dim; new leading dims may be added.",
    type=_repeat_type,
    decompose=_repeat,
    vjp={"self": _of_repeat},
    public=("Tensor",),
    samples=draw(case(F(2, 3), (2, 1, 3)), case(F(2), (0,))),
    reference=np.tile,
)

define(
    "aten::tile(Tensor self, int[] dims) -> Tensor",
    "The tensor repeated along each dim; missing counts are 1.",
    decompose=lambda self, dims: aten.repeat(self, (1,) * (self.ndim - len(dims)) + tuple(dims)),
)


def _repeat_interleave(self: Any, repeats: Dim, dim: int | None, output_size: Any = None) -> Any:
    if dim is None:
        self, dim = aten.reshape(self, (dm.product(self.dims),)), 0
    if self.ndim == 0:
        self = aten.reshape(self, (1,))
    at = normalize_dim("repeat_interleave", dim, self.ndim)
    shape_env.refuse_less(repeats, 0, lambda: ShapeError("Repeats must be non-negative"))
    dims = self.dims
    spread = aten.expand(aten.unsqueeze(self, at + 1), (*dims[: at + 1], repeats, *dims[at + 1 :]))
    return aten.clone(aten.reshape(spread, (*dims[:at], dims[at] * repeats, *dims[at + 1 :])))


define(
    "aten::repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
    "Each element (or slice along dim) repeated in place.",
    decompose=_repeat_interleave,
    samples=draw(case(F(2, 3), 2, 1), case(F(2, 3), 2)),
    reference=lambda x, n, dim, size: np.repeat(x, n, dim),
)


def _repeat_interleave_each(self: Any, repeats: Any, dim: int | None, output_size: Any) -> Any:
    if dim is None:
        self, dim = aten.reshape(self, (dm.product(self.dims),)), 0
    at = normalize_dim("repeat_interleave", dim, self.ndim)
    if repeats.ndim == 0 or (repeats.ndim == 1 and shape_env.is_repeated(repeats.dims[0], self.dims[at])):
        repeats = aten.expand(aten.reshape(repeats, (1,)), (self.dims[at],))
    if not shape_env.equal(repeats.dims[0], self.dims[at]):
        raise ShapeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.dims[0]} and "
            f"input.size({at}) = {self.dims[at]}"
        )
    return aten.index_select(self, at, aten.repeat_interleave(repeats))


define(
    "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, "
    "int? output_size=None) -> Tensor",
    "Each slice along dim repeated as often as `repeats` says.",
    decompose=_repeat_interleave_each,
    samples=draw(case(F(3, 2), I(3, high=3), 0)),
    reference=lambda x, n, dim, size: np.repeat(x, n.astype(np.int64), dim),
)


def run_size(remedy: str = "", at_most: Dim | None = None) -> Dim | None:
    """A size that is only known when the operator has run: a `u` symbol inside a graph, else unknown.
    remedy, at_most: see ShapeEnv.unbacked."""
    env = shape_env.current_env()
    return None if env is None else env.unbacked(remedy, at_most)


def share_of(dims: Sequence[Dim | None] | None) -> Dim | None:
    """The size of what is picked among elements of these dims."""
    return run_size(at_most=None if dims is None or None in dims else dm.product(dims))  # type: ignore[arg-type]


def _repeat_index_type(repeats: TensorType, output_size: int | None) -> TensorType:
    if repeats.dtype not in (None, dt.int32, dt.int64):
        raise NotForDType(f"repeat_interleave: not implemented for {repeats.dtype} repeats; give int32 or int64")
    return tensor_type(repeats.dtype, (run_size() if output_size is None else output_size,))


def _repeat_index(repeats: Array, output_size: int | None) -> Array:
    if repeats.ndim != 1:
        raise ShapeError("repeat_interleave only accept 1D vector as repeat")
    if np.any(repeats < 0):
        raise ShapeError("repeats can not be negative")
    return np.repeat(np.arange(repeats.size, dtype=repeats.dtype), repeats)


define(
    "aten::repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor",
    "The positions 0, 1, ... each repeated as often as `repeats` says.",
    type=_repeat_index_type,
    kernel=_repeat_index,
    vjp={},
    effect="raises",
    public=("weft",),
    dynamic_output_shape=True,
)

# ---- order


def _flip_type(self: TensorType, dims: Sequence[int]) -> TensorType:
    if self.dims is not None and dims:
        normalize_dims("flip", dims, self.ndim)
    return self


define(
    "aten::flip(Tensor self, int[] dims) -> Tensor",
    "The order of the elements along these dims reversed.",
    type=_flip_type,
    kernel=lambda x, dims: np.array(np.flip(x, tuple(dims)) if x.ndim else x, order="C"),
    vjp={"self": lambda g, dims: aten.flip(g, dims)},
    batch=along("dims"), jvp=linear,
    lies=LIKE_SELF,
    samples=draw(case(F(2, 3), (0, 1)), case(F(2, 3), (-1,))),
    reference=lambda x, dims: np.flip(x, dims),
)


def _flip_at(name: str, self: Any, dim: int) -> Any:
    if self.ndim <= dim:
        raise ShapeError(f"{name}: Input must be >= {dim + 1}-d, but it is {self.ndim}-d.")
    return aten.flip(self, (dim,))


define(
    "aten::fliplr(Tensor self) -> Tensor", "Columns in reverse order.",
    decompose=lambda self: _flip_at("fliplr", self, 1),
)
define(
    "aten::flipud(Tensor self) -> Tensor", "Rows in reverse order.", decompose=lambda self: _flip_at("flipud", self, 0)
)


def _roll_type(self: TensorType, shifts: Sequence[int], dims: Sequence[int] | None) -> TensorType:
    dims = dims or ()
    if len(shifts) == 0:
        raise ShapeError("`shifts` required")
    if len(shifts) != len(dims) and not (len(dims) == 0 and len(shifts) == 1):
        raise ShapeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if self.dims is not None:
        for d in dims:
            if self.ndim == 0:
                raise IndexBoundsError(f"roll: Dimension specified as {d} but tensor has no dimensions")
            normalize_dim("roll", d, self.ndim)
    return self


def _roll_batch(op: Op, size: Dim, flags: Flags, self: Any, shifts: Any, dims: Any) -> Any:
    if dims:
        return along("dims")(op, size, flags, self, shifts, dims)
    flat = aten.reshape(self, (size, -1)) if self.ndim != 1 else aten.unsqueeze(self, 1)
    return aten.reshape(aten.roll(flat, shifts, (1,) * len(shifts)), self.dims)


define(
    "aten::roll(Tensor self, int[1] shifts, int[1]? dims=[]) -> Tensor",
    "The elements moved along dims; those that leave at one end come back at the other.",
    type=_roll_type,
    kernel=lambda x, shifts, dims: np.roll(x, shifts, dims) if dims else np.roll(x, shifts[0]),
    vjp={"self": lambda g, shifts, dims: aten.roll(g, [-s for s in shifts], dims)},
    lies=LIKE_IMAGES,
    batch=_roll_batch, jvp=linear,
    samples=draw(case(F(2, 3), (1,)), case(F(2, 3), (1, -2), (0, 1))),
    reference=lambda x, shifts, dims: np.roll(x, shifts, dims or None),
)


def _rot90(self: Any, k: int, dims: Sequence[int]) -> Any:
    if len(dims) != 2:
        raise ShapeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if self.ndim < 2:
        raise ShapeError(f"expected total dims >= 2, but got total dims = {self.ndim}")
    a, b = (normalize_dim("rot90", d, self.ndim) for d in dims)
    if a == b:
        raise ShapeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turns = {
        0: lambda x: aten._contiguous_copy(x), 1: lambda x: aten.transpose(aten.flip(x, (b,)), a, b),
        2: lambda x: aten.flip(x, (a, b)), 3: lambda x: aten.transpose(aten.flip(x, (a,)), a, b),
    }
    return turns[k % 4](self)


define(
    "aten::rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor", "The plane of two dims turned by k quarter turns.",
    decompose=_rot90, samples=draw(case(F(2, 3)), case(F(2, 3, 2), 3, (1, 2))),
    reference=lambda x, k, dims: np.rot90(x, k, dims),
)

# ---- triangles and diagonals


def _triangle_type(name: str, self: TensorType) -> TensorType:
    if self.dims is not None and self.ndim < 2:
        raise ShapeError(f"{name}: input tensor must have at least 2 dimensions")
    return self


def _beyond(self: Any, diagonal: int, above: bool) -> Any:
    """Where an element of the last two dims lies above (below) a diagonal."""
    rows = aten.unsqueeze(aten.arange(self.dims[-2]), 1)
    columns = aten.arange(self.dims[-1])
    return columns > rows + diagonal if above else columns < rows + diagonal


define(
    "aten::tril(Tensor self, int diagonal=0) -> Tensor",
    "The elements on and below a diagonal of the last two dims; zeros above.",
    type=lambda self, diagonal: _triangle_type("tril", self),
    decompose=lambda self, diagonal: aten.masked_fill(self, _beyond(self, diagonal, True), 0),
    vjp={"self": lambda g, diagonal: aten.tril(g, diagonal)},
    batch=unary, jvp=linear,
    lies=ROW_MAJOR,
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4)), case(F(2, 3, 3), -1), case(F(3, 4), 1)),
    reference=np.tril,
)
define(
    "aten::triu(Tensor self, int diagonal=0) -> Tensor",
    "The elements on and above a diagonal of the last two dims; zeros below.",
    type=lambda self, diagonal: _triangle_type("triu", self),
    decompose=lambda self, diagonal: aten.masked_fill(self, _beyond(self, diagonal, False), 0),
    vjp={"self": lambda g, diagonal: aten.triu(g, diagonal)},
    batch=unary, jvp=linear,
    lies=ROW_MAJOR,
    inplace=True,
    out=True,
    samples=draw(case(F(3, 4)), case(F(2, 3, 3), -1), case(F(3, 4), 1)),
    reference=np.triu,
)


def _diag_embed(self: Any, offset: int, dim1: int, dim2: int) -> Any:
    ndim = self.ndim + 1
    a, b = normalize_dim("diag_embed", dim1, ndim), normalize_dim("diag_embed", dim2, ndim)
    if a == b:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = self.dims[-1] + abs(offset)
    rest = iter(self.dims[:-1])
    zeros = aten.new_zeros(self, [side if i in (a, b) else next(rest) for i in range(ndim)])
    return aten.diagonal_scatter(zeros, self, offset, a, b)


define(
    "aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    "Square matrices with the last dim on a diagonal and zeros elsewhere.",
    decompose=_diag_embed,
    samples=draw(case(F(2, 3)), case(F(3), 1)),
)


def _diag(self: Any, diagonal: int) -> Any:
    if self.ndim not in (1, 2):
        raise ShapeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")
    return _diag_embed(self, diagonal, -2, -1) if self.ndim == 1 else aten.diagonal_copy(self, diagonal)


define(
    "aten::diag(Tensor self, int diagonal=0) -> Tensor", "A vector as a diagonal matrix, or a matrix's diagonal.",
    decompose=_diag, out=True, samples=draw(case(F(3), 1), case(F(3, 4))), reference=np.diag,
)
define("aten::diagflat(Tensor self, int offset=0) -> Tensor", "A diagonal matrix of all the elements.",
       decompose=lambda self, offset: _diag_embed(aten.reshape(self, (dm.product(self.dims),)), offset, -2, -1))

# ---- padding with a constant


def _pad_type(self: TensorType, pad: Sequence[Dim], value: Any) -> TensorType:
    if len(pad) % 2:
        raise ShapeError(f"Length of pad must be even but instead it equals {len(pad)}")
    check_fits(value, self.dtype)
    if not self.is_complete:
        return self
    if len(pad) > 2 * self.ndim:
        raise ShapeError(
            "Length of pad should be no more than twice the number of dimensions of the input. "
            f"Pad length is {len(pad)} while the input has {self.ndim} dimensions."
        )
    dims = list(self.shape)
    for i in range(len(pad) // 2):
        at, before, after = -1 - i, pad[2 * i], pad[2 * i + 1]
        left = dims[at] + dm.minimum(before, 0) + dm.minimum(after, 0)
        error = _cut_away(dims[at], before, after, self.ndim + at)
        if left != dims[at]:  # one side may not cut off what the other adds
            shape_env.refuse_less(left, 0, error)
        dims[at] = dims[at] + before + after
    return self.with_dims(tuple(dims))


def _cut_away(size: Dim, before: Dim, after: Dim, dim: int) -> Callable[[], ShapeError]:
    return lambda: ShapeError(
        f"The input size {size}, plus negative padding {before} and {after} resulted in a negative output size, which "
        f"is invalid. Check dimension {dim} of your input."
    )


def _pad(x: Array, pad: Sequence[int], value: Any) -> Array:
    target, source, dims = [], [], []
    for axis in range(x.ndim):
        i = 2 * (x.ndim - 1 - axis)
        before, after = (pad[i], pad[i + 1]) if i < len(pad) else (0, 0)
        size = x.shape[axis] + before + after
        source.append(slice(max(-before, 0), x.shape[axis] - max(-after, 0)))
        target.append(slice(max(before, 0), size - max(after, 0)))
        dims.append(size)
    out = np.full(dims, value, x.dtype)
    out[tuple(target)] = x[tuple(source)]
    return out


define(
    "aten::constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
    "A border of a constant around the last dims: pad is (before, after) of the last dim, then of the one before it, "
    "...; negative cuts off.",
    type=_pad_type,
    kernel=_pad,
    vjp={"self": lambda g, pad: aten.constant_pad_nd(g, [-p for p in pad])},
    batch=unary, jvp=lambda op, primals, tangents, out: aten.constant_pad_nd(tangents[0], primals[1]),
    public=("weft",),
    samples=draw(case(F(2, 3), (1, 2)), case(F(2, 3), (-1, 1, 2, 0), 1.5)),
)
