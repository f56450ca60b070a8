"""Data sets: by index, by iteration, over tensors, joined, and split."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from weft.ops.packet import aten
from weft.runtime.generator import Generator
from weft.support.errors import ArgumentError, IndexBoundsError, Unsupported, ValueProblem
from weft.tensor.tensor import Tensor

T = TypeVar("T")


class Dataset(Generic[T]):
    """Samples by index. Subclasses define `__getitem__`, and `__len__` where the size is known."""

    def __getitem__(self, index: Any) -> T:
        raise Unsupported("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T]) -> ConcatDataset[T]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples one after another. Subclasses define `__iter__`."""

    def __iter__(self) -> Iterator[T]:
        raise Unsupported("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[T]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of several tensors with the same first size."""

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].shape[0] != t.shape[0] for t in tensors):
            raise ValueProblem("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """Samples of several data sets side by side: tuples, or dicts for data sets given by name."""

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if bool(args) == bool(kwargs):
            raise ValueProblem("StackDataset takes data sets either as arguments or by name")
        self.datasets: Any = args or kwargs
        listed = list(args or kwargs.values())
        if any(len(d) != len(listed[0]) for d in listed):  # type: ignore[arg-type]
            raise ValueProblem("Size mismatch between datasets")
        self._length = len(listed[0])  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several samples at once, for data sets that give several faster than one by one. Raises ValueProblem."""
        named = self.datasets if isinstance(self.datasets, dict) else dict(enumerate(self.datasets))
        columns: dict[Any, list[Any]] = {}
        for name, dataset in named.items():
            samples = (
                list(dataset.__getitems__(indices)) if hasattr(dataset, "__getitems__")
                else [dataset[i] for i in indices]
            )
            if len(samples) != len(indices):
                raise ValueProblem(
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(samples)}"
                )
            columns[name] = samples
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) if isinstance(self.datasets, dict) else tuple(row) for row in rows]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T]):
    """Data sets one behind another."""

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueProblem("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise ArgumentError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        if index < 0:
            if -index > len(self):
                raise IndexBoundsError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexBoundsError(f"index {index} is out of range for {len(self)} samples")
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[T]):
    """Iterable data sets one behind another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[T]:
        for dataset in self.datasets:
            yield from dataset

    def __len__(self) -> int:
        return sum(len(d) for d in self.datasets)


class Subset(Dataset[T]):
    """Some samples of a data set, by their indices."""

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[T], lengths: Sequence[float], generator: Generator | None = None) -> list[Subset[T]]:
    """Disjoint random subsets of these lengths, or of these shares of the whole (what rounding leaves over goes
    to the first ones)."""
    total = len(dataset)  # type: ignore[arg-type]
    counts = _counts(list(lengths), total)
    if sum(counts) != total:
        raise ValueProblem("Sum of input lengths does not equal the length of the input dataset!")
    order = aten.randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(counts)
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts, strict=True)]


def _counts(lengths: list[float], total: int) -> list[int]:
    if not (math.isclose(sum(lengths), 1) and sum(lengths) <= 1):
        return [int(n) for n in lengths]
    if any(not 0 <= share <= 1 for share in lengths):
        raise ValueProblem("Fraction at index must be between 0 and 1")
    counts = [math.floor(total * share) for share in lengths]
    for i in range(total - sum(counts)):
        counts[i % len(counts)] += 1
    return counts
