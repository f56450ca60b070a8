"""The part of gradcheck that looks at forward mode: tangents through dual tensors against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.autograd.forward_ad import dual_level, make_dual, unpack_dual
from weft.layers.transforms.batched import BatchLevel
from weft.layers.transforms.dual import DualLevel
from weft.ops.packet import aten
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor


def pushed(
    func: Callable[..., Any], inputs: tuple[Any, ...], tensor: Tensor, tangent: Tensor, place: int
) -> Tensor | None:
    """The tangent of output number `place` along `tangent` at one of the inputs; None for zero."""
    with dual_level():
        dual = make_dual(tensor, tangent)
        out = func(*[dual if t is tensor else t for t in inputs])
        listed = out if isinstance(out, (tuple, list)) else (out,)
        pushed_tangent: Tensor | None = unpack_dual(listed[place]).tangent
        return None if pushed_tangent is None else pushed_tangent.detach()


def pushed_batch(
    func: Callable[..., Any], inputs: tuple[Any, ...], tensor: Tensor, tangents: list[Tensor], place: int
) -> list[Tensor | None]:
    """The tangents of output number `place` along several directions, computed at once; None for zero."""
    stacked = aten.stack(tuple(tangents))
    with no_grad(), BatchLevel(len(tangents)) as batch:
        value, direction = tensor.detach(), batch.wrap(stacked)
        with DualLevel() as level:
            dual = level.make(value, direction)
            out = func(*[dual if t is tensor else t for t in inputs])
            listed = out if isinstance(out, (tuple, list)) else (out,)
            out_tangent = level.parts(listed[place])[1]
        whole = batch.lower(out_tangent)
        return [whole[k] if batch.owns(out_tangent) else out_tangent for k in range(len(tangents))]
