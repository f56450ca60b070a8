"""The back end of tensors whose storage was made too small for them: views of them are such tensors too, and everything
else is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

from weft.layers import dense_memory
from weft.ops.geometry import Geometry
from weft.ops.op import Op
from weft.tensor.backend import CAPTURE_RANK, Args, Backend, register, tensors_in
from weft.tensor.dense import over_storage
from weft.tensor.freed import FreedPayload
from weft.tensor.tensor import Tensor
from weft.tensor.views import view_of
from weft.types.dims import Dim


class Freed(Backend):
    """Operators on tensors without bytes."""

    rank = CAPTURE_RANK + 5

    def run(self, op: Op, args: Args) -> Any:
        """A view; for anything else there are no bytes."""
        source = args[0]
        if op.view is None or op.type is not None or not isinstance(source, Tensor):
            self._refuse(op, args)
        at, rest = source.geometry(), args[1:]
        shown = op.view.geometry(replace(at, offset=0), *rest)
        if shown is None:
            self._refuse(op, args)
        storage = source.storage()
        views = [
            view_of(source, storage, over_storage(storage, source.dtype, _behind(g, at.offset)), op, rest, i)
            for i, g in enumerate(shown if type(shown) is tuple else (shown,))
        ]
        return tuple(views) if type(shown) is tuple else views[0]

    def write(self, op: Op, args: Args) -> None:
        """Refused."""
        self._refuse(op, args)

    def open(self, op: Op, args: Args) -> Any:
        """Refused."""
        self._refuse(op, args)

    def _refuse(self, op: Op, args: Args) -> NoReturn:
        freed: Any = next(t._data for t in tensors_in(args) if isinstance(t._data, FreedPayload))
        raise freed.refusal(op.base)

    def resize(self, tensor: Tensor, dims: tuple[int, ...]) -> None:
        """The storage gets as many bytes as these sizes need."""
        dense_memory.resize(tensor, dims)

    def show(self, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
        """Another storage."""
        tensor._data, tensor._storage = dense_memory.shown(tensor, source, offset, size, stride)


def _behind(g: Geometry, offset: Dim) -> Geometry:
    return replace(g, offset=g.offset + offset)


register(Freed(), FreedPayload)
