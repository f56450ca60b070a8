"""weft.nn.functional: the operators of neural networks. Those of the catalogue are found by name; what draws random numbers is written here."""

from __future__ import annotations

from typing import Any

from weft.ops.op import PACKETS
from weft.ops.packet import aten
from weft.runtime.generator import default_generator
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: A002
    """Zero elements with probability p (in training), scale the others by 1 / (1 - p)."""
    if not 0 <= p <= 1:
        raise ValueProblem(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    key, offset = default_generator.advance(_numel(input))
    out: Tensor = aten._dropout(input, p, key, offset)
    return input.copy_(out) if inplace else out


def _numel(tensor: Tensor) -> Any:
    total: Any = 1
    for d in tensor.dims:
        total = total * d
    return total


def __getattr__(name: str) -> Any:
    overloads = PACKETS.get(f"aten::{name}")
    if overloads is not None and any("nn.functional" in op.public or "weft" in op.public for op in overloads):
        value = getattr(aten, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'weft.nn.functional' has no attribute {name!r}")
