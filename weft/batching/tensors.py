"""BatchTensor: examples of different sizes as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.batching.padding import cleaned, fitted, mask_of, sized
from weft.batching.values import Examples, Lengths
from weft.ops.packet import aten
from weft.support import pytree
from weft.support.errors import ArgumentError, DTypeError, ShapeError
from weft.tensor.creation import from_numpy
from weft.tensor.dense import is_dense
from weft.tensor.tensor import Tensor

_FORMS = (
    "BatchTensor: give a list of examples and dims, or data, mask and dims, or a tensor and how often to repeat it"
)


class BatchTensor:
    """Examples that are padded to the size of the largest.

    BatchTensor(examples, dims): a list of tensors [1, ...], and for each dim behind the first whether their sizes
        differ in it: a tensor or list of bools.
    BatchTensor(data, mask, dims): data [n, ...] with every example at its beginning, and True in the mask where an
        element belongs to its example; the mask has size 1 in dims whose sizes do not differ.
    BatchTensor(tensor, n): the same tensor n times.

    data, mask, dims: as above. Gradients flow to what the batch was made from. Raises ShapeError, DTypeError,
    ArgumentError where the parts do not fit.
    """

    data: Tensor
    mask: Tensor
    dims: Tensor

    def __init__(self, data: Any, mask: Any, dims: Any = None) -> None:
        if isinstance(data, Tensor) and dims is not None:
            self.data, self._lengths = _checked(data, mask, _flags(dims))
        elif isinstance(data, Tensor) and isinstance(mask, int) and not isinstance(mask, bool):
            self.data, self._lengths = _repeated(data, mask)
        elif isinstance(data, (list, tuple)) and dims is None and not isinstance(mask, int):
            self.data, self._lengths = _joined(data, _flags(mask))
        else:
            raise ArgumentError(_FORMS)
        self._describe()

    @classmethod
    def _of(cls, values: Examples) -> BatchTensor:
        """What the values are outside of a program: with the batch in front, in place of the batch of one."""
        batch = cls.__new__(cls)
        values = cleaned(values)
        batch.data, batch._lengths = values.data, values.lengths
        if values.leads:
            batch.data, batch._lengths = aten.squeeze(values.data, 1), values.lengths[1:]
        batch._describe()
        return batch

    def _values(self) -> Examples:
        """The examples as a program sees them: each with a batch of one in front."""
        return sized(aten.unsqueeze(self.data, 1), (None, *self._lengths))

    def _describe(self) -> None:
        self.mask = mask_of(self.batch_size, self.data.shape[1:], self._lengths)
        self.dims = from_numpy(np.array([length is not None for length in self._lengths], bool))

    @property
    def batch_size(self) -> int:
        """How many examples there are."""
        return self.data.shape[0]  # type: ignore[no-any-return]

    def examples(self) -> list[Tensor]:
        """The examples, each [1, ...] of its own size."""
        return [aten.unsqueeze(Examples(self.data, self._lengths).example(at), 0) for at in range(self.batch_size)]

    def get_data(self) -> Tensor:
        """The padded data."""
        return self.data

    def get_mask(self) -> Tensor:
        """True where an element belongs to its example."""
        return self.mask

    def get_dims(self) -> Tensor:
        """Which dims differ in size, that of the batch left out."""
        return self.dims

    def __repr__(self) -> str:
        shapes = [tuple(e.shape) for e in self.examples()]
        return f"BatchTensor(examples of {', '.join(map(str, shapes))}, dtype={self.data.dtype})"


def _flags(dims: Any) -> list[bool]:
    listed = dims.tolist() if isinstance(dims, Tensor) else dims
    if not isinstance(listed, (list, tuple)) or not all(flag in (0, 1) for flag in listed):
        raise ArgumentError("BatchTensor: dims says for each dim behind the first whether its sizes differ: bools")
    return [bool(flag) for flag in listed]


# ---- from examples
def _joined(examples: Sequence[Any], flags: list[bool]) -> tuple[Tensor, Lengths]:
    if not examples:
        raise ArgumentError("BatchTensor: the list has no example")
    for at, example in enumerate(examples):
        _check_example(example, at, flags, examples[0])
    shapes = [tuple(e.shape)[1:] for e in examples]
    dims = [max(sizes) for sizes in zip(*shapes, strict=True)]
    lengths = tuple([
        np.array([shape[dim] for shape in shapes], np.int64) if flag else None for dim, flag in enumerate(flags)
    ])
    return aten.cat(tuple([fitted(e, dims) for e in examples]), 0), lengths


def _check_example(example: Any, at: int, flags: list[bool], first: Any) -> None:
    if not isinstance(example, Tensor):
        raise ArgumentError(f"BatchTensor: example {at} is a {type(example).__name__}, not a tensor")
    shape = tuple(example.shape)
    if len(shape) != len(flags) + 1 or shape[0] != 1:
        raise ShapeError(
            f"BatchTensor: example {at} has shape {shape}; with {len(flags)} dims an example is a batch of one: "
            f"(1{', n' * len(flags)}). Give it as example.unsqueeze(0)"
        )
    if example.dtype is not first.dtype:
        raise DTypeError(f"BatchTensor: example 0 is {first.dtype}, example {at} is {example.dtype}")
    for dim, flag in enumerate(flags, 1):
        if not flag and shape[dim] != first.shape[dim]:
            raise ShapeError(
                f"BatchTensor: dim {dim} has size {first.shape[dim]} in example 0 and {shape[dim]} in example {at}, "
                f"but dims says that it does not differ; set dims[{dim - 1}]"
            )


def _repeated(value: Tensor, count: int) -> tuple[Tensor, Lengths]:
    if count < 1:
        raise ArgumentError(f"BatchTensor: a tensor is repeated at least once, not {count} times")
    return aten.expand(aten.unsqueeze(value, 0), (count, *value.shape)), (None,) * value.ndim


# ---- from data and mask
def _checked(data: Tensor, mask: Any, flags: list[bool]) -> tuple[Tensor, Lengths]:
    if not isinstance(mask, Tensor):
        raise ArgumentError(_FORMS)
    if data.ndim == 0 or data.ndim != mask.ndim or data.ndim != len(flags) + 1:
        raise ShapeError(
            f"BatchTensor: data of {data.ndim} dims has a mask of as many dims and one entry of dims less; got a mask "
            f"of {mask.ndim} dims and {len(flags)} entries"
        )
    for dim, (size, there) in enumerate(zip(data.shape, mask.shape, strict=True)):
        if there != size and (dim == 0 or flags[dim - 1] or there != 1):
            raise ShapeError(f"BatchTensor: dim {dim} has size {size} in data and {there} in the mask")
    if int(data.shape[0]) == 0:
        raise ArgumentError("BatchTensor: the batch has no example")
    return data, _lengths(np.asarray(mask.detach().numpy()).astype(bool), flags)


def _lengths(mask: np.ndarray[Any, Any], flags: list[bool]) -> Lengths:
    """How far each example reaches in the dims that differ."""
    lengths: list[Any] = []
    for dim, flag in enumerate(flags, 1):
        others = tuple(d for d in range(1, mask.ndim) if d != dim)
        lengths.append(mask.any(axis=others).sum(axis=1).astype(np.int64) if flag else None)
    wanted = mask_of(len(mask), mask.shape[1:], tuple(lengths)).numpy()
    if not np.array_equal(np.broadcast_to(wanted, mask.shape), mask):
        raise ShapeError(
            "BatchTensor: the mask must be True from each example's beginning to its end, in every dim"
        )
    return tuple(lengths)


def _parts(batch: BatchTensor) -> tuple[list[Any], Any]:
    """The data, and how far the examples reach where that differs, as tensors."""
    lengths = [n if isinstance(n, Tensor) else from_numpy(n) for n in batch._lengths if n is not None]
    return [batch.data, *lengths], tuple([n is None for n in batch._lengths])


def _of_parts(parts: list[Any], is_fixed: Any) -> Any:
    data, *rest = parts
    batch = BatchTensor.__new__(BatchTensor)
    lengths = iter([n.numpy() if isinstance(n, Tensor) and is_dense(n) else n for n in rest])
    batch.data, batch._lengths = data, tuple([None if fixed else next(lengths) for fixed in is_fixed])
    if isinstance(data, Tensor):
        examples = sized(data, batch._lengths)
        batch.data = examples.data
        batch._describe()
    return batch


pytree.register(BatchTensor, _parts, _of_parts)
