"""Size: the shape of a tensor, a tuple with a count of elements."""

from __future__ import annotations

from typing import Any

from weft.support import pytree


class Size(tuple):  # type: ignore[type-arg]
    """`weft.Size([3, 4])`: a tuple of sizes. Entries may be symbolic while a function is captured."""

    __slots__ = ()

    def numel(self) -> Any:
        """The product of the sizes."""
        total: Any = 1
        for d in self:
            total = total * d
        return total

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return f"weft.Size([{', '.join(map(str, self))}])"


pytree.register(Size, lambda x: (list(x), None), lambda sizes, _: Size(sizes))
