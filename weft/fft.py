"""weft.fft: discrete Fourier transforms. Each function is the operator `aten::fft_<name>`."""

from __future__ import annotations

from typing import Any

from weft.layers.variants import with_out
from weft.ops.op import PACKETS
from weft.ops.packet import aten

_PREFIX = "fft_"


def __getattr__(name: str) -> Any:
    overloads = PACKETS.get(f"aten::{_PREFIX}{name}")
    if overloads is None or not any("fft" in op.public for op in overloads):
        raise AttributeError(f"module 'weft.fft' has no attribute {name!r}")
    value = with_out(getattr(aten, _PREFIX + name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    shown = [
        key.split("::" + _PREFIX)[1]
        for key, ops in PACKETS.items() if "::" + _PREFIX in key and any("fft" in op.public for op in ops)
    ]
    return sorted({*globals(), *shown})
