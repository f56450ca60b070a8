"""The batch rules (vmap) of views and their twins: the same view one dim further. A view says in one line how its
arguments change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.batching import Flags, Rule, everywhere, shifted
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.types import dims as dm
from weft.types.dims import Dim

Dims = tuple[Dim, ...]
# (dims of the batched value, arguments) -> (the view's name, arguments) for the batched value
Shift = Callable[..., tuple[str, tuple[Any, ...]]]


def moved(shift: Shift) -> dict[str, Rule]:
    """The rules of a view and its twins, by what a twin adds to the view's name."""
    return {"": _shown(shift, ""), "_copy": _shown(shift, "_copy"), "_scatter": _scattered(shift)}


def moved_dim(name: str, position: int = 0) -> dict[str, Rule]:
    """The rules of a view along one dim, which is its argument at `position`."""

    def shift(dims: Dims, *args: Any) -> tuple[str, tuple[Any, ...]]:
        listed = list(args)
        listed[position] = shifted(args[position], len(dims) - 1)
        return name, tuple(listed)

    return moved(shift)


def _shown(shift: Shift, kind: str) -> Rule:
    def rule(op: Op, size: Dim, flags: Flags, self: Any, *args: Any) -> Any:
        name, moved_args = shift(self.dims, *args)
        return twin(name, kind)(self, *moved_args)

    return rule


def _scattered(shift: Shift) -> Rule:
    def rule(op: Op, size: Dim, flags: Flags, self: Any, src: Any, *args: Any) -> Any:
        self, src = everywhere(size, flags[:2], (self, src))
        lists = "output" in [a.name for a in op.schema.arguments]
        name, moved_args = shift(self.dims, *(args[1:] if lists else args))
        return twin(name, "_scatter")(self, src, *(args[:1] if lists else ()), *moved_args)

    return rule


def twin(base: str, kind: str) -> Any:
    """The view of this name, its copy or its scatter."""
    return getattr(aten, base + kind)


def known_sizes(dims: Dims, size: Dims) -> Dims:
    """Sizes with the one that is -1 worked out from an example, which also a batch of none has."""
    if -1 not in size:
        return size
    others = dm.product(tuple(d for d in size if d != -1))
    return (
        tuple(dm.floordiv(dm.product(dims[1:]), others) if isinstance(d, int) and d == -1 else d for d in size)
        if others != 0 else size
    )
