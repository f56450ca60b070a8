"""Parameters as one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from weft.ops.packet import aten
from weft.tensor.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flat, one after another."""
    return aten.cat(tuple(aten.reshape(p, (-1,)) for p in parameters), 0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make each parameter show its part of a vector."""
    at = 0
    for p in parameters:
        size = int(p.numel())
        p.data = aten.view(aten.narrow(vec.detach(), 0, at, size), tuple(p.dims)).data
        at += size
