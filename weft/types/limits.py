"""finfo and iinfo: the limits of dtypes, as PyTorch names them."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from weft.support.errors import ArgumentError
from weft.types import dtype as dt
from weft.types.dtype import DType

_NAMED = {"float4_e2m1fn_x2": "float4_e2m1fn"}  # a byte holds two; the limits are of one


def _asked(owner: str, asked: Any) -> DType:
    """The dtype that is asked about: the argument, a tensor's, or that of a Python or NumPy type."""
    if isinstance(asked, (np.dtype, type)):
        return dt.as_dtype(asked)
    wanted = getattr(asked, "dtype", asked)
    if not isinstance(wanted, DType):
        raise ArgumentError(f"weft.{owner}() expects a dtype or a tensor, got {type(asked).__name__}")
    return wanted


def _numpy(dtype: DType) -> Any:
    """What NumPy or ml_dtypes has of this dtype, also of one that no tensor has."""
    if not isinstance(dtype, dt.UnheldDType):
        return dtype.numpy
    return np.dtype(getattr(ml_dtypes, _NAMED.get(dtype.name, dtype.name), dtype.name))


class finfo:
    """Limits of a floating point dtype (for complex ones: of their parts): bits, eps, max, min, tiny,
    smallest_normal, resolution, and the dtype that they are of."""

    def __init__(self, type: Any = None) -> None:
        wanted = dt.get_default() if type is None else _asked("finfo", type)
        if not (wanted.is_floating_point or wanted.is_complex):
            raise ArgumentError(
                f"weft.finfo() requires a floating point input type. Use weft.iinfo to handle '{wanted}'"
            )
        real = wanted
        if wanted.is_complex:
            real = dt.float16 if wanted.name == "complex32" else wanted.to_real()
        limits: Any = ml_dtypes.finfo(_numpy(real))  # type: ignore[no-untyped-call]
        self.bits, self.dtype = real.itemsize * 8, real
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = 10.0 ** -math.floor(limits.nmant * math.log10(2))

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype.name})"
        )


class iinfo:
    """Limits of an integer dtype: bits, max, min, and the dtype."""

    def __init__(self, type: Any) -> None:
        wanted = _asked("iinfo", type)
        if wanted.is_floating_point or wanted.is_complex or wanted is dt.bool_:
            raise ArgumentError(f"weft.iinfo() requires an integer input type. Use weft.finfo to handle '{wanted}'")
        limits = np.iinfo(_numpy(wanted))
        self.bits, self.dtype = limits.bits, wanted
        self.max, self.min = int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"
