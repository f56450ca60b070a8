"""Discrete Fourier transforms: fft and ifft over one dim or several; rfft and irfft of real signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.ops.batching import along
from weft.ops.geometry import Geometry
from weft.ops.layout import innermost
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.ops.tangents import linear
from weft.support.errors import DTypeError, IndexBoundsError, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

Array = Any
_NORMS = (None, "backward", "forward", "ortho")
_ADJOINT = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _check(n: Any, norm: str | None) -> None:
    if norm not in _NORMS:
        raise ShapeError(f'Invalid normalization mode: "{norm}"')
    if n is not None and shape_env.less(n, 1):
        raise ShapeError(f"Invalid number of data points ({n}) specified")


def _float(dtype: DType | None) -> DType | None:
    return dtype if dtype is None or dtype.is_differentiable else dt.get_default()


def _lies(self: Geometry, n: Any, dim: int, norm: str | None) -> tuple[tuple[int, ...]]:
    """The dim that is transformed is the innermost."""
    return (innermost(self, dim),)


def _fft_type(name: str, self: TensorType, n: Dim | None, dim: int, norm: str | None) -> TensorType:
    """The complex spectrum of a signal: as long as the signal, or n."""
    dtype = _float(self.dtype)
    if dtype is dt.float16 or dtype is dt.bfloat16:
        raise DTypeError(f"Unsupported dtype {dtype}")
    return _along(name, self, dim, norm, None if dtype is None else dtype.to_complex(), lambda d: d if n is None else n)


def _along(
    name: str, self: TensorType, dim: int, norm: str | None, target: DType | None, length_of: Callable[[Dim], Dim]
) -> TensorType:
    """The type of a transform along a dim. length_of: the size of the dim -> how long the result is there."""
    if not self.is_complete:
        return tensor_type(target, None)
    if self.ndim == 0:
        raise IndexBoundsError("Dimension specified as -1 but tensor has no dimensions")
    at = normalize_dim(name, dim, self.ndim)
    length = length_of(self.shape[at])
    _check(length, norm)
    return tensor_type(target, (*self.shape[:at], length, *self.shape[at + 1 :]), self.device)


def _rfft_type(self: TensorType, n: Dim | None, dim: int, norm: str | None) -> TensorType:
    if self.dtype is not None and self.dtype.is_complex:
        raise DTypeError(f"rfft expects a real input tensor, but got {self.dtype}")
    whole = _fft_type("fft_rfft", self, n, dim, norm)
    if not whole.is_complete:
        return whole
    at = normalize_dim("fft_rfft", dim, self.ndim)
    return whole.with_dims((*whole.shape[:at], dm.floordiv(whole.shape[at], 2) + 1, *whole.shape[at + 1 :]))


def _rfft(x: Array, n: int | None, dim: int, norm: Any) -> Array:
    dtype = _float(dt.from_numpy(x.dtype))
    assert dtype is not None
    return np.fft.rfft(x, n, dim, norm).astype(dtype.to_complex().numpy, copy=False)


def _weights(like: Any, at: int, half: Dim, n: Dim, middle: float) -> Any:
    """1 at frequency 0 and at n/2, `middle` in between, lined up with dim `at`."""
    k = aten.arange(half)
    ends = aten.logical_or(k == 0, k * 2 == n)
    column = tuple(half if i == at else 1 for i in range(like.ndim))
    return aten.reshape(aten.to(aten.where(ends, 1.0, middle), like.dtype.to_real()), column)


def _resized(x: Any, at: int, have: Dim, want: Dim) -> Any:
    """Cut or padded with zeros at the end of a dim."""
    return x if have == want else aten.constant_pad_nd(x, [*[0, 0] * (x.ndim - 1 - at), 0, want - have])


def _rfft_back(g: Any, self_dims: Any, n: Dim | None, dim: int, norm: str | None) -> Any:
    at = normalize_dim("fft_rfft", dim, len(self_dims))
    length = self_dims[at] if n is None else n
    halved = g * _weights(g, at, g.dims[at], length, 0.5)
    return _resized(aten.fft_irfft(halved, length, at, _ADJOINT[norm]), at, length, self_dims[at])


define(
    "aten::fft_rfft(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
    "The Fourier transform of a real signal along dim: the n // 2 + 1 frequencies from 0 on.",
    precision="float32",
    node="FftR2CBackward0",
    type=_rfft_type,
    kernel=_rfft,
    lies=_lies,
    vjp={"self": _rfft_back},
    batch=along("dim"), jvp=linear,
    public=("fft",),
    out=Out("castable"),
    samples=draw(case(F(3, 6)), case(F(5), 7, 0, "ortho")),
    reference=lambda *args: np.fft.rfft(*args),
)


def _irfft_length(size: Dim, n: Dim | None) -> Dim:
    return (size - 1) * 2 if n is None else n


def _irfft_type(self: TensorType, n: Dim | None, dim: int, norm: str | None) -> TensorType:
    dtype = _float(self.dtype)
    target = None if dtype is None else dtype.to_real()
    return _along("fft_irfft", self, dim, norm, target, lambda d: _irfft_length(d, n))


def _irfft(x: Array, n: int | None, dim: int, norm: Any) -> Array:
    dtype = _float(dt.from_numpy(x.dtype))
    assert dtype is not None
    return np.fft.irfft(x, n, dim, norm).astype(dtype.to_real().numpy, copy=False)


def _irfft_back(g: Any, self_dims: Any, n: Dim | None, dim: int, norm: str | None) -> Any:
    at = normalize_dim("fft_irfft", dim, len(self_dims))
    length = _irfft_length(self_dims[at], n)
    forward = aten.fft_rfft(g, length, at, _ADJOINT[norm])
    half = dm.floordiv(length, 2) + 1
    return _resized(forward * _weights(forward, at, half, length, 2.0), at, half, self_dims[at])


define(
    "aten::fft_irfft(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
    "The real signal of n samples whose rfft is given.",
    precision="float32",
    node="FftC2RBackward0",
    type=_irfft_type,
    kernel=_irfft,
    lies=_lies,
    vjp={"self": _irfft_back},
    batch=along("dim"), jvp=linear,
    public=("fft",),
    out=Out("castable"),
)

# ---- complex signals


def _transformed(x: Array, n: int | None, dim: int, norm: Any, inverse: bool) -> Array:
    dtype = _float(dt.from_numpy(x.dtype))
    assert dtype is not None
    return (np.fft.ifft if inverse else np.fft.fft)(x, n, dim, norm).astype(dtype.to_complex().numpy, copy=False)


def _fft_back(g: Any, self_dims: Any, self_dtype: Any, n: Dim | None, dim: int, norm: str | None, inverse: bool) -> Any:
    """The transform the other way, unscaled the same; what was padded is cut, what was cut is 0."""
    at = normalize_dim("fft_fft", dim, len(self_dims))
    length = self_dims[at] if n is None else n
    out = (aten.fft_fft if inverse else aten.fft_ifft)(g, length, at, _ADJOINT[norm])
    out = _resized(out, at, length, self_dims[at])
    return out if self_dtype.is_complex else aten.real(out)


def _define_fft(name: str, words: str, inverse: bool) -> None:
    define(
        f"aten::{name}(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
        f"The {words} of a signal along dim, cut or padded to n.",
        precision="float32",
        node=f"FftC2CBackward0.{name}",
        type=lambda self, n, dim, norm: _fft_type(name, self, n, dim, norm),
        kernel=lambda x, n, dim, norm: _transformed(x, n, dim, norm, inverse),
        lies=_lies,
        vjp={"self": lambda g, self_dims, self_dtype, n, dim, norm: _fft_back(
            g, self_dims, self_dtype, n, dim, norm, inverse
        )},
        batch=along("dim"),
        public=("fft",),
        out=Out("castable"),
        samples=draw(case(F(3, 6)), case(F(5), 7, 0, "ortho"), case(F(2, 5), 3, -1, "forward")),
        reference=lambda x, n, dim, norm: (np.fft.ifft if inverse else np.fft.fft)(x, n, dim, norm),
    )

    def over_dims(self: Any, s: Sequence[Dim] | None, dim: Sequence[int] | None, norm: str | None) -> Any:
        places = places_of(name, self, s, dim)
        if not places:
            _check(None, norm)
            return aten.to(self, _float(self.dtype).to_complex())  # type: ignore[union-attr]
        for at, length in sorted(places, key=itemgetter(0)):  # the last is the innermost then
            self = getattr(aten, name)(self, length, at, norm)
        return self

    for base, default in ((f"{name}2", "[-2, -1]"), (f"{name}n", "None")):
        optional = "?" if default == "None" else ""
        define(
            f"aten::{base}(Tensor self, int[1]? s=None, int[1]{optional} dim={default}, str? norm=None) -> Tensor",
            f"The {words} over {'two dims' if base.endswith('2') else 'several dims (all if none are named)'}, "
            "cut or padded to s.",
            precision="float32",
            decompose=over_dims,
            public=("fft",),
            out=Out("castable"),
            samples=draw(case(F(2, 3, 4)), case(F(3, 4), (2, 5), (0, 1), "ortho")),
            reference=lambda x, s, dim, norm, base=base: getattr(np.fft, base.removeprefix("fft_"))(x, s, dim, norm),
        )


def places_of(name: str, self: Any, s: Sequence[Dim] | None, dim: Sequence[int] | None) -> list[tuple[int, Dim | None]]:
    """The dims of a transform and their lengths. Raises ShapeError."""
    if dim is None:
        count = self.ndim if s is None else len(s)
        if count > self.ndim:
            raise ShapeError(f"Got shape with {count} values but input tensor only has {self.ndim} dimensions.")
        dims = list(range(self.ndim - count, self.ndim))
    else:
        dims = [normalize_dim(name, d, self.ndim) for d in dim]
    if len(set(dims)) != len(dims):
        raise ShapeError("FFT dims must be unique")
    if s is None:
        return [(d, None) for d in dims]
    if len(s) != len(dims):
        raise ShapeError("When given, dim and shape arguments must have the same length")
    return [(d, None if isinstance(n, int) and n == -1 else n) for d, n in zip(dims, s, strict=True)]


_define_fft("fft_fft", "Fourier transform", False)
_define_fft("fft_ifft", "inverse Fourier transform", True)
