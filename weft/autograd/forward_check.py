"""The part of gradcheck that looks at forward mode: tangents through dual tensors against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.autograd.forward_ad import dual_level, make_dual, unpack_dual
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor


def pushed(func: Callable[..., Any], inputs: tuple[Any, ...], tensor: Tensor, tangent: Tensor, place: int) -> Tensor | None:
    """The tangent of output number `place` along `tangent` at one of the inputs; None for zero."""
    with no_grad(), dual_level():
        dual = make_dual(tensor.detach(), tangent)
        out = func(*[dual if t is tensor else t for t in inputs])
        listed = out if isinstance(out, (tuple, list)) else (out,)
        found: Tensor | None = unpack_dual(listed[place]).tangent
        return found
