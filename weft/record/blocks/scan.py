"""weft.scan: a loop over rows that carries values and gives a row of results for each. Outside of a capture it is
Python's; inside it becomes one prim::Loop, whose backward is one too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.layers.transforms.level import top
from weft.ops.packet import aten
from weft.record.active import active_capture
from weft.record.blocks.control import (
    as_tensor,
    check_classes,
    check_types,
    class_of,
    classes_of,
    of_classes,
    refuse_under_transforms,
    trace_of,
)
from weft.record.blocks.loops import Outcome, repeat
from weft.runtime.generator import unmoved
from weft.support import pytree
from weft.support.errors import ArgumentError
from weft.support.locations import user_location
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types.dims import symbols
from weft.types.sym import SymInt

if TYPE_CHECKING:
    from weft.ir.builder import Builder
    from weft.ir.graph import Value
    from weft.record.capture import Capture

Rows = list[Tensor]


def scan(fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, reverse: bool = False) -> tuple[Any, Any]:
    """`carry, y = fn(carry, x)` for each row x of xs, from init on; returns the carry at the end and the y's as rows.

    init: a tensor, a number or nested tuples, lists and dicts of them. xs: the same of tensors: [n, ...] each. ys are
    [n, ...], the row of y where that of x is (None for a y of None); reverse: from the last row to the first. Numbers
    among the carried values become 0-dim tensors. In a compiled function the loop is one node, which serves every n,
    and so is its backward, of any order. Without rows fn is called once, on zeros, for the shapes of ys.
    Raises ArgumentError if xs has no tensor or tensors of different lengths, or if fn does not give a pair whose carry
    has the structure, shapes and dtypes of init; a compiled function raises CaptureError for the latter.
    """
    capture = active_capture()
    if capture is not None:
        refuse_under_transforms(capture, "scan")
    leaves, rows = pytree.flatten(xs)
    begin, state = pytree.flatten(init)
    length = _length(leaves)
    carried = [as_tensor(capture, c) for c in begin]
    classes = classes_of(leaves)
    shapes: list[tuple[pytree.TreeSpec, list[type[Tensor] | None]]] = []  # of y, and the classes of its leaves

    def step(values: Rows, slices: Rows) -> tuple[Rows, Rows]:
        pair = fn(pytree.unflatten(values, state), pytree.unflatten(of_classes(slices, classes), rows))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ArgumentError(f"scan: fn has to return a pair (carry, y), not {_said(pair)}")
        following, spec = pytree.flatten(pair[0])
        if spec != state:
            raise ArgumentError(f"scan: fn gives a carry of structure {spec!r} where init has {state!r}")
        row, output = pytree.flatten(pair[1])
        shapes[:] = [(output, [None if y is None else class_of(y) for y in row])]
        return [as_tensor(capture, f) for f in following], [as_tensor(capture, y) for y in row if y is not None]

    trace = trace_of([*leaves, *carried]) if capture is None else None
    if trace is not None:
        final, ys = trace.scan(
            step, carried, leaves, length, reverse,
            lambda begin, xs, count: _in_python(step, begin, xs, count, reverse),
        )
    elif capture is None:
        final, ys = _in_python(step, carried, leaves, length, reverse)
    else:
        final, ys = _recorded(capture, step, carried, leaves, length, reverse)
    output, kinds = shapes[0]
    each = iter(of_classes(ys, [kind for kind in kinds if kind is not None]))
    rows_of = [None if kind is None else next(each) for kind in kinds]
    return pytree.unflatten(final, state), pytree.unflatten(rows_of, output)


def is_loop(length: Any) -> bool:
    """Whether steps of weft's own over so many rows are recorded as one loop: where calls may bring another number of
    them, or one for which a program did not fit has come.
    """
    capture = active_capture()
    if capture is None or type(length) is not SymInt or top() is not None:
        return False
    has_changed = not symbols(length.expr).isdisjoint(capture.changing_sizes)
    is_one = has_changed or capture.repeats.may_change(length)
    capture.has_loops_for_sizes |= is_one
    return is_one


def _said(returned: Any) -> str:
    return f"{len(returned)} values" if isinstance(returned, (tuple, list)) else f"a {type(returned).__name__}"


def _length(leaves: Sequence[Any]) -> Any:
    """How many rows there are."""
    if not leaves:
        raise ArgumentError("scan: xs has no tensor, so that the number of steps is unknown; pass weft.arange(n)")
    wrong = next((v for v in leaves if not isinstance(v, Tensor) or v.ndim == 0), None)
    if wrong is not None:
        kind = "a 0-dim tensor" if isinstance(wrong, Tensor) else _said(wrong)
        raise ArgumentError(f"scan: xs has to be tensors with at least one dim, not {kind}")
    length = leaves[0].shape[0]
    other = next((v.shape[0] for v in leaves if v.shape[0] != length), None)
    if other is not None:
        raise ArgumentError(f"scan: the tensors in xs have {length} and {other} rows")
    return length


Step = Callable[[Rows, Rows], tuple[Rows, Rows]]


def _in_python(step: Step, carried: Rows, xs: Rows, length: int, reverse: bool) -> tuple[Rows, Rows]:
    if length == 0:
        with no_grad(), unmoved():
            _, rows_like = step(carried, [aten.zeros(x.shape[1:], dtype=x.dtype) for x in xs])
        return carried, [aten.zeros((0, *y.shape), dtype=y.dtype) for y in rows_like]
    slices = [aten.unbind(x, 0) for x in xs]
    expected = [(c.dtype, c.shape) for c in carried]
    outputs: list[Rows] = []
    for i in reversed(range(length)) if reverse else range(length):
        carried, ys = step(carried, [rows[i] for rows in slices])
        kinds = [(c.dtype, c.shape) for c in carried]
        if kinds != expected:
            raise ArgumentError(f"scan: fn gives a carry {_listed(kinds)} where init is {_listed(expected)}")
        outputs.append(ys)
    if reverse:
        outputs.reverse()
    return carried, [aten.stack(list(rows), 0) for rows in zip(*outputs, strict=True)]


def _listed(kinds: Sequence[tuple[Any, Any]]) -> str:
    return ", ".join(f"{dtype.short}{list(shape)}" for dtype, shape in kinds)


def _recorded(
    capture: Capture, step: Step, carried: Rows, xs: Rows, length: Any, reverse: bool
) -> tuple[Rows, Rows]:
    types, classes = [capture.tensors.operand(c).type for c in carried], classes_of(carried)

    def body(inner: Builder, index: Value, states: Rows, slices: Rows) -> Outcome:
        following, ys = step(of_classes(states, classes), slices)
        check_classes(capture, "scan: fn gives a carry of", classes, classes_of(following))
        check_types(capture, "scan: fn gives a carry", types, [capture.tensors.operand(f) for f in following])
        return True, following, ys

    outputs = repeat(capture, length, True, carried, xs, reverse, body, where=user_location(3))
    return of_classes(outputs[: len(carried)], classes), outputs[len(carried) :]
