"""Size: the shape of a tensor, a tuple with a count of elements."""

from __future__ import annotations

import operator
from typing import Any

from weft.support import pytree
from weft.support.errors import ArgumentError
from weft.support.naming import shown
from weft.types.dims import Expr


def _size(value: Any) -> Any:
    """One size: symbolic ones stay as they are."""
    if isinstance(value, (int, Expr)) or hasattr(type(value), "__weft_number__"):
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"weft.Size() takes an iterable of 'int' (got '{type(value).__name__}')") from None


class Size(tuple):  # type: ignore[type-arg]
    """`weft.Size([3, 4])`: a tuple of sizes. Entries may be symbolic while a function is captured."""

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> Size:
        """Sizes from any iterable; 0-dim integer tensors among them count as numbers. Raises ArgumentError."""
        if isinstance(sizes, tuple) and all(type(d) is int for d in sizes):
            return tuple.__new__(cls, sizes)
        return tuple.__new__(cls, map(_size, sizes))

    def numel(self) -> Any:
        """The product of the sizes."""
        total: Any = 1
        for d in self:
            total = total * d
        return total

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            if hasattr(type(other), "__radd__"):
                return NotImplemented
            raise ArgumentError(f'can only concatenate tuple (not {type(other).__name__}) to weft.Size')
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented  # `a_list += size` goes on with the list's own way; `a_list + size` is a TypeError
        return Size(tuple.__add__(other, self))

    def __mul__(self, count: Any) -> Size:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{shown.name}.Size([{', '.join(map(str, self))}])"


pytree.register(Size, lambda x: (list(x), None), lambda sizes, _: Size(sizes))
