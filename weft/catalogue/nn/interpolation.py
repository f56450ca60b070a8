"""Resizing of the spatial dims: nearest, linear, cubic, area. Every mode but area is separable: index_selects along one
dim after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.catalogue.nn.antialiasing import resized_smoothly
from weft.catalogue.nn.pooling import adaptive_average
from weft.catalogue.widening import cast, widened
from weft.ops.layout import LIKE_IMAGES
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import ArgumentError, ShapeError, Unsupported, ValueProblem
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim, Expr

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_CUBIC = -0.75


def _interpolate(
    input: Any,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> Any:
    rank = input.ndim - 2
    _check(input, mode, rank, align_corners, antialias)
    sizes, scales = _sizes(input, size, scale_factor, rank, recompute_scale_factor)
    scales = [_used_factor(*each, mode, input) for each in zip(input.dims[2:], sizes, scales, strict=True)]
    if mode == "area":
        return adaptive_average(rank, input, sizes)
    resize = resized_smoothly if antialias else _resized
    if input.dtype is dt.uint8 and not mode.startswith("nearest"):
        x = aten.to(input, dt.float32)
        for i in reversed(range(rank)):  # each pass gives pixels
            x = aten.clamp(aten.round(resize(x, 2 + i, sizes[i], scales[i], mode, bool(align_corners))), 0, 255)
        return aten.to(x, dt.uint8)
    x = input if mode.startswith("nearest") else widened(input)
    for i in range(rank):
        x = resize(x, 2 + i, sizes[i], scales[i], mode, bool(align_corners))
    return cast(x, input.dtype)


def _check(input: Any, mode: str, rank: int, align_corners: bool | None, antialias: bool) -> None:
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueProblem(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
        wanted = rank if 1 <= rank <= 3 else -1
    elif mode in _LINEAR or mode == "bicubic":
        wanted = _LINEAR.get(mode, 2)
    else:
        raise Unsupported(
            "Input Error: Only 3D, 4D and 5D input Tensors supported for the modes: nearest | linear | bilinear | "
            f"bicubic | trilinear | area | nearest-exact (got {mode})"
        )
    if rank != wanted:
        raise Unsupported(f"Got {input.ndim}D input, but {mode} mode needs {wanted + 2}D input")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueProblem(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )


def _sizes(
    input: Any, size: Any, scale_factor: Any, rank: int, recompute: bool | None
) -> tuple[list[Dim], list[float | None]]:
    if (size is None) == (scale_factor is None):
        raise ValueProblem(
            "only one of size or scale_factor should be defined" if size is not None
            else "either size or scale_factor should be defined"
        )
    if size is not None:
        sizes = list(size) if isinstance(size, (list, tuple)) else [size] * rank
        if len(sizes) != rank:
            raise ValueProblem(
                "Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {dims_text(input.dims[2:])} and output size of {sizes}."
            )
        if any(_is_no_size(s) for s in sizes):
            raise ArgumentError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
                f"with types {[type(s).__name__ for s in sizes]}"
            )
        sizes = [int(s) if hasattr(s, "dtype") else s for s in sizes]  # a tensor of one integer is taken for it
        _check_positive(input, sizes)
        return sizes, [None] * rank
    factors = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * rank
    if len(factors) != rank:
        raise ValueProblem("scale_factor must have one value for each spatial dimension")
    sizes = [_scaled(d, f) for d, f in zip(input.dims[2:], factors, strict=True)]
    _check_positive(input, sizes)
    return sizes, [None if recompute else f for f in factors]


def _is_no_size(size: Any) -> bool:
    return isinstance(size, (float, bool, str)) or getattr(getattr(size, "dtype", None), "is_floating_point", False)


def _check_positive(input: Any, sizes: Sequence[Dim]) -> None:
    for size in (*input.dims[2:], *sizes):
        shape_env.refuse_less(size, 1, lambda: ShapeError(
            f"Input and output sizes should be greater than 0, but got input {dims_text(input.dims)} and output "
            f"{dims_text(sizes)}"))


def _scaled(size: Dim, factor: float) -> Dim:
    if isinstance(size, Expr):
        if float(factor).is_integer():
            return size * int(factor)
        inverse = 1 / factor
        if inverse.is_integer():
            return dm.floordiv(size, int(inverse))
        size = shape_env.fixed(size)
    return int(size * factor)


def _used_factor(have: Dim, size: Dim, factor: float | None, mode: str, input: Any) -> float | None:
    """The factor that says where results lie in the input; None where the sizes say it. As in PyTorch, a factor that
    leaves a size as it was copies in the linear modes, of pixels in the cubic one too, and in nearest of images, which
    also counts a doubled size as doubled. (Sizes that are symbols grow by whole factors alone.)"""
    if factor is None or isinstance(size, Expr):
        return factor
    have = shape_env.fixed(have)
    if mode == "nearest":
        is_exact = input.ndim == 4 and size in (have, 2 * have)
    else:
        is_exact = size == have and (mode in _LINEAR or (mode == "bicubic" and input.dtype is dt.uint8))
    return None if is_exact else factor


def _resized(x: Any, dim: int, size: Dim, factor: float | None, mode: str, corners: bool) -> Any:
    have = x.dims[dim]
    if mode in ("nearest", "nearest-exact"):
        return aten.index_select(x, dim, _nearest(have, size, factor, 0.5 if mode == "nearest-exact" else 0.0))
    places = _sources(have, size, factor, corners, x.dtype)
    if mode == "bicubic":
        return _cubic(x, dim, places, have)
    places = aten.clamp_min(places, 0)
    low = aten.floor(places)
    share = _lined(places - low, x.ndim, dim)
    first = aten.clamp(aten.to(low, dt.int64), 0, have - 1)
    second = aten.clamp(first + 1, 0, have - 1)
    a, b = aten.index_select(x, dim, first), aten.index_select(x, dim, second)
    return a * (1 - share) + b * share


def _nearest(have: Dim, size: Dim, factor: float | None, shift: float) -> Any:
    j = aten.to(aten.arange(size), dt.float32)
    step = (aten.to(aten.full((), have, dtype=dt.float32), dt.float32) / size) if factor is None else 1 / factor
    return aten.clamp_max(aten.to(aten.floor((j + shift) * step), dt.int64), have - 1)


def _sources(have: Dim, size: Dim, factor: float | None, corners: bool, dtype: dt.DType) -> Any:
    """Where in the input (as a fraction of its index) each output element lies."""
    j = aten.arange(size, dtype=dtype)
    if corners:
        span = aten.full((), have - 1, dtype=dtype)
        return j * (span / aten.clamp_min(aten.full((), size - 1, dtype=dtype), 1))
    step = aten.full((), have, dtype=dtype) / size if factor is None else 1 / factor
    return (j + 0.5) * step - 0.5


def _lined(vector: Any, ndim: int, dim: int) -> Any:
    return aten.reshape(vector, tuple(vector.dims[0] if i == dim else 1 for i in range(ndim)))


def _cubic(x: Any, dim: int, places: Any, have: Dim) -> Any:
    low = aten.floor(places)
    t = places - low
    base = aten.to(low, dt.int64)
    total: Any = None
    for offset, weight in zip((-1, 0, 1, 2), cubic_weights(t), strict=True):
        part = aten.index_select(x, dim, aten.clamp(base + offset, 0, have - 1)) * _lined(weight, x.ndim, dim)
        total = part if total is None else total + part
    return total


def cubic_weights(t: Any) -> Sequence[Any]:
    """Keys' cubic kernel with a = -0.75 at distances 1 + t, t, 1 - t, 2 - t."""
    a = _CUBIC

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


define(
    'nn::interpolate(Tensor input, Object? size=None, Object? scale_factor=None, str mode="nearest", '
    'bool? align_corners=None, '
    "bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
    "The spatial dims resized to `size` or by `scale_factor`: mode nearest, nearest-exact, linear, bilinear, "
    "trilinear, bicubic or area.",
    decompose=_interpolate,
    lies=LIKE_IMAGES,
    public=("nn.functional",),
)
