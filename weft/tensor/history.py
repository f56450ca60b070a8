"""What autograd knows of a tensor: the node that made it, and the base that it is a view of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.tensor.tensor import Tensor


class AutogradState:
    """What autograd knows of a tensor: the node and output slot that made it, or that it is a leaf
    that wants a gradient."""

    # Class-level defaults: results of operators set only node and index.
    requires_grad = False
    node: Any = None
    index = 0
    grad: Tensor | None = None
    is_of_part = False  # whether `grad` is a part of another tensor's: of a wrapper's
    owns_grad = False  # whether nobody has been given `grad`: its bytes may be used again
    hooks: dict[int, Callable[..., Any]] | None = None
    post_accumulate: dict[int, Callable[..., Any]] | None = None
    accumulate: Any = None
    retains_grad = False
    version = 0

    def __init__(self, requires_grad: bool = False, node: Any = None, index: int = 0) -> None:
        if requires_grad:
            self.requires_grad = True
        self.node = node
        if index:
            self.index = index


class ViewOf:
    """Where a view comes from: the base it is a view of, and the view operators from there
    (op, arguments without self).

    `creation` says how it was made: "default", "no_grad", "inference", "multi" (one of several outputs) or "function"
    (by a custom Function); it decides what in-place writes may do. `array` is the base's payload when the view was
    made: an in-place view operator gives the base another.
    """

    __slots__ = ("array", "base", "creation", "path")

    def __init__(
        self, base: Tensor, path: tuple[tuple[Any, tuple[Any, ...], int], ...], creation: str = "default",
        array: Any = None,
    ) -> None:
        self.base, self.path, self.creation = base, path, creation
        self.array = base._data if array is None else array
