"""The batch rules of views and of their twins: the same view one dim further.
One line per view says how its arguments change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.batching import Flags, batches, enter, everywhere, shifted
from weft.ops.geometry import contiguous_strides
from weft.ops.op import OPS, Op
from weft.ops.packet import Packet, aten
from weft.ops.route import call
from weft.types import dims as dm
from weft.types.dims import Dim

Dims = tuple[Dim, ...]
# (dims of the batched value, arguments) -> (the view's name, arguments) for the batched value
Shift = Callable[..., tuple[str, tuple[Any, ...]]]


def _dim_at(name: str, position: int = 0) -> Shift:
    def shift(dims: Dims, *args: Any) -> tuple[str, tuple[Any, ...]]:
        listed = list(args)
        listed[position] = shifted(args[position], len(dims) - 1)
        return name, tuple(listed)

    return shift


def _squeeze(dims: Dims, *args: Any) -> tuple[str, tuple[Any, ...]]:
    if len(dims) == 1:
        return "alias", ()
    if not args:
        return "squeeze", (tuple(i for i in range(1, len(dims)) if dims[i] == 1),)
    return "squeeze", (shifted(args[0] if isinstance(args[0], tuple) else (args[0],), len(dims) - 1),)


def _resolved(dims: Dims, size: Dims) -> Dims:
    """Sizes with the one that is -1 worked out from an example, which also a batch of none has."""
    if -1 not in size:
        return size
    known = dm.product(tuple(d for d in size if d != -1))
    return (
        tuple(dm.floordiv(dm.product(dims[1:]), known) if isinstance(d, int) and d == -1 else d for d in size)
        if known != 0 else size
    )


SHIFTS: dict[Packet, Shift] = {
    aten.select.int: _dim_at("select"),
    aten.slice.Tensor: _dim_at("slice"),
    aten.split.Tensor: _dim_at("split", 1),
    aten.split.sizes: _dim_at("split", 1),
    aten.split_with_sizes: _dim_at("split_with_sizes", 1),
    aten.unbind.int: _dim_at("unbind"),
    aten.view_as_real: lambda dims: ("view_as_real", ()),
    aten.view_as_complex: lambda dims: ("view_as_complex", ()),
    aten.view_bits: lambda dims, *args: ("view_bits", args),
    aten.view.default: lambda dims, size: ("view", ((dims[0], *_resolved(dims, size)),)),
    aten.reshape: lambda dims, size: ("reshape", ((dims[0], *_resolved(dims, size)),)),
    aten.ravel: lambda dims: ("reshape", ((dims[0], dm.product(dims[1:])),)),
    aten.permute: lambda dims, order: ("permute", ((0, *shifted(order, len(dims) - 1)),)),
    aten.transpose.int: lambda dims, a, b: (
        ("transpose", (shifted(a, len(dims) - 1), shifted(b, len(dims) - 1))) if len(dims) > 1 else ("alias", ())
    ),
    aten.t: lambda dims: ("transpose", (1, 2)) if len(dims) == 3 else ("alias", ()),
    aten.alias: lambda dims: ("alias", ()),
    aten.unsqueeze: lambda dims, dim: ("unsqueeze", (shifted(dim, len(dims)),)),
    aten.squeeze.default: _squeeze,
    aten.squeeze.dim: _squeeze,
    aten.squeeze.dims: _squeeze,
    aten.diagonal: lambda dims, offset, a, b: (
        "diagonal", (offset, shifted(a, len(dims) - 1), shifted(b, len(dims) - 1))
    ),
}


def _twin(base: str, kind: str) -> Any:
    return getattr(aten, base + kind)


def _view_rule(shift: Shift, kind: str) -> Any:
    def rule(op: Op, size: Dim, flags: Flags, self: Any, *args: Any) -> Any:
        name, moved = shift(self.dims, *args)
        return _twin(name, kind)(self, *moved)

    return rule


def _scatter_rule(shift: Shift) -> Any:
    def rule(op: Op, size: Dim, flags: Flags, self: Any, src: Any, *args: Any) -> Any:
        self, src = everywhere(size, flags[:2], (self, src))
        lists = "output" in [a.name for a in op.schema.arguments]
        name, moved = shift(self.dims, *(args[1:] if lists else args))
        return _twin(name, "_scatter")(self, src, *(args[:1] if lists else ()), *moved)

    return rule


_SHIFT_OF = {op: shift for packet, shift in SHIFTS.items() for op in packet.overloads}
for _packet, _shift in SHIFTS.items():
    batches(_packet)(_view_rule(_shift, ""))
for _op in tuple(OPS.values()):  # copies and scatters of these views
    if _op.copies in _SHIFT_OF:
        enter(_op, _view_rule(_SHIFT_OF[_op.copies], "_copy"))
    elif _op.scatters in _SHIFT_OF:
        enter(_op, _scatter_rule(_SHIFT_OF[_op.scatters]))
for _packet in (aten.view_as_real, aten.view_as_complex, aten.view_bits):  # their twins change the dtype
    batches(_twin(_packet.__name__, "_copy"))(_view_rule(SHIFTS[_packet], "_copy"))
    batches(_twin(_packet.__name__, "_scatter"))(_scatter_rule(SHIFTS[_packet]))


# ---- sizes that may add dims
def _expand(kind: str) -> Any:
    def rule(op: Op, size: Dim, flags: Flags, self: Any, sizes: Any, implicit: bool = False) -> Any:
        missing = len(sizes) - (self.ndim - 1)
        x = self if missing <= 0 else aten.reshape(self, (size, *(1,) * missing, *self.dims[1:]))
        return _twin("expand", kind)(x, (size, *sizes), implicit=implicit)

    return rule


def _expand_scatter(op: Op, size: Dim, flags: Flags, self: Any, src: Any, sizes: Any, implicit: bool = False) -> Any:
    self, src = everywhere(size, flags[:2], (self, src))
    missing = len(sizes) - (self.ndim - 1)
    x = self if missing <= 0 else aten.reshape(self, (size, *(1,) * missing, *self.dims[1:]))
    return aten.reshape(aten.expand_scatter(x, src, (size, *sizes), implicit=implicit), self.dims)


batches(aten.expand)(_expand(""))
batches(aten.expand_copy)(_expand("_copy"))
batches(aten.expand_scatter)(_expand_scatter)
batches(aten._unsafe_view)(
    lambda op, size, flags, self, sizes: aten._unsafe_view(self, (size, *_resolved(self.dims, sizes))),
)


# ---- windows
def _unfold(kind: str) -> Any:
    def rule(op: Op, size: Dim, flags: Flags, self: Any, dimension: int, *rest: Any) -> Any:
        x = self if self.ndim > 1 else aten.unsqueeze(self, 1)
        out = _twin("unfold", kind)(x, shifted(dimension, x.ndim - 1), *rest)
        return out if self.ndim > 1 else aten.squeeze(out, 1)

    return rule


def _unfold_scatter(op: Op, size: Dim, flags: Flags, self: Any, src: Any, dimension: int, *rest: Any) -> Any:
    self, src = everywhere(size, flags[:2], (self, src))
    return call(op, (self, src, shifted(dimension, self.ndim - 1), *rest))


batches(aten.unfold)(_unfold(""))
batches(aten.unfold_copy)(_unfold("_copy"))
batches(aten.unfold_scatter)(_unfold_scatter)
batches(aten.unfold_backward)(lambda op, size, flags, grad, dims, dim, *rest: aten.unfold_backward(
    grad, (size, *dims), shifted(dim, len(dims)), *rest))


# ---- strides
def _batch_stride(value: Any) -> Any:
    return value.geometry().strides[0] if hasattr(value, "geometry") else contiguous_strides(value.dims)[0]


def _as_strided(op: Op, size: Dim, flags: Flags, self: Any, sizes: Any, strides: Any, offset: Any) -> Any:
    return aten.as_strided(self, (size, *sizes), (_batch_stride(self), *strides), offset)


def _as_strided_copy(op: Op, size: Dim, flags: Flags, self: Any, sizes: Any, strides: Any, offset: Any) -> Any:
    return aten._contiguous_copy(_as_strided(op, size, flags, self, sizes, strides, offset))


batches(aten.as_strided)(_as_strided)
batches(aten.as_strided_copy)(_as_strided_copy)
