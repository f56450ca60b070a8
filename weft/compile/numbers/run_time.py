"""A number of Python's that is only known when the program runs: a function may return it."""

from __future__ import annotations

from weft.tensor.tensor import Tensor


class RunTimeNumber:
    """A number as the 0-dim tensor that holds it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
