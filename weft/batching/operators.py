"""An operator on the values of all examples: at once by its batch rule where their sizes allow it, with padding where
the entry says what may stand there, and example by example for everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from weft.batching.analysis import SET_ITEM
from weft.batching.indexing import GET_ITEM, indexed, is_basic
from weft.batching.masks import check_target
from weft.batching.padding import fitted, gathered, numbers_of
from weft.batching.probing import agree, is_open
from weft.batching.ragged import at_once
from weft.batching.selecting import written_back
from weft.batching.values import (
    Examples,
    PerExample,
    count_of,
    differs,
    in_form,
    is_ragged,
    of_example,
    routes,
)
from weft.catalogue.language.entries import SIGNATURES
from weft.catalogue.language.signatures import is_variable, stands_for_any
from weft.jit.interpreter.recording.values import NotRecorded
from weft.layers.transforms.batched import AsksForAValue, BatchLevel
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.support.counters import counters
from weft.support.errors import ShapeError, StateError
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import FLOAT, INT, NUMBER, TensorType

Function = Callable[..., Any]


def of_node(op: Op, function: Function, args: tuple[Any, ...]) -> Any:
    """The operator of a program's node; `function` is what computes it for one example."""
    if op.host:
        return _of_python(op, function, args)
    if op.writes is not None:
        return _written(op.writes, function, args)
    return _on_tensors(op, function, args)


def of_tensors(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator as rules call it, which are opened on the values of all examples."""
    function = partial(_called, op)
    return _on_tensors(op, function, args) if differs(args) else function(*args)


def _called(op: Op, *args: Any) -> Any:
    return call(op, args)


def drawn(op: Op, args: tuple[Any, ...], count: int) -> Any:
    """Random numbers for each example, of the same sizes for all."""
    if differs(args):
        return example_by_example(partial(_called, op), args)
    return on_level(partial(_called, op), args, count)


# ---- on the level of vmap
def on_level(function: Function, args: tuple[Any, ...], count: int, shows: Examples | None = None) -> Any:
    """What the function gives where each tensor stands for all examples, which are of one size. shows: the value whose
    memory the result is a view of."""
    level = BatchLevel(count, "different")
    with level:
        entered: dict[int, Examples] = {}
        lowered = [_entered(level, a, entered) for a in args]
        out = function(*lowered)
    return _left(level, out, entered, shows)


def _entered(level: BatchLevel, value: Any, entered: dict[int, Examples]) -> Any:
    if type(value) is Examples:
        tensor = level.wrap(value.data)
        entered[id(tensor)] = value
        return tensor
    if isinstance(value, (tuple, list)) and differs(value):
        return in_form(value, [_entered(level, part, entered) for part in value])
    return value


def _left(level: BatchLevel, out: Any, entered: dict[int, Examples], shows: Examples | None) -> Any:
    if isinstance(out, Tensor):
        if id(out) in entered:
            return entered[id(out)]
        return Examples(out._data.value, None, None if shows is None else shows.root) if level.owns(out) else out
    if isinstance(out, (tuple, list)):
        return in_form(out, [_left(level, part, entered, shows) for part in out])
    return out


# ---- example by example
def example_by_example(function: Function, args: tuple[Any, ...], keeps_lists: bool = False) -> Any:
    """The function for one example after the other; right for everything. Counted in weft.counters.vmap_loops."""
    if modes.capture is not None and is_ragged(args):
        raise NotRecorded("what runs example by example, for examples whose sizes are only known when the program runs")
    counters.vmap_loops += 1
    outputs = [function(*[of_example(a, at) for a in args]) for at in range(count_of(*args))]
    return gathered(outputs, keeps_lists)


# ---- operators on tensors
def _on_tensors(op: Op, function: Function, args: tuple[Any, ...]) -> Any:
    shows = args[0] if _is_view(op) and type(args[0]) is Examples else None
    if op.by_rank:
        product = _without_leads(op, function, args)
        if product is not None:
            return product
    if not is_ragged(args):
        return on_level(function, args, count_of(*args), shows)
    result = at_once(op, function, args, on_level)
    if result is not NotImplemented:
        return result
    by_example = example_by_example(function, args)
    if shows is not None:
        mark_copies(by_example)
    return by_example


def _is_view(op: Op) -> bool:
    return op.view is not None or any(r.alias for r in op.schema.returns)


def mark_copies(value: Any) -> None:
    """Note that tensors are copies of what the program's own would be: they cannot be written into."""
    if isinstance(value, Examples):
        value.is_copy = True
    elif isinstance(value, (tuple, list)):
        for part in value:
            mark_copies(part)


def _without_leads(op: Op, function: Function, args: tuple[Any, ...]) -> Any:
    """A product of examples without the batch of one that each was given with; None where they have none, or only the
    product with it is one."""
    tensors = [args[i] for i in op.tensor_positions if args[i] is not None]
    own = [t for t in tensors if type(t) is Examples]
    if not own or not all(t.leads for t in own) or (len(own) < len(tensors) and all(t.ndim < 3 for t in own)):
        return None
    bare = tuple([
        Examples(aten.squeeze(a.data, 1), a.lengths[1:]) if type(a) is Examples else a for a in args
    ])
    try:
        product = _on_tensors_bare(op, function, bare)
    except ShapeError:
        return None
    return Examples(aten.unsqueeze(product.data, 1), (None, *product.lengths))


def _on_tensors_bare(op: Op, function: Function, args: tuple[Any, ...]) -> Examples:
    if not is_ragged(args):
        product = on_level(function, args, count_of(*args))
    else:
        product = at_once(op, function, args, on_level)
        if product is NotImplemented:
            product = example_by_example(function, args)
    assert isinstance(product, Examples)
    return product


def _written(op: Op, function: Function, args: tuple[Any, ...]) -> Any:
    """An in-place operator; `op` computes what is written."""
    target = args[0]
    _check_target(f"{op.base}_", target)
    if is_ragged(args):
        new = _on_tensors(op, partial(_called, op), _with_tuples(args))
        _copy_into(op, target, new)
    else:
        on_level(function, args, target.size)
    written_back(target)
    return target


def _check_target(what: str, target: Any) -> None:
    if type(target) is not Examples:
        raise StateError(f"{what}: the examples write into a tensor that all of them share; make a new one instead")
    check_target(target)
    if target.is_copy:
        raise StateError(
            f"{what}: this writes into a part of something that each example has for itself (a view of examples of "
            "different sizes, an element of a list), which is a copy here; write into a tensor of the program's own"
        )


def _with_tuples(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([tuple(a) if isinstance(a, list) else a for a in args])


def _copy_into(op: Op, target: Examples, new: Any) -> None:
    if not isinstance(new, Examples) or new.ndim != target.ndim or not _fits(new, target):
        raise ShapeError(f"{op.base}_: the result has other sizes than the tensor that it is written into")
    target.data.copy_(fitted(new.data, target.data.shape[1:]))


def _fits(new: Examples, target: Examples) -> bool:
    if not is_open(new) and not is_open(target):
        return all(new.dims_of(at) == target.dims_of(at) for at in range(target.size))
    return all(
        agree(new.lengths[dim] if new.lengths[dim] is not None else new.data.shape[dim + 1], length)
        for dim, length in enumerate(target.lengths) if length is not None
    )


# ---- operators on values of Python's
def _of_python(op: Op, function: Function, args: tuple[Any, ...]) -> Any:
    if op is not SET_ITEM:
        return _of_each(op, function, args)
    _check_target("tensor[...] = value", args[0])
    result = _of_each(op, function, args)
    written_back(args[0])
    return result


def _of_each(op: Op, function: Function, args: tuple[Any, ...]) -> Any:
    first = args[0] if args else None
    if len(args) == 1 and type(first) is Examples and _takes_numbers(op):
        numbers = numbers_of(first)
        if numbers is not None:
            return gathered([function(number) for number in numbers], keeps_lists=True)
    if op is GET_ITEM and type(first) is Examples and is_basic(args[1]):
        return indexed(first, args[1])
    if type(first) is Examples and op.schema.arguments[0].is_tensor and not is_ragged(args):
        try:
            return on_level(function, args, first.size, first)
        except AsksForAValue:
            pass
    elif all(_is_opaque(op, at, value) for at, value in enumerate(args)):
        try:
            return function(*args)
        except AsksForAValue:
            pass
    by_example = example_by_example(function, args, keeps_lists=True)
    mark_copies(by_example)
    return by_example


def _takes_numbers(op: Op) -> bool:
    """Whether the operator takes a number as well as a tensor of one element."""
    takes = [s.takes[0] for s in SIGNATURES.get(op, ()) if len(s.takes) == 1]
    of_tensors = any(isinstance(kind, TensorType) for kind in takes)
    return of_tensors and (len(takes) == 1 or any(kind in (INT, FLOAT, NUMBER) for kind in takes))


def _is_opaque(op: Op, at: int, value: Any) -> bool:
    """Whether the operator does not look into what it is given there: it holds it, or hands it on."""
    if not differs(value):
        return True
    signatures = SIGNATURES.get(op)
    if signatures is None:
        return False
    takes = [s.takes[at] for s in signatures if at < len(s.takes)]
    if type(value) is PerExample:
        return bool(takes) and all(map(is_variable, takes))
    return all(map(stands_for_any, takes))


routes.append(of_tensors)
