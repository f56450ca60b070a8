"""Sequences of different lengths: padded into one tensor, or packed step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.support.errors import StateError, ValueProblem
from weft.tensor.creation import tensor
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

Array = np.ndarray[Any, Any]


class PackedSequence(NamedTuple):
    """Steps of sequences in falling order of length: data [sum of lengths, ...], batch_sizes [steps] (int64),
    and the orders of the batch."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same steps with other data: see Tensor.to. Self where nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._replace(data=data)

    def cpu(self) -> PackedSequence:
        """Self: the data are on the CPU."""
        return self.to("cpu")

    def float(self) -> PackedSequence:
        """The same steps in float32."""
        return self.to(dt.float32)

    def double(self) -> PackedSequence:
        """The same steps in float64."""
        return self.to(dt.float64)

    def half(self) -> PackedSequence:
        """The same steps in float16."""
        return self.to(dt.float16)

    def long(self) -> PackedSequence:
        """The same steps in int64."""
        return self.to(dt.int64)

    def int(self) -> PackedSequence:
        """The same steps in int32."""
        return self.to(dt.int32)

    def short(self) -> PackedSequence:
        """The same steps in int16."""
        return self.to(dt.int16)

    def char(self) -> PackedSequence:
        """The same steps in int8."""
        return self.to(dt.int8)

    def byte(self) -> PackedSequence:
        """The same steps in uint8."""
        return self.to(dt.uint8)

    def pin_memory(self) -> PackedSequence:
        """Self: there is no GPU to copy to."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a GPU: never."""
        return False

    def is_pinned(self) -> bool:
        """Whether the data are page-locked: never."""
        return False

    def _in_order(self) -> PackedSequence:
        """The same steps, taken as sorted."""
        return PackedSequence(self.data, self.batch_sizes)


@overridable
def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences [l_i, ...] as one tensor [max l, n, ...], or [n, max l, ...] with batch_first."""
    if not isinstance(sequences, Iterable):
        raise StateError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    sequences = tuple(sequences)
    if not sequences:
        raise StateError("pad_sequence: received an empty list of sequences")
    longest = max(int(s.shape[0]) for s in sequences)
    padded = []
    for s in sequences:
        missing = longest - int(s.shape[0])
        ends = (0, missing) if padding_side == "right" else (missing, 0)
        padded.append(aten.constant_pad_nd(s, (*(0, 0) * (s.ndim - 1), *ends), padding_value))
    return aten.stack(tuple(padded), 0 if batch_first else 1)


@overridable
def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences that pad_sequence joined."""
    rows = padded_sequences if batch_first else aten.transpose(padded_sequences, 0, 1)
    return [aten.narrow(aten.select(rows, 0, i), 0, 0, length) for i, length in enumerate(lengths.tolist())]


@overridable
def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences [max l, n, ...] as a PackedSequence. Raises StateError for lengths that are not positive or,
    if enforced, not falling."""
    written = getattr(input, "__weft_written__", None)  # of a model in a file, where lengths are found by a run
    if written is not None:
        return written("pack_padded_sequence", input, lengths, batch_first, enforce_sorted)
    if isinstance(lengths, Tensor) and lengths.ndim != 1:
        raise StateError(f"Expected `lengths` to be a 1-D tensor or a list, got one of {lengths.ndim} dims")
    counts = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    if not counts:
        raise StateError("Cannot pack empty tensors: there are no lengths")
    if min(counts) <= 0:
        raise StateError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    longest, batch = input.shape[1 if batch_first else 0], input.shape[0 if batch_first else 1]
    if len(counts) != batch:
        raise StateError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={batch})"
        )
    order = list(range(len(counts))) if enforce_sorted else sorted(range(len(counts)), key=lambda i: -counts[i])
    falling = [counts[i] for i in order]
    if falling != sorted(falling, reverse=True):
        raise StateError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to "
            "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX "
            "exportability.")
    if falling[0] > longest:
        raise StateError(f"Expected lengths of at most {longest} steps (the input's), but got {falling[0]}")
    sizes, step, row = _steps_of(falling)
    column = np.array(order)[row]
    rows = column * int(longest) + step if batch_first else step * len(counts) + column
    # one operator, whatever the lengths are: they are data
    data = aten.index_select(aten.flatten(input, 0, 1), 0, _places(rows, input))
    if enforce_sorted:
        return PackedSequence(data, tensor(sizes, dtype=dt.int64))
    back = sorted(range(len(order)), key=order.__getitem__)
    return PackedSequence(data, tensor(sizes, dtype=dt.int64), _places(order, input), _places(back, input))


def _places(numbers: Any, beside: Tensor) -> Tensor:
    """Indices, on the device of what they pick from."""
    return tensor(numbers, dtype=dt.int64).to(beside.device)


def _steps_of(falling: Sequence[int]) -> tuple[Array, Array, Array]:
    """Of sequences with these lengths: how many there are at each step; and of each row of packed data its step, and
    its place in the batch."""
    is_there = np.array(falling)[None, :] > np.arange(falling[0])[:, None]
    step, row = np.nonzero(is_there)
    return is_there.sum(1), step, row


@overridable
def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded tensor [max l, n, ...] of a PackedSequence, and the lengths [n]."""
    written = getattr(sequence[0], "__weft_written__", None)
    if written is not None:
        return written("pad_packed_sequence", sequence, batch_first, padding_value, total_length)
    sizes = sequence.batch_sizes.tolist()
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueProblem(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max "
            f"sequence length being {len(sizes)}")
    batch, counts = sizes[0], [sum(size > i for size in sizes) for i in range(sizes[0])]
    _, step, row = _steps_of(counts)
    empty = aten.new_full(sequence.data.detach(), (steps * batch, *sequence.data.shape[1:]), padding_value)
    filled = aten.index_copy(empty, 0, _places(step * batch + row, empty), sequence.data)
    padded = aten.unflatten(filled, 0, (steps, batch))
    lengths = tensor(counts, dtype=dt.int64)
    if sequence.unsorted_indices is not None:
        padded = aten.index_select(padded, 1, sequence.unsorted_indices)
        lengths = aten.index_select(lengths, 0, sequence.unsorted_indices.to(lengths.device))
    return (aten.transpose(padded, 0, 1) if batch_first else padded), lengths


@overridable
def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences [l_i, ...] as a PackedSequence."""
    lengths = [int(s.shape[0]) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


@overridable
def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a PackedSequence."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
