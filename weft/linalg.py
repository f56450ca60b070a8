"""weft.linalg: linear algebra. Each function is the operator `aten::linalg_<name>`."""

from __future__ import annotations

from typing import Any

from weft.catalogue.linalg.square import LinAlgError  # noqa: F401  (shown here)
from weft.layers.variants import with_out
from weft.ops.op import PACKETS
from weft.ops.packet import aten
from weft.support.absent import refuse

_PREFIX = "linalg_"


def __getattr__(name: str) -> Any:
    overloads = PACKETS.get(f"aten::{_PREFIX}{name}")
    if overloads is None or not any("linalg" in op.public for op in overloads):
        refuse("module 'weft.linalg'", name)
    value = with_out(getattr(aten, _PREFIX + name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    shown = [
        key.split("::" + _PREFIX)[1]
        for key, ops in PACKETS.items() if "::" + _PREFIX in key and any("linalg" in op.public for op in ops)
    ]
    return sorted({*globals(), *shown})
