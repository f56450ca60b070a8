"""Layouts and memory formats as values of their own types; each is its text too."""

from __future__ import annotations

from weft.support.naming import shown


class layout(str):
    """How a tensor's elements are kept: `weft.strided`, or one of the sparse layouts that weft.sparse has. There is one
    object for each name."""

    __slots__ = ()

    def __new__(cls, name: str) -> layout:
        return _LAYOUTS.setdefault(str(name[:]), super().__new__(cls, name[:]))

    def __repr__(self) -> str:
        return f"{shown.name}.{self.rpartition('.')[2]}"

    __str__ = __repr__

    def __reduce__(self) -> tuple[type[layout], tuple[str]]:
        return layout, (self[:],)


_LAYOUTS: dict[str, layout] = {}


class memory_format(str):
    """In which order the elements of a tensor lie in memory."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{shown.name}.{self!s}"

    def __reduce__(self) -> tuple[type[memory_format], tuple[str]]:
        return memory_format, (str(self),)


strided = layout("weft.strided")
sparse_coo, sparse_csr, sparse_csc = layout("weft.sparse_coo"), layout("weft.sparse_csr"), layout("weft.sparse_csc")
sparse_bsr, sparse_bsc = layout("weft.sparse_bsr"), layout("weft.sparse_bsc")
jagged, _mkldnn = layout("weft.jagged"), layout("weft._mkldnn")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
DIM_ORDERS: dict[str, tuple[int, ...]] = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}
"""The dims of images and of volumes, from the outermost in memory, where the channels lie innermost."""
