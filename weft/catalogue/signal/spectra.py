"""Spectra over several dims and their orders: rfftn, irfftn, hfftn, ihfftn, hfft, ihfft, fftfreq, fftshift
and their like."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from weft.catalogue.creation.factories import OPTIONS, or_default
from weft.catalogue.samples import F, case, draw
from weft.catalogue.signal.fft import places_of
from weft.ops.op import NOT_DIFFERENTIABLE, Out, define
from weft.ops.packet import aten
from weft.support.errors import DTypeError, ShapeError
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _rfft_over(self: Any, s: Sequence[Dim] | None, dim: Sequence[int] | None, norm: str | None) -> Any:
    """The last dim as a real signal, then the others; it stays the innermost, and they lie next to it."""
    *rest, (last, size) = _some("rfftn", self, s, dim)
    out = aten.fft_rfft(self, size, last, norm)
    for at, length in reversed(rest):
        out = aten.fft_fft(out, length, at, norm)
    if not rest:
        return out
    others = sorted(at for at, _ in rest)
    return _lying(out, [*(i for i in range(self.ndim) if i != last and i not in others), *others, last])


def _lying(x: Any, order: Sequence[int]) -> Any:
    """A copy whose dims lie in this order, the last of them innermost."""
    return aten.permute(aten._contiguous_copy(aten.permute(x, order)), [order.index(i) for i in range(x.ndim)])


def _irfft_over(self: Any, s: Sequence[Dim] | None, dim: Sequence[int] | None, norm: str | None) -> Any:
    """All dims but the last, then that to a real signal."""
    *rest, (last, size) = _some("irfftn", self, s, dim)
    for at, length in sorted(rest, key=itemgetter(0)):
        self = aten.fft_ifft(self, length, at, norm)
    return aten.fft_irfft(self, size, last, norm)


def _some(name: str, self: Any, s: Sequence[Dim] | None, dim: Sequence[int] | None) -> list[tuple[int, Dim | None]]:
    places = places_of(name, self, s, dim)
    if not places:
        raise ShapeError(f"{name} must transform at least one axis")
    return places


for _base, _over, _words in (("rfft", _rfft_over, "Fourier transform of a real signal"), (
    "irfft", _irfft_over, "real signal whose half spectrum is given"
)):
    for _suffix, _default in (("2", "[-2, -1]"), ("n", "None")):
        define(
            f"aten::fft_{_base}{_suffix}(Tensor self, int[1]? s=None, int[1]{'?' if _suffix == 'n' else ''} "
            f"dim={_default}, str? norm=None) -> Tensor",
            f"The {_words} over {'two' if _suffix == '2' else 'several'} dims, cut or padded to s.",
            precision="float32",
            decompose=_over,
            public=("fft",),
            out=Out("castable"),
            samples=draw(case(F(2, 3, 4)), case(F(3, 4), (2, 6), (0, 1), "ortho")),
            reference=lambda x, s, dim, norm, name=_base + _suffix: getattr(np.fft, name)(x, s, dim, norm),
        )


def _ihfft(self: Any, n: Dim | None, dim: int, norm: str | None) -> Any:
    if self.dtype.is_complex:
        raise DTypeError(f"ihfft expects a real input tensor, but got {self.dtype}")
    return aten.conj(aten.fft_rfft(self, n, dim, _SWAPPED[norm]))


define(
    "aten::fft_hfft(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
    "The real spectrum of a signal of which the first half is given, the second being its mirrored conjugate.",
    precision="float32",
    decompose=lambda self, n, dim, norm: aten.fft_irfft(aten.conj(self), n, dim, _SWAPPED[norm]),
    public=("fft",),
    out=Out("castable"),
    samples=draw(case(F(3, 4)), case(F(3), 6, 0, "ortho")),
    reference=lambda x, n, dim, norm: np.fft.hfft(x, n, dim, norm),
)
define(
    "aten::fft_ihfft(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
    "The first half of the signal whose real spectrum is given.",
    precision="float32",
    decompose=_ihfft,
    public=("fft",),
    out=True,
    samples=draw(case(F(3, 4)), case(F(3), 6, 0, "ortho")),
    reference=lambda x, n, dim, norm: np.fft.ihfft(x, n, dim, norm),
)


def _hfft_over(self: Any, s: Sequence[Dim] | None, dim: Sequence[int] | None, norm: str | None) -> Any:
    _some("hfftn", self, s, dim)
    return aten.fft_irfftn(aten.conj(self), s, dim, _SWAPPED[norm])


def _ihfft_over(self: Any, s: Sequence[Dim] | None, dim: Sequence[int] | None, norm: str | None) -> Any:
    if self.dtype.is_complex:
        raise DTypeError(f"ihfftn expects a real input tensor, but got {self.dtype}")
    *rest, (last, _) = _some("ihfftn", self, s, dim)
    out = aten.conj(aten.fft_rfftn(self, s, dim, _SWAPPED[norm]))
    others = sorted(at for at, _ in rest)
    lead = [i for i in range(self.ndim) if i != last and i not in others]
    return _lying(out, [*lead, last, *others]) if rest else out


def _hermitian_oracle(x: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Any:
    """The other dims by fft or ifft, the last by hfft or ihfft."""
    dims = tuple(range(x.ndim)) if dim is None else tuple(dim)
    sizes = [None] * len(dims) if s is None else list(s)
    last, others = (np.fft.hfft, np.fft.fft) if forward else (np.fft.ihfft, np.fft.ifft)
    steps = [*((others, size, d) for size, d in zip(sizes[:-1], dims[:-1], strict=True)), (last, sizes[-1], dims[-1])]
    for transform, size, d in steps if forward else reversed(steps):
        x = transform(x, size, d, norm)
    return x


for _base, _over, _forward, _words in (
    ("hfft", _hfft_over, True, "real spectrum of a signal of which one half is given"),
    ("ihfft", _ihfft_over, False, "half of the signal whose real spectrum is given"),
):
    for _suffix, _default in (("2", "[-2, -1]"), ("n", "None")):
        define(
            f"aten::fft_{_base}{_suffix}(Tensor self, int[1]? s=None, int[1]{'?' if _suffix == 'n' else ''} "
            f"dim={_default}, str? norm=None) -> Tensor",
            f"The {_words}, over {'two' if _suffix == '2' else 'several'} dims, cut or padded to s.",
            precision="float32",
            decompose=_over,
            public=("fft",),
            out=Out("castable"),
            samples=draw(case(F(2, 3, 4)), case(F(3, 4), (2, 6), (0, 1), "ortho")),
            reference=lambda x, s, dim, norm, forward=_forward: _hermitian_oracle(x, s, dim, norm, forward),
        )


# ---- orders of frequencies


def _frequency_type(n: Dim, dtype: DType | None, device: str | None, count: Dim) -> TensorType:
    shape_env.refuse_less(n, 0, lambda: ShapeError(f"fftfreq: the number of samples must not be negative, got {n}"))
    return tensor_type(or_default(dtype), (count,), device or "cpu")


def _frequencies(n: Dim, d: float, dtype: DType | None, half: bool) -> Any:
    """0, 1, ... and, behind the middle, the negative ones, over n * d."""
    count = dm.floordiv(n, 2) + 1 if half else n
    k = aten._to_copy(aten._iota(count), dtype=or_default(dtype))
    if not half:
        k = aten.where(aten.lt(k, dm.floordiv(n + 1, 2)), k, k - n)
    return k / n / d


define(
    f"aten::fft_fftfreq(int n, float d=1.0, *, {OPTIONS}) -> Tensor",
    "The frequencies of a transform of n samples that are d apart, in its order: 0 and up, then the negative ones.",
    type=lambda n, d, dtype, device: _frequency_type(n, dtype, device, n),
    decompose=lambda n, d, dtype, device: _frequencies(n, d, dtype, False),
    vjp=NOT_DIFFERENTIABLE,
    public=("fft",),
    out=True,
    reference=lambda n, d, dtype, device: np.fft.fftfreq(n, d).astype(or_default(dtype).numpy),
)
define(
    f"aten::fft_rfftfreq(int n, float d=1.0, *, {OPTIONS}) -> Tensor",
    "The frequencies of the transform of n real samples that are d apart.",
    type=lambda n, d, dtype, device: _frequency_type(n, dtype, device, dm.floordiv(n, 2) + 1),
    decompose=lambda n, d, dtype, device: _frequencies(n, d, dtype, True),
    vjp=NOT_DIFFERENTIABLE,
    public=("fft",),
    out=True,
    reference=lambda n, d, dtype, device: np.fft.rfftfreq(n, d).astype(or_default(dtype).numpy),
)


def _shifted(self: Any, dim: Sequence[int] | None, back: bool) -> Any:
    dims = tuple(range(self.ndim)) if dim is None else tuple(dim)
    return aten.roll(self, tuple(dm.floordiv(self.dims[d] + int(back), 2) for d in dims), dims)


for _name, _back, _words in (
    (("fftshift", False, "Frequency 0 in the middle of each dim"), ("ifftshift", True, "What fftshift did, undone"))
):
    define(
        f"aten::fft_{_name}(Tensor self, int[1]? dim=None) -> Tensor",
        f"{_words}.",
        decompose=lambda self, dim, back=_back: _shifted(self, dim, back),
        public=("fft",),
        samples=draw(case(F(3, 4)), case(F(3, 5), (1,))),
        reference=lambda x, dim, name=_name: getattr(np.fft, name)(x, dim),
    )
