"""Pieces along one dim, as NumPy names them: hsplit, vsplit, dsplit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ops.op import define
from weft.ops.packet import aten
from weft.support.errors import ShapeError
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim


def _split(name: str, self: Any, where: Dim | Sequence[Dim], least: int, dim: int) -> Any:
    if self.ndim < least:
        raise ShapeError(
            f"{name} requires a tensor with at least {least} dimension, but got a tensor with {self.ndim} dimensions!"
        )
    if name == "hsplit" and self.ndim == 1:
        dim = 0
    size = self.dims[dim]
    if isinstance(where, int) and (where <= 0 or not shape_env.equal(dm.mod(size, where), 0)):
        raise ShapeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not divisible "
            f"by the split_size {where}!"
        )
    return aten.tensor_split(self, where, dim)


for _name, _least, _dim, _words in (
    (("hsplit", 1, 1, "dim 1 (dim 0 of a vector)"), ("vsplit", 2, 0, "dim 0"), ("dsplit", 3, 2, "dim 2"))
):
    define(
        f"aten::{_name}.int(Tensor(a) self, int sections) -> Tensor(a)[]",
        f"Equal pieces of {_words}.",
        decompose=lambda self, sections, name=_name, least=_least, dim=_dim: _split(name, self, sections, least, dim),
    )
    define(
        f"aten::{_name}.array(Tensor(a) self, int[] indices) -> Tensor(a)[]",
        f"The pieces of {_words} between these indices.",
        decompose=lambda self, indices, name=_name, least=_least, dim=_dim: _split(name, self, indices, least, dim),
    )
