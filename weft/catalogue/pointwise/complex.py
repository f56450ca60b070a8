"""Complex numbers: conjugate, angle, parts, and numbers from their parts.
(The views real, imag and view_as_* are in shapes/complex_views.py.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.families import dtype_of, pointwise
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.support.errors import DTypeError
from weft.types import dtype as dt
from weft.types.dtype import DType

conj_physical = pointwise(
    "aten::conj_physical(Tensor self) -> Tensor",
    "Complex conjugate, in memory of its own.",
    scalar=lambda s, x: s.conj(x) if s.dtype(x).is_complex else x,
    vjp={"self": lambda g: aten.conj(g)},
    reference=np.conjugate,
)

conj = define(
    "aten::conj(Tensor self) -> Tensor",
    "Complex conjugate; a real tensor is returned itself.",
    type=conj_physical.type,
    decompose=lambda self: aten.conj_physical(self) if getattr(dtype_of(
        self
    ), "is_complex", isinstance(self, complex)) else self,
    numbers=True,
    reference=np.conjugate,
    identity=lambda self: None if getattr(dtype_of(self), "is_complex", True) else 0,
)


def _define_part(
    name: str, words: str, vjp: Callable[[Any], Any], of_real: Callable[[Any], Any], scalar: Callable[..., Any],
    reference: Any,
) -> None:
    pointwise(
        f"aten::{name}(Tensor self) -> Tensor",
        f"The {words} part in memory of its own.",
        scalar=scalar,
        result="real",
        inplace=False, out=False, numbers=False,
        public=(),
        vjp={"self": lambda g, self_dtype: (vjp if self_dtype.is_complex else of_real)(g)},
        reference=reference,
    )


_define_part(
    "_real_part", "real", lambda g: aten.complex(g, aten.zeros_like(g)), lambda g: g, lambda s, x: s.real(x),
    lambda x: np.real(x))
_define_part(
    "_imaginary_part", "imaginary", lambda g: aten.complex(aten.zeros_like(g), g), lambda g: aten.zeros_like(g),
    lambda s, x: s.imag(x), lambda x: np.imag(x))


def _angle_gradient(g: Any, self: Any) -> Any:
    """Of real numbers 0; of complex ones i z / |z|**2, and 0 at 0."""
    if not self.dtype.is_complex:
        return aten.zeros_like(g)
    square = aten.square(aten.abs(self))
    return aten.where(square == 0, 0, g * self * 1j / square)


angle = pointwise(
    "aten::angle(Tensor self) -> Tensor",
    "The angle of a complex number; of a real one 0 or pi.",
    scalar=lambda s, x: s.angle(x),
    compute="float",
    result="real",
    inplace=False,
    numbers=False,
    vjp={"self": _angle_gradient},
    reference=np.angle,
)


class _Parts(Pointwise):
    """The rule of complex and polar: two real tensors of one dtype, float32 or float64."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        first: DType = args[0].dtype
        second: DType = args[1].dtype
        if first is not second:
            raise DTypeError(f"Expected object of scalar type {first} but got scalar type {second} for second argument")
        if first not in (dt.float32, dt.float64):
            raise DTypeError(f"Expected both inputs to be Half, Float or Double tensors but got {first} and {second}")
        return first

    def result_dtype(self, args: tuple[Any, ...]) -> DType:
        return self.compute_dtype(args).to_complex()


complex_ = pointwise(
    "aten::complex(Tensor real, Tensor imag) -> Tensor",
    "The complex numbers real + i imag.",
    scalar=lambda s, a, b: s.complex(a, b),
    rule=_Parts,
    inplace=False,
    out=Out("exact"),
    numbers=False,
    public=("weft",),
    vjp={"real": lambda g: aten.real(g), "imag": lambda g: aten.imag(g)},
    reference=lambda a, b: a + 1j * b,
)

polar = pointwise(
    "aten::polar(Tensor abs, Tensor angle) -> Tensor",
    "The complex numbers of given magnitude and angle.",
    precision="float32",
    scalar=lambda s, r, a: s.complex(s.mul(r, s.cos(a)), s.mul(r, s.sin(a))),
    rule=_Parts,
    inplace=False,
    out=Out("exact"),
    numbers=False,
    public=("weft",),
    vjp={
        "abs": lambda g, angle: aten.real(g) * aten.cos(angle) + aten.imag(g) * aten.sin(angle),
        "angle": lambda g, abs, angle: abs * (aten.imag(g) * aten.cos(angle) - aten.real(g) * aten.sin(angle)),
    },
    reference=lambda r, a: r * np.exp(1j * a),
)
