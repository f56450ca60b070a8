"""PyTorch's torch.masked: operators that leave out the elements where a mask is False.

mask: of bools (or of numbers that are not 0), which broadcasts to the input; None: nothing is left out. Reductions give
the value of no elements where all of a row is left out: 0 of a sum, 1 of a product, -inf of a maximum, NaN of a mean.
dim: one, a tuple, or None for all. dtype: of the result, and of what is computed; the input's by default (int64 for
sums and products of integers). PyTorch's MaskedTensor is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from weft.ops.packet import aten
from weft.support.absent import refuse
from weft.support.errors import IndexBoundsError, ShapeError, Unsupported, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.limits import iinfo

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]
Dims = int | Sequence[int] | None
_INTEGERS_AND_BOOL = (dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32)


def __getattr__(name: str) -> Any:
    refuse("module 'weft.masked'", name)


# ---- masks and dims
def _mask_of(input: Tensor, mask: Tensor) -> Tensor:
    if mask.ndim > input.ndim:
        raise IndexBoundsError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
        )
    return mask if mask.dtype is dt.bool_ else mask != 0


def _filled(input: Tensor, mask: Tensor | None, value: float | int | bool) -> Tensor:
    """The input, with a value where elements are left out."""
    if mask is None:
        return input
    filling = aten.full((), value, dtype=input.dtype, device=input.device)
    return aten.where(_mask_of(input, mask), input, filling)  # type: ignore[no-any-return]


def _as(input: Tensor, dtype: DType | None) -> Tensor:
    return input if dtype is None else input.to(dtype)


def _dims_of(input: Tensor, dim: Dims) -> tuple[int, ...]:
    rank = max(input.ndim, 1)
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return tuple(range(input.ndim))
    listed = [dim] if isinstance(dim, int) else list(dim)
    dims: list[int] = []
    for d in listed:
        if not -rank <= d < rank:
            raise IndexBoundsError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})"
            )
        if d % rank in dims:
            raise ShapeError(f"dim={d} appears multiple times in the list of dims")
        dims.append(d % rank)
    return tuple(sorted(dims))


def _extreme(name: str, dtype: DType, greatest: bool) -> float | int:
    """The greatest (or least) number of a dtype, which is that of no elements in a minimum (maximum)."""
    if dtype.is_floating_point:
        return float("inf") if greatest else float("-inf")
    if dtype is dt.bool_ or dtype.is_complex:
        raise Unsupported(f"identity of {name} on {dtype} input")
    limits = iinfo(dtype)
    return int(limits.max if greatest else limits.min)


def _widened(input: Tensor, dtype: DType | None) -> Tensor:
    """The input of a sum or product: as the dtype, or small integers as int64."""
    wanted = dtype or (dt.int64 if input.dtype in _INTEGERS_AND_BOOL else input.dtype)
    return input.to(wanted)


# ---- reductions
def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum of the elements that are not left out."""
    x = _filled(_widened(input, dtype), mask, 0)
    dims = _dims_of(input, dim)
    return aten.sum(x, dims, keepdim) if dims else aten.clone(x)  # type: ignore[no-any-return]


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The product of the elements that are not left out."""
    x = _filled(_widened(input, dtype), mask, 1)
    for d in reversed(_dims_of(input, dim)):
        x = aten.prod(x, d, keepdim)
    return x


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The sums up to each element; those left out add nothing."""
    x = _filled(_widened(input, dtype), mask, 0)
    return aten.cumsum(x, _dims_of(input, dim)[0])  # type: ignore[no-any-return]


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The products up to each element; those left out change nothing."""
    x = _filled(_widened(input, dtype), mask, 1)
    return aten.cumprod(x, _dims_of(input, dim)[0])  # type: ignore[no-any-return]


def _extremes(
    name: str, input: Tensor, dim: Dims, keepdim: bool, dtype: DType | None, mask: Tensor | None
) -> Tensor:
    x = _as(input, dtype)
    x = _filled(x, mask, _extreme(name, x.dtype, name == "amin"))
    dims = _dims_of(input, dim)
    return getattr(aten, name)(x, dims, keepdim) if dims else aten.clone(x)  # type: ignore[no-any-return]


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The greatest of the elements that are not left out."""
    return _extremes("amax", input, dim, keepdim, dtype, mask)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The least of the elements that are not left out."""
    return _extremes("amin", input, dim, keepdim, dtype, mask)


def _place(
    name: str, input: Tensor, dim: int | None, keepdim: bool, dtype: DType | None, mask: Tensor | None
) -> Tensor:
    x = _filled(input, mask, _extreme(name, input.dtype, name == "argmin"))
    if dim is not None:
        _dims_of(input, dim)
    return getattr(aten, name)(x, dim, bool(keepdim)).to(dtype or input.dtype)  # type: ignore[no-any-return]


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the greatest element is, as a number of the input's dtype (as PyTorch gives it)."""
    return _place("argmax", input, dim, keepdim, dtype, mask)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the least element is, as a number of the input's dtype (as PyTorch gives it)."""
    return _place("argmin", input, dim, keepdim, dtype, mask)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """log of the sum of exp; -inf of no elements."""
    x = _filled(_as(input, dtype), mask, float("-inf"))
    return aten.logsumexp(x, _dims_of(input, dim), keepdim)  # type: ignore[no-any-return]


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: DType | None = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), without the elements of either that are left out."""
    a, b = _as(input, dtype), _as(other, dtype)
    least = float("-inf")
    return aten.logaddexp(_filled(a, input_mask, least), _filled(b, other_mask, least))  # type: ignore[no-any-return]


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    """How many elements of each row are not left out."""
    ones = aten.ones_like(input, dtype=dt.int64)
    return sum(ones, dims, keepdim=keepdim, mask=mask)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean of the elements that are not left out; NaN of none. Raises ValueProblem for integers without a dtype."""
    wanted = input.dtype if dtype is None else dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        raise ValueProblem(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {wanted}"
        )
    dims = _dims_of(input, dim)
    total = sum(input, dims, keepdim=keepdim, dtype=wanted, mask=mask)
    return aten.div(total, _count(input, dims, keepdim, mask))  # type: ignore[no-any-return]


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median of the elements that are neither left out nor NaN; NaN of none. Raises ValueProblem for a mask
    with integers."""
    x = _as(input, dtype)
    if not x.dtype.is_floating_point:
        if mask is not None:
            raise ValueProblem(f"masked median expects a floating point dtype, got {x.dtype}")
        return aten.median(x, _dims_of(input, dim)[0], keepdim)[0]  # type: ignore[no-any-return]
    x = _filled(x, mask, float("nan"))
    return aten.nanmedian(x, _dims_of(input, dim)[0], keepdim)[0]  # type: ignore[no-any-return]


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """linalg.vector_norm of the elements that are not left out: 0 of none, inf of none where `ord` is negative."""
    order = 2.0 if ord is None else ord
    x = _filled(_as(input, dtype), mask, 0 if order >= 0 else float("inf"))
    dims = _dims_of(input, dim)
    return aten.linalg_vector_norm(x, order, dims or None, keepdim)  # type: ignore[no-any-return]


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None,
) -> Tensor:
    """The variance of the elements that are not left out, divided by their number less `correction`: 1, or 0 where
    `unbiased` is False. Raises ValueProblem where both are given."""
    if unbiased is not None and correction is not None:
        raise ValueProblem("Only one of unbiased and correction may be given")
    taken = correction if correction is not None else 0 if unbiased is False else 1
    x = _as(input, dtype)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        x = x.to(dt.float32)
    dims = _dims_of(input, dim)
    count = _count(input, dims, True, mask)
    gap = x - sum(x, dims, keepdim=True, mask=mask) / count
    square = gap * gap.conj() if x.dtype.is_complex else gap * gap
    total = sum(aten.real(square) if x.dtype.is_complex else square, dims, keepdim=keepdim, mask=mask)
    left = aten.clamp_min(aten.reshape(count, total.dims) - taken, 0)
    return aten.div(total, left)  # type: ignore[no-any-return]


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None,
) -> Tensor:
    """The root of var."""
    return aten.sqrt(  # type: ignore[no-any-return]
        var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    )


# ---- normalizations
def softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """softmax over the elements that are not left out; these are 0, and NaN where all of a row are."""
    x = _filled(_as(input, dtype), mask, float("-inf"))
    return aten.softmax(x, _dims_of(input, dim)[0])  # type: ignore[no-any-return]


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """log of softmax over the elements that are not left out."""
    x = _filled(_as(input, dtype), mask, float("-inf"))
    return aten.log_softmax(x, _dims_of(input, dim)[0])  # type: ignore[no-any-return]


def softmin(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """softmax of -input over the elements that are not left out."""
    x = _filled(_as(input, dtype), mask, float("inf"))
    return aten.softmax(-x, _dims_of(input, dim)[0])  # type: ignore[no-any-return]


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Elements divided by the norm of those that are not left out, or by eps where it is less; those left out are 0."""
    x = _filled(_as(input, dtype), mask, 0)
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return aten.div(x, aten.clamp_min(length, eps))  # type: ignore[no-any-return]


# ---- which results stand for something
def _output_mask(op: Callable[..., Tensor], input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The mask of what one of these functions gives for such arguments: False where all that it hangs on is left out.
    Under PyTorch's name, which tests of masks use."""
    bound = signature(op).bind(input, *args, **kwargs)
    bound.apply_defaults()
    options, everything = bound.arguments, aten.ones_like(input, dtype=dt.bool_)
    if "other_mask" in options:
        masks = [m for m in (options["input_mask"], options["other_mask"]) if m is not None]
        return aten.logical_or(*masks) if len(masks) == 2 else everything  # type: ignore[no-any-return]
    mask = options["mask"]
    whole: Tensor = everything if mask is None else aten.expand(_mask_of(input, mask), input.dims)
    if "keepdim" not in options:
        return whole
    dims = _dims_of(input, options["dim"])
    return aten.any(whole, dims, bool(options["keepdim"])) if dims else whole
