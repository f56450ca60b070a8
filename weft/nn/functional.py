"""weft.nn.functional: the functions of neural networks, found in the catalogue by name.

`nn::` entries have the signatures that users write; operators that need no other signature are `aten::` entries.
"""

from __future__ import annotations

from typing import Any

from weft.layers.variants import with_out
from weft.ops.op import PACKETS
from weft.ops.packet import Namespace, aten

_nn = Namespace("nn")


def __getattr__(name: str) -> Any:
    space, overloads = _nn, PACKETS.get(f"nn::{name}")
    if overloads is None:
        space, overloads = aten, PACKETS.get(f"aten::{name}")
    if overloads is None or not any("nn.functional" in op.public or "weft" in op.public for op in overloads):
        raise AttributeError(f"module 'weft.nn.functional' has no attribute {name!r}")
    value = with_out(getattr(space, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    shown = {key.split("::")[1] for key, ops in PACKETS.items() if any("nn.functional" in op.public for op in ops)}
    return sorted({*globals(), *shown})
