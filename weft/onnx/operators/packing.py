"""Packed sequences, written: which steps belong to a sequence is a mask of lengths, [steps, batch]."""

from __future__ import annotations

from typing import Any

import weft
from weft.nn.utils.rnn import PackedSequence
from weft.onnx.outputs import Output
from weft.onnx.registry import function_symbolic


def _inside(g: Any, steps: Any, lengths: Output) -> Output:
    """Whether step t is one of sequence b, [steps, batch]."""
    return g.op(  # type: ignore[no-any-return]
        "Less", g.op("Unsqueeze", g.steps(steps), g.ints([1])), g.op("Unsqueeze", lengths, g.ints([0]))
    )


def _counted(g: Any, mask: Output, axis: int) -> Output:
    return g.op("ReduceSum", g.cast(mask, weft.int64), g.ints([axis]), keepdims=0)  # type: ignore[no-any-return]


def _turned(g: Any, x: Output, batch_first: bool) -> Output:
    order = [1, 0, *range(2, g.ndim(x))]
    return g.op("Transpose", x, perm=order) if batch_first else x


@function_symbolic("pack_padded_sequence")
def write_pack(g: Any, input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
    steps = _turned(g, input, batch_first)
    falling = g.cast(lengths, weft.int64) if g.is_tensor(lengths) else g.shape(lengths)
    order = back = None
    if not enforce_sorted:
        batch = g.shape([g.size(falling, 0)])
        falling, order = g.op("TopK", falling, batch, outputs=2)
        _, back = g.op("TopK", order, batch, largest=0, outputs=2)
        steps = g.op("Gather", steps, order, axis=1)
    longest = g.op("Gather", falling, g.numbers(0, weft.int64))
    inside = _inside(g, longest, falling)
    places = g.op("Transpose", g.op("NonZero", inside), perm=[1, 0])
    parts: Any = (g.op("GatherND", steps, places), _counted(g, inside, 1), order, back)
    return PackedSequence(*parts)


@function_symbolic("pad_packed_sequence")
def write_pad(
    g: Any, sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: Any = None
) -> Any:
    data, sizes, _, back = sequence
    batch = g.op("Gather", sizes, g.numbers(0, weft.int64))
    inside = g.op("Transpose", _inside(g, batch, sizes), perm=[1, 0])
    lengths = _counted(g, inside, 0)
    steps = g.size(inside, 0) if total_length is None else total_length
    shape = g.shape([steps, g.size(inside, 1), *(g.size(data, i) for i in range(1, g.ndim(data)))])
    places = g.op("Transpose", g.op("NonZero", inside), perm=[1, 0])
    padded = g.op("ScatterND", g.filled(shape, padding_value, g.dtype(data)), places, data)
    if back is not None:
        padded, lengths = g.op("Gather", padded, back, axis=1), g.op("Gather", lengths, back)
    return _turned(g, padded, batch_first), lengths
