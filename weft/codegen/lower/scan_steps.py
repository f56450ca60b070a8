"""What scans do from element to element: what they hold, and how the next element changes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.codegen.emit import F64, I64, Function, LType, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.math import exponential, logarithm
from weft.codegen.math.core import FloatMath
from weft.codegen.scalar.element import memory_type
from weft.codegen.target import Target
from weft.types import dtype as dt
from weft.types.dtype import DType

Held = tuple[Scalar, ...]


@dataclass(frozen=True)
class ScanKind:
    """A scan of elements of a dtype. name: the operator's; is_reversed: from the last element to the first."""

    name: str
    dtype: DType
    is_reversed: bool

    @property
    def operands(self) -> int:
        """How many values of each element are read."""
        return 2 if self.name == "_linear_scan" else 1

    @property
    def outputs(self) -> tuple[LType, ...]:
        """What is written of each element."""
        return (self.elem, I64) if self.is_extreme else (self.elem,)

    @property
    def elem(self) -> LType:
        """What elements are in memory."""
        return memory_type(self.dtype, 1)

    @property
    def is_extreme(self) -> bool:
        """Whether the greatest or the least so far is held, and its place."""
        return self.name in ("cummax", "cummin")


class ScanSteps:
    """Writes the steps of a scan, for so many scans side by side."""

    def __init__(self, f: Function, kind: ScanKind, lanes: int, target: Target) -> None:
        self.f, self.kind, self.lanes = f, kind, lanes
        self.type = vec(kind.elem, lanes)
        self.is_float = kind.dtype.is_floating_point
        self._is_signed = kind.dtype not in (dt.bool_, dt.uint8)
        # as eager holds it, so that long scans keep their digits
        self.is_wide = kind.dtype is dt.float32 and kind.name != "_linear_scan" and not kind.is_extreme
        self.held_type = vec(F64, lanes) if self.is_wide else self.type
        self.is_logarithm = kind.name == "logcumsumexp"
        self.math = FloatMath(f, target.has_fma, target.has_scale)

    def start(self) -> Held:
        """What is held before the first element."""
        first = const(self.held_type, self._identity())
        if self.kind.is_extreme:
            return first, const(vec(I64, self.lanes), 0)
        return (first, const(self.held_type, 0.0)) if self.is_logarithm else (first,)

    def _identity(self) -> float:
        """What a scan begins with. (-0.0 + x is x, for -0.0 too; 0.0 + -0.0 is not.)"""
        name = self.kind.name
        if "prod" in name:
            return 1.0 if self.is_float else 1
        if self.is_logarithm:
            return -math.inf
        if self.kind.is_extreme:
            is_max = name == "cummax"
            if self.is_float:
                return -math.inf if is_max else math.inf
            bits = self.kind.elem.bits
            low = -(1 << (bits - 1)) if self._is_signed else 0
            return low if is_max else low + (1 << bits) - 1
        return -0.0 if self.is_float and "cumsum" in name else 0

    def step(self, held: Held, operands: Sequence[Scalar], index: Scalar) -> tuple[Held, Sequence[Scalar]]:
        """What is held after an element, and what is written for it. index: its number."""
        f, name = self.f, self.kind.name
        if self.kind.is_extreme:
            following = self._extreme(held, operands[0], index)
            return following, following
        before, xs = held[0], [f.fpext(x, self.held_type) if self.is_wide else x for x in operands]
        if self.is_logarithm:
            held = self._sum_of_exponentials(before, held[1], xs[0])
            total = f.fadd(held[0], logarithm.log(self.math, held[1]))
            return held, (f.fptrunc(total, self.type) if self.is_wide else total,)
        if name == "_linear_scan":
            after = f.fadd(xs[1], f.fmul(xs[0], before))
        elif "cumsum" in name:
            after = f.fadd(before, xs[0]) if self.is_float else f.add(before, xs[0])
        else:
            after = f.fmul(before, xs[0]) if self.is_float else f.mul(before, xs[0])
        out = before if name == "_exclusive_cumprod" else after
        return (after,), (f.fptrunc(out, self.type) if self.is_wide else out,)

    def _extreme(self, held: Held, x: Scalar, index: Scalar) -> Held:
        """The later one of equal elements; the first NaN and those after it."""
        f, is_max = self.f, self.kind.name == "cummax"
        best, place = held
        if self.is_float:
            reaches = f.or_(f.fcmp("oge" if is_max else "ole", x, best), f.fcmp("uno", x, x))
        else:
            reaches = f.icmp(("s" if self._is_signed else "u") + ("ge" if is_max else "le"), x, best)
        return f.select(reaches, x, best), f.select(reaches, f.splat(index, self.lanes), place)

    def _sum_of_exponentials(self, greatest: Scalar, total: Scalar, x: Scalar) -> Held:
        """The greatest so far, and the sum of exponentials of what each is less than it: an element waits for one
        multiplication and one addition of the element before, not for exponentials."""
        f = self.f
        following = f.select(f.fcmp("ogt", x, greatest), x, greatest)
        scale, part = self._exp_below(greatest, following), self._exp_below(x, following)
        return following, f.fadd(f.fmul(total, scale), part)

    def _exp_below(self, x: Scalar, top: Scalar) -> Scalar:
        """exp(x - top), 1 where both are the same infinity."""
        f = self.f
        difference = f.select(f.fcmp("oeq", x, top), const(x.type, 0.0), f.fsub(x, top))
        return exponential.exp(self.math, difference)
