"""Operators on examples of different sizes, all at once: element by element, views, and with padding that does not
count. What an example has behind its end is cleared before an operator reads it, and gets no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from weft.batching.padding import cleaned, filled, fitted, lengths_of, sized
from weft.batching.probing import agree, is_open, lengths_of_result, lengths_of_view
from weft.batching.values import Examples, Lengths, PerExample, count_of, differs, in_form, within
from weft.layers.transforms.batched import AsksForAValue
from weft.ops.geometry import Geometry
from weft.ops.op import Op, padding_of
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.tensor.creation import from_numpy
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

Dims = tuple[int, ...]
OnLevel = Callable[..., Any]


def at_once(op: Op, function: Callable[..., Any], args: tuple[Any, ...], on_level: OnLevel) -> Any:
    """The operator's result for all examples; NotImplemented where they must run one by one. Raises what the call for
    an example raises.
    """
    args = _with_numbers(op, args)
    if any(not isinstance(value, Examples) for value in within(args)):
        return NotImplemented
    if op.view is not None:
        return _view(op, function, args, on_level)
    if op.scalar is not None and isinstance(op.type, Pointwise):
        return _pointwise(function, args, on_level)
    if op.like:
        return _like(function, args, on_level)
    fill = padding_of(op, args)
    if fill is not None:
        return _padded(op, function, args, fill, on_level)
    return _opened(op, args)


def _opened(op: Op, args: tuple[Any, ...]) -> Any:
    """A composite as what it is made of; where that asks for a size that differs, it is run for each example."""
    if op.decompose is None or op.effect == "random":
        return NotImplemented
    try:
        result = op.decompose(*args)
    except (AsksForAValue, AttributeError):
        return NotImplemented
    return result if differs(result) else NotImplemented


# ---- element by element
def _with_numbers(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers that differ, in an operator element by element, as tensors of the dtype that they have no say in."""
    if op.scalar is None or not isinstance(op.type, Pointwise) or op.type.into_self:
        return args
    dtypes = [a.dtype for a in args if isinstance(a, (Examples, Tensor))]
    operands = list(args)
    for at in op.tensor_positions:
        value = args[at]
        if isinstance(value, PerExample) and dtypes and _goes_into(value.values, dtypes[0]):
            operands[at] = Examples(from_numpy(np.array(value.values, dtypes[0].numpy)))
    return tuple(operands)


def _goes_into(numbers: Sequence[Any], dtype: DType) -> bool:
    """Whether an operation with such numbers keeps the dtype."""
    kinds = {type(number) for number in numbers}
    return (kinds <= {int, float} and dtype.numpy.kind == "f") or (kinds == {int} and dtype.numpy.kind == "i")


def _pointwise(function: Callable[..., Any], args: tuple[Any, ...], on_level: OnLevel) -> Any:
    lengths = _broadcast([a for a in args if isinstance(a, (Examples, Tensor))])
    if lengths is None:
        return NotImplemented
    bare = tuple([Examples(cleaned(a).data) if isinstance(a, Examples) else a for a in args])
    out = on_level(function, bare, count_of(args))
    return Examples(out.data, lengths)


def _broadcast(operands: Sequence[Any]) -> Lengths | None:
    """The lengths of a result element by element; None where an example's own sizes must be looked at."""
    lengths: list[Any] = []
    for at in range(-max(t.ndim for t in operands), 0):
        there = [t for t in operands if t.ndim >= -at]
        ragged = [n for n in (_length(t, at) for t in there) if n is not None]
        if not ragged:
            lengths.append(None)
            continue
        first = ragged[0]
        if isinstance(first, Tensor):
            rest = [*ragged[1:], *(_size(t, at) for t in there if _length(t, at) is None and _size(t, at) != 1)]
            assert all(agree(first, other) for other in rest)
            lengths.append(first)
            continue
        fixed = {_size(t, at) for t in there if _length(t, at) is None} - {1}
        if any(not np.array_equal(first, other) for other in ragged[1:]) or any((first != s).any() for s in fixed):
            return None
        lengths.append(first)
    return tuple(lengths)


def _length(operand: Any, at: int) -> Any:
    return operand.lengths[at] if isinstance(operand, Examples) else None


def _size(operand: Any, at: int) -> int:
    return int((operand.data if isinstance(operand, Examples) else operand).shape[at])


def _like(function: Callable[..., Any], args: tuple[Any, ...], on_level: OnLevel) -> Any:
    first = args[0]
    if not isinstance(first, Examples):
        return NotImplemented
    return Examples(on_level(function, (Examples(first.data), *args[1:]), first.size).data, first.lengths)


# ---- views
def _view(op: Op, function: Callable[..., Any], args: tuple[Any, ...], on_level: OnLevel) -> Any:
    """A view of the padded data, where it shows of each example what the view of the example alone shows."""
    source, rest = args[0], args[1:]
    assert op.view is not None
    if op.view.is_free or not isinstance(source, Examples) or differs(rest):
        return NotImplemented
    if is_open(source):
        return _open_view(op, function, args, on_level)
    strides = tuple(source.data.stride())[1:]
    shown = [op.view.geometry(Geometry(source.dims_of(i), strides, 0), *rest) for i in range(source.size)]
    try:
        whole = op.view.geometry(Geometry(tuple(source.data.shape[1:]), strides, 0), *rest)
    except (RuntimeError, IndexError):
        return NotImplemented
    if not isinstance(whole, Geometry) or not all(isinstance(g, Geometry) and _is_start(g, whole) for g in shown):
        return NotImplemented
    out = on_level(function, (Examples(source.data), *rest), source.size)
    viewed = sized(out.data, _shown_lengths(source, strides, whole, [tuple(map(int, g.dims)) for g in shown]))
    viewed.root = source.root
    return viewed


def _open_view(op: Op, function: Callable[..., Any], args: tuple[Any, ...], on_level: OnLevel) -> Any:
    source, rest, view = args[0], args[1:], op.view
    assert view is not None
    lengths = lengths_of_view(source, lambda shown: view.geometry(shown, *rest), _is_start)
    if lengths is None:
        return NotImplemented
    viewed = Examples(on_level(function, (Examples(source.data), *rest), source.size).data, lengths)
    viewed.root = source.root
    return viewed


def _is_start(part: Geometry, whole: Geometry) -> bool:
    """Whether one geometry shows the first elements of another, dim by dim."""
    return part.offset == whole.offset and part.ndim == whole.ndim and all(
        size <= most and (size <= 1 or step == wide)
        for size, most, step, wide in zip(part.dims, whole.dims, part.strides, whole.strides, strict=True)
    )


def _shown_lengths(source: Examples, strides: Any, whole: Geometry, shapes: Sequence[Dims]) -> Lengths:
    """The lengths of a view: those that differ, and whole dims of the source whose sizes may."""
    lengths = list(lengths_of(shapes))
    ragged = {
        (size, step) for size, step, length in zip(source.data.shape[1:], strides, source.lengths, strict=True)
        if length is not None
    }
    for at, pair in enumerate(zip(whole.dims, whole.strides, strict=True)):
        if lengths[at] is None and pair in ragged:
            lengths[at] = np.array([shape[at] for shape in shapes], np.int64)
    return tuple(lengths)


# ---- with padding
def _padded(op: Op, function: Callable[..., Any], args: tuple[Any, ...], fill: Any, on_level: OnLevel) -> Any:
    if op.tensor_list_positions or any(isinstance(a, (list, tuple)) and differs(a) for a in args):
        return NotImplemented
    count = count_of(args)
    bare = tuple([Examples(filled(a, fill)) if isinstance(a, Examples) else a for a in args])
    if any(isinstance(a, Examples) and is_open(a) for a in args):
        lengths = lengths_of_result(args, lambda sizes: _dims_of_example(op, function, args, sizes))
        return _with_lengths(on_level(function, bare, count), lengths)
    shapes = _result_dims(op, function, args, count)
    return _cut(on_level(function, bare, count), shapes)


def _result_dims(op: Op, function: Callable[..., Any], args: tuple[Any, ...], count: int) -> list[Any]:
    """The sizes of what each example gives, by the type rule; what is wrong for one is raised here."""
    by_sizes: dict[Any, Any] = {}
    dims = []
    for at in range(count):
        key = tuple([a.dims_of(at) for a in args if isinstance(a, Examples)])
        if key not in by_sizes:
            by_sizes[key] = _dims_of_example(op, function, args, partial(_own_dims, at))
        dims.append(by_sizes[key])
    return dims


def _own_dims(at: int, value: Any) -> Any:
    return value.dims_of(at) if isinstance(value, Examples) else tuple(value.shape)


def _dims_of_example(op: Op, function: Callable[..., Any], args: tuple[Any, ...], sizes: Callable[[Any], Any]) -> Any:
    """The sizes of what an example gives, where `sizes` says those of the operands."""
    if op.type is not None:
        return _dims_of(op.type(*[_type_of(a, sizes) for a in args]))
    with nullcontext() if modes.capture is None else modes.capture.paused():
        return _dims_of(function(*[_abstract(a, sizes) for a in args]))


def _type_of(value: Any, sizes: Callable[[Any], Any]) -> Any:
    return tensor_type(value.dtype, sizes(value)) if isinstance(value, (Examples, Tensor)) else value


def _abstract(value: Any, sizes: Callable[[Any], Any]) -> Any:
    if isinstance(value, (Examples, Tensor)):
        return aten.empty(sizes(value), dtype=value.dtype, device="meta")
    return value


def _dims_of(result: Any) -> Any:
    if isinstance(result, TensorType):
        return tuple([int(d) for d in result.shape])  # type: ignore[arg-type]
    return tuple(result.shape) if isinstance(result, Tensor) else [_dims_of(part) for part in result]


def _cut(out: Any, shapes: Sequence[Any]) -> Any:
    """Results cut to the sizes of the longest example."""
    if isinstance(out, (tuple, list)):
        return in_form(out, [_cut(part, [shape[i] for shape in shapes]) for i, part in enumerate(out)])
    dims = [max(sizes) for sizes in zip(*shapes, strict=True)]
    return Examples(fitted(out.data, dims), lengths_of(shapes))


def _with_lengths(out: Any, lengths: Any) -> Any:
    if isinstance(out, (tuple, list)):
        return in_form(out, [_with_lengths(part, lengths[i]) for i, part in enumerate(out)])
    return Examples(out.data, lengths)
