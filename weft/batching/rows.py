"""Rows: the examples that go on in a block, out of those around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.tensor.creation import from_numpy
from weft.tensor.tensor import Tensor


@dataclass(frozen=True)
class Rows:
    """Some of `count` examples, in order."""

    indices: tuple[int, ...]
    count: int

    @classmethod
    def all_of(cls, count: int) -> Rows:
        """Every example."""
        return cls(tuple(range(count)), count)

    @property
    def is_all(self) -> bool:
        """Whether every example is among them."""
        return len(self.indices) == self.count

    def __len__(self) -> int:
        return len(self.indices)

    def kept(self, wanted: Sequence[bool]) -> Rows:
        """Those of them for which `wanted` holds; itself where all do."""
        indices = tuple([row for row, is_wanted in zip(self.indices, wanted, strict=True) if is_wanted])
        return self if len(indices) == len(self.indices) else Rows(indices, self.count)


def index_tensor(indices: Sequence[int]) -> Tensor:
    """Numbers of examples as a tensor that indexes."""
    return from_numpy(np.array(indices, np.int64))
