"""Views about dims of size 1: expand, squeeze, unsqueeze; and sum_to_size, the gradient of expanding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.samples import F, case, draw
from weft.catalogue.shapes.batching import Dims, moved, twin
from weft.catalogue.shapes.twins import view
from weft.catalogue.shapes.views import permuted, reshaped_back
from weft.ops.batching import Flags, Rule, everywhere, shifted
from weft.ops.geometry import Geometry
from weft.ops.op import Op, define, itself
from weft.ops.packet import aten
from weft.ops.rules import dims_text, normalize_dim, normalize_dims
from weft.support.errors import ShapeError
from weft.types import shape_env
from weft.types.dims import Dim

# ---- dims of size 1


def expanded_geometry(g: Geometry, size: Sequence[Dim], implicit: bool = False) -> Geometry:
    if len(size) < g.ndim:
        raise ShapeError(
            f"expand(tensor{{{dims_text(g.dims)}}}, size={dims_text(size)}): the number of sizes provided "
            f"({len(size)}) must be greater or equal to the number of dimensions in the tensor ({g.ndim})"
        )
    lead = len(size) - g.ndim
    dims: list[Dim] = list(size)
    strides: list[Dim] = [0] * len(size)
    for i, wanted in enumerate(size):
        if i < lead:
            shape_env.refuse_less(wanted, 0, lambda wanted=wanted, i=i: ShapeError(  # type: ignore[misc]
                f"The expanded size of the tensor ({wanted}) isn't allowed in a leading, non-existing dimension {i}"))
            continue
        old = g.dims[i - lead]
        if shape_env.is_left_open(wanted):
            dims[i] = wanted = old
        shape_env.refuse_less(wanted, 0, lambda wanted=wanted, i=i: ShapeError(  # type: ignore[misc]
            f"The expanded size of the tensor ({wanted}) must not be negative at dimension {i}"))
        if isinstance(old, int) and old == 1:  # repeated, unless it stays 1: no need to ask what a symbolic size is
            strides[i] = g.strides[i - lead] if type(wanted) is int and wanted == 1 else 0
            continue
        if shape_env.is_repeated(old, wanted):
            continue
        if shape_env.equal(wanted, old):
            strides[i] = g.strides[i - lead]
        elif not shape_env.equal(old, 1):
            raise ShapeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size ({old}) at non-singleton "
                f"dimension {i}.  Target sizes: {dims_text(size)}.  Tensor sizes: {dims_text(g.dims)}"
            )
    for i in reversed(range(lead if g.dims else 0)):
        if type(dims[i]) is int and dims[i] == 1:
            strides[i] = dims[i + 1] * strides[i + 1]
    return Geometry(tuple(dims), tuple(strides), g.offset)



def _expanded(kind: str) -> Rule:
    def rule(op: Op, size: Dim, flags: Flags, self: Any, sizes: Any, implicit: bool = False) -> Any:
        return twin("expand", kind)(_with_leading(self, size, sizes), (size, *sizes), implicit=implicit)

    return rule


def _expanded_scatter(
    op: Op, size: Dim, flags: Flags, self: Any, src: Any, sizes: Any, implicit: bool = False
) -> Any:
    self, src = everywhere(size, flags[:2], (self, src))
    out = aten.expand_scatter(_with_leading(self, size, sizes), src, (size, *sizes), implicit=implicit)
    return aten.reshape(out, self.dims)


def _with_leading(batched: Any, size: Dim, sizes: Any) -> Any:
    """A batched value with the leading dims that its examples are to get."""
    missing = len(sizes) - (batched.ndim - 1)
    return batched if missing <= 0 else aten.reshape(batched, (size, *(1,) * missing, *batched.dims[1:]))


expand = view(
    "aten::expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)",
    "The tensor with dims of size 1 repeated to `size` (stride 0); -1 keeps a size; new leading dims may be added.",
    expanded_geometry,
    inverse=lambda g, self_dims: aten.sum_to_size(g, self_dims),
    batch={"": _expanded(""), "_copy": _expanded("_copy"), "_scatter": _expanded_scatter},
    public=("Tensor",),
    samples=draw(case(F(1, 3), (2, 3)), case(F(3, 1), (2, -1, 4)), case(F(), (2,))),
    reference=lambda x, size, implicit: np.broadcast_to(
        x, [x.shape[i - len(size) + x.ndim] if d == -1 else d for i, d in enumerate(size)]
    ),
    repeats=True,
    overlaps=True,
    identity=itself,
)

define(
    "aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    "The tensor expanded to the dims of other.",
    decompose=lambda self, other: aten.expand(self, other.dims),
    public=("Tensor",),
)

define(
    "aten::broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)",
    "The tensor expanded to `size`.",
    decompose=lambda self, size: aten.expand(self, size),
)


def _unsqueeze(g: Geometry, dim: int) -> Geometry:
    at = normalize_dim("unsqueeze", dim, g.ndim + 1)
    stride = g.dims[at] * g.strides[at] if at < g.ndim else 1
    return Geometry((*g.dims[:at], 1, *g.dims[at:]), (*g.strides[:at], stride, *g.strides[at:]), g.offset)


unsqueeze = view(
    "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
    "The tensor with a dim of size 1 inserted at `dim`.",
    _unsqueeze,
    inverse=reshaped_back,
    batch=moved(lambda dims, dim: ("unsqueeze", (shifted(dim, len(dims)),))),
    samples=draw(case(F(2, 3), 1), case(F(2, 3), -1), case(F(), 0)),
    reference=np.expand_dims,
    keeps_order=True,
)


def _squeezed(g: Geometry, dims: Sequence[int]) -> Geometry:
    kept = [i for i in range(g.ndim) if i not in dims or not shape_env.equal(g.dims[i], 1)]
    return permuted(g, kept)


def _squeeze_dims(g: Geometry, dim: Sequence[int]) -> Geometry:
    return _squeezed(g, normalize_dims("squeeze", dim, g.ndim) if dim else ())


def _squeeze_moved(dims: Dims, *args: Any) -> tuple[str, tuple[Any, ...]]:
    if len(dims) == 1:
        return "alias", ()
    if not args:
        return "squeeze", (tuple(i for i in range(1, len(dims)) if dims[i] == 1),)
    return "squeeze", (shifted(args[0] if isinstance(args[0], tuple) else (args[0],), len(dims) - 1),)


squeeze = view(
    "aten::squeeze(Tensor(a) self) -> Tensor(a)",
    "The tensor without its dims of size 1.",
    lambda g: _squeezed(g, range(g.ndim)),
    lambda x: x.squeeze(),
    inverse=reshaped_back,
    batch=moved(_squeeze_moved),
    samples=draw(case(F(1, 3, 1)), case(F(2))),
    reference=np.squeeze,
    keeps_order=True,
)

squeeze_dim = view(
    "aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
    "The tensor without this dim, if its size is 1.",
    lambda g, dim: _squeezed(g, (normalize_dim("squeeze", dim, g.ndim),)),
    inverse=reshaped_back,
    batch=moved(_squeeze_moved),
    samples=draw(case(F(1, 3, 1), 0), case(F(2, 3), -1)),
    reference=lambda x, dim: np.squeeze(x, dim) if x.shape[dim] == 1 else x,
    keeps_order=True,
)

squeeze_dims = view(
    "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
    "The tensor without those of these dims whose size is 1.",
    _squeeze_dims,
    inverse=reshaped_back,
    batch=moved(_squeeze_moved),
    samples=draw(case(F(1, 3, 1), (0, -1)), case(F(1, 3), (0, 1))),
    reference=lambda x, dim: np.squeeze(x, tuple(d for d in dim if x.shape[d] == 1)),
    keeps_order=True,
)


def _sum_to_size(self: Any, size: Sequence[Dim]) -> Any:
    lead = self.ndim - len(size)
    if lead < 0 or not all(_reduces_to(a, b) for a, b in zip(self.dims[lead:], size, strict=True)):
        raise ShapeError(f"size {{{dims_text(size)}}} is not expandable to size {{{dims_text(self.dims)}}}.")
    if self.ndim == 0:
        return aten.sum(self)  # a sum also of one element: a copy, and int64 of integers
    axes = [i for i in range(lead, self.ndim) if not shape_env.same_when_summed(self.dims[i], size[i - lead])]
    out = aten.sum(self, [*range(lead), *axes], True) if lead or axes else self
    return aten.reshape(out, size) if lead else out


def _reduces_to(a: Dim, b: Dim) -> bool:
    return (
        (isinstance(b, int) and b == 1) or shape_env.is_repeated(b, a) or shape_env.equal(a, b) or shape_env.equal(b, 1)
    )


define(
    "aten::sum_to_size(Tensor self, int[] size) -> Tensor",
    "The sum over whatever broadcasting `size` to the tensor's dims would repeat: the gradient of expand.",
    decompose=_sum_to_size,
    public=("Tensor",),
    samples=draw(case(F(2, 3), (1, 3)), case(F(2, 3, 4), (3, 1)), case(F(2), ())),
    identity=itself,
)
