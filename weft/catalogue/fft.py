"""Discrete Fourier transforms of real signals: rfft and its inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
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


def _rfft_type(self: TensorType, n: Dim | None, dim: int, norm: str | None) -> TensorType:
    if self.dtype is not None and self.dtype.is_complex:
        raise DTypeError(f"rfft expects a real input tensor, but got {self.dtype}")
    dtype = _float(self.dtype)
    if dtype is dt.float16 or dtype is dt.bfloat16:
        raise DTypeError(f"Unsupported dtype {dtype}")
    target = None if dtype is None else dtype.to_complex()
    if not self.is_complete:
        return tensor_type(target, None)
    if self.ndim == 0:
        raise IndexBoundsError("Dimension specified as -1 but tensor has no dimensions")
    at = normalize_dim("fft_rfft", dim, self.ndim)
    length = self.shape[at] if n is None else n
    _check(length, norm)
    half = dm.floordiv(length, 2) + 1
    return tensor_type(target, (*self.shape[:at], half, *self.shape[at + 1 :]), self.device)


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
    type=_rfft_type,
    kernel=_rfft,
    vjp={"self": _rfft_back},
    public=("fft",),
    out=True,
    samples=draw(case(F(3, 6)), case(F(5), 7, 0, "ortho")),
    reference=lambda *args: np.fft.rfft(*args),
)


def _irfft_length(dims: Any, n: Dim | None, at: int) -> Dim:
    return (dims[at] - 1) * 2 if n is None else n


def _irfft_type(self: TensorType, n: Dim | None, dim: int, norm: str | None) -> TensorType:
    dtype = _float(self.dtype)
    target = None if dtype is None else dtype.to_real()
    if not self.is_complete:
        return tensor_type(target, None)
    if self.ndim == 0:
        raise IndexBoundsError("Dimension specified as -1 but tensor has no dimensions")
    at = normalize_dim("fft_irfft", dim, self.ndim)
    length = _irfft_length(self.shape, n, at)
    _check(length, norm)
    return tensor_type(target, (*self.shape[:at], length, *self.shape[at + 1 :]), self.device)


def _irfft(x: Array, n: int | None, dim: int, norm: Any) -> Array:
    dtype = _float(dt.from_numpy(x.dtype))
    assert dtype is not None
    return np.fft.irfft(x, n, dim, norm).astype(dtype.to_real().numpy, copy=False)


def _irfft_back(g: Any, self_dims: Any, n: Dim | None, dim: int, norm: str | None) -> Any:
    at = normalize_dim("fft_irfft", dim, len(self_dims))
    length = _irfft_length(self_dims, n, at)
    forward = aten.fft_rfft(g, length, at, _ADJOINT[norm])
    half = dm.floordiv(length, 2) + 1
    return _resized(forward * _weights(forward, at, half, length, 2.0), at, half, self_dims[at])


define(
    "aten::fft_irfft(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
    "The real signal of n samples whose rfft is given.",
    type=_irfft_type,
    kernel=_irfft,
    vjp={"self": _irfft_back},
    public=("fft",),
    out=True,
)
