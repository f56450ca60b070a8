"""weft.cond and weft.while_loop: choices and loops that hang on values. Outside of a capture they are Python's;
inside they become prim::If and prim::Loop.

A branch or body is recorded into a block of its own. It may read any tensor (arguments, closures, state), and write it:
what it writes is carried out. recorded.py says how their backward is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ir.structure import ENDLESS, REFUSE
from weft.layers.transforms.level import top
from weft.ops.packet import aten
from weft.passes.unbacked import symbols_of, unbacked_sizes
from weft.record.active import active_capture
from weft.record.blocks.branches import choose
from weft.record.blocks.loops import Outcome, repeat
from weft.record.blocks.recorded import Recorded, record
from weft.support import pytree
from weft.support.errors import ArgumentError, CaptureError, WeftError
from weft.support.locations import user_location
from weft.tensor.subclass import Overriding, retyped
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt
from weft.types.sym import wrap
from weft.types.tensor_type import TensorType, Type

if TYPE_CHECKING:
    from weft.ir.builder import Builder
    from weft.ir.graph import Value
    from weft.record.capture import Capture


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    pred: a bool or a tensor with one element. In a compiled function the choice is made each time the program runs:
    both functions are recorded and must return the same structure of tensors, with the same shapes and dtypes.
    Raises CaptureError if they do not.
    """
    capture = active_capture()
    if isinstance(pred, Tensor) and getattr(pred._data, "differs", False):
        return _for_each(pred, true_fn(*operands), false_fn(*operands))
    trace = trace_of((pred,)) if capture is None else None
    if trace is not None:
        return trace.cond(pred, true_fn, false_fn, operands)
    if capture is None or not isinstance(pred, Tensor):
        return true_fn(*operands) if pred else false_fn(*operands)
    refuse_under_transforms(capture, "cond")
    condition = _one_element(pred)
    specs: list[pytree.TreeSpec] = []  # of the branches that give something
    orders: list[list[Any]] = []
    classes: list[Classes] = []

    def run(fn: Callable[..., Any]) -> list[Any]:
        leaves, spec = pytree.flatten(fn(*operands))
        tensors = [as_tensor(capture, leaf) for leaf in leaves]
        specs.append(spec)
        orders.append([capture.tensors.order_of(t) for t in tensors])
        classes.append(classes_of(tensors))
        return tensors

    recorded = record_branches(capture, [lambda: run(true_fn), lambda: run(false_fn)], may_fail=True)
    if specs[0] != specs[-1]:
        raise capture.refuse(f"cond: the branches return different structures, {specs[0]!r} and {specs[1]!r}")
    check_types(capture, "cond: the branches return", [r.type for r in recorded[0].results], recorded[1].results)
    check_classes(capture, "cond: the branches return", classes[0], classes[-1])
    both = [a if a == b else None for a, b in zip(orders[0], orders[-1], strict=True)]
    chosen = choose(capture, condition, (recorded[0], recorded[1]), both, user_location(2))
    return pytree.unflatten(of_classes(chosen, classes[0]), specs[0])


def record_branches(
    capture: Capture, branches: Sequence[Callable[[], Sequence[Any]]], may_fail: bool = False
) -> list[Recorded]:
    """What each branch does, as blocks, of which one runs. may_fail: a branch whose operators refuse what they are
    given is one that raises their error, should it run.
    """
    recorded: dict[int, Recorded] = {}
    errors: dict[int, WeftError] = {}
    for i, branch in enumerate(branches):
        try:
            recorded[i] = record(capture, lambda _, branch=branch: branch())  # type: ignore[misc]
        except WeftError as error:
            if not may_fail or isinstance(error, CaptureError):
                raise
            errors[i] = error
    for i, raised in errors.items():
        if not recorded:  # whichever runs
            raise raised
        recorded[i] = _failing(capture, raised, next(iter(recorded.values())))
    return [recorded[i] for i in range(len(branches))]


def _failing(capture: Capture, error: WeftError, other: Recorded) -> Recorded:
    """A branch that raises an error, with results of the types that the other branch gives. Raises the error where
    sizes of these are found in that branch.
    """
    types = [r.type for r in other.results]
    unbacked = unbacked_sizes(other.block.nodes)
    if any(symbol in unbacked for kind in types for symbol in symbols_of(kind)):
        raise error

    def body(builder: Builder) -> list[Tensor]:
        builder.emit(REFUSE, (0, "==", type(error).__name__, str(error)))
        sizes = [tuple(wrap(d, capture.env) for d in kind.shape) for kind in types]
        return [aten.zeros(size, dtype=kind.dtype) for size, kind in zip(sizes, types, strict=True)]

    return record(capture, body)


def _for_each(pred: Tensor, chosen: Any, other: Any) -> Any:
    """Within vmap, a choice that differs from example to example: both are computed, and each example takes its own."""
    leaves, spec = pytree.flatten(chosen)
    others, other_spec = pytree.flatten(other)
    if spec != other_spec:
        raise ArgumentError(f"cond: the branches return different structures, {spec!r} and {other_spec!r}")
    holds = aten.reshape(_one_element(pred), ())
    return pytree.unflatten([aten.where(holds, a, b) for a, b in zip(leaves, others, strict=True)], spec)


def refuse_under_transforms(capture: Capture, name: str) -> None:
    """A branch of a graph knows nothing of the levels that interpret operators above the capture."""
    if top() is not None:
        raise capture.refuse(
            f"weft.{name} inside of a transform (grad, vmap, jvp) that runs in a compiled function: "
            "apply the transform within the branches, choose with weft.where, or call the transform outside of the "
            "compiled function"
        )


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Sequence[Any]) -> tuple[Any, ...]:
    """`while cond_fn(*carried): carried = body_fn(*carried)`; returns the carried tensors at the end, as a tuple.

    Numbers among the carried values become 0-dim tensors. In a compiled function the number of steps is found each time
    the program runs; the body must keep shapes and dtypes. Raises CaptureError if it does not.
    """
    capture = active_capture()
    if capture is not None:
        refuse_under_transforms(capture, "while_loop")
    start = [c if isinstance(c, Tensor) else _number(capture, c) for c in carried]
    if capture is not None:
        return _record_loop(capture, cond_fn, body_fn, start)
    trace = trace_of(start)
    if trace is None:
        return _repeated(cond_fn, body_fn, start)

    def body(*values: Any) -> list[Tensor]:
        return [as_tensor(None, f) for f in _several(body_fn(*values))]

    return trace.while_loop(cond_fn, body, start, lambda begin: _repeated(cond_fn, body, begin))  # type: ignore[no-any-return]


def _repeated(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], start: Sequence[Any]) -> tuple[Any, ...]:
    values = tuple(start)
    while cond_fn(*values):
        values = _several(body_fn(*values))
    return values


def trace_of(values: Sequence[Any]) -> Any:
    """What records control flow where a value is one of a trace's: `__weft_control__` of its class says it. None
    elsewhere.
    """
    for value in values:
        control = getattr(type(value), "__weft_control__", None)
        if control is not None:
            return control()
    return None


def _record_loop(
    capture: Capture, cond_fn: Callable[..., Any], body_fn: Callable[..., Any], start: list[Any]
) -> tuple[Any, ...]:
    first = _condition(cond_fn, start)
    steps = capture.tensors.fresh(capture.recorder.builder.constant(np.array(0)))
    types, classes = [capture.tensors.operand(c).type for c in start], classes_of(start)

    def body(inner: Builder, index: Value, carried: list[Tensor], slices: list[Tensor]) -> Outcome:
        following = [as_tensor(capture, f) for f in _several(body_fn(*of_classes(carried[:-1], classes)))]
        check_classes(capture, "while_loop: the body returns", classes, classes_of(following))
        check_types(capture, "while_loop: the body returns", types, [capture.tensors.operand(f) for f in following])
        return _condition(cond_fn, following), [*following, carried[-1] + 1], ()

    outputs = repeat(
        capture, ENDLESS, first, [*start, steps], (), False, body, where=user_location(3), counter=len(start)
    )
    return tuple(of_classes(outputs[:-1], classes))


# ---- values
def _one_element(pred: Tensor) -> Any:
    return pred if pred.ndim == 0 else aten.reshape(pred, ())


def _condition(cond_fn: Callable[..., Any], carried: Sequence[Any]) -> Any:
    answer = cond_fn(*carried)
    return _one_element(answer) if isinstance(answer, Tensor) else bool(answer)


def _several(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def as_tensor(capture: Capture | None, leaf: Any) -> Tensor:
    """A leaf as a tensor; numbers become 0-dim ones."""
    return leaf if isinstance(leaf, Tensor) else _number(capture, leaf)


def _number(capture: Capture | None, number: Any) -> Tensor:
    if not isinstance(number, (bool, int, float)):
        raise ArgumentError(f"control flow carries tensors and numbers, not {type(number).__name__}")
    dtype = dt.bool_ if isinstance(number, bool) else dt.int64 if isinstance(number, int) else dt.get_default()
    array = np.array(number, dtype.numpy)
    return tensor_around(array) if capture is None else capture.tensors.fresh(capture.recorder.builder.constant(array))


Classes = Sequence[type[Tensor]]


def class_of(value: Any) -> type[Tensor]:
    """The class that a value has beyond a block of a graph, whose values are of none in particular: one that functions
    ask. (Those of traces go into no block.)"""
    return type(value) if isinstance(value, Overriding) and trace_of((value,)) is None else Tensor


def classes_of(tensors: Sequence[Any]) -> list[type[Tensor]]:
    """Those of some."""
    return [class_of(t) for t in tensors]


def of_classes(tensors: Sequence[Tensor], classes: Classes) -> list[Tensor]:
    """Values of a graph as tensors of these classes."""
    return [t if kind is Tensor else retyped(t, kind) for t, kind in zip(tensors, classes, strict=True)]


def check_classes(capture: Capture, what: str, expected: Classes, classes: Classes) -> None:
    """Raise CaptureError unless values are of these classes."""
    if classes != expected:
        named = [", ".join([kind.__name__ for kind in kinds]) for kinds in (classes, expected)]
        raise capture.refuse(f"{what} tensors of the classes {named[0]} where {named[1]} are expected")


def check_types(capture: Capture, what: str, types: Sequence[Any], values: Sequence[Any]) -> None:
    """Raise CaptureError unless values have these types, sizes by what is known of symbols."""
    actual = [v.type for v in values]
    if len(actual) != len(types) or not all(_agree(capture, a, b) for a, b in zip(types, actual, strict=True)):
        raise capture.refuse(f"{what} {', '.join(map(str, actual))} where {', '.join(map(str, types))} is expected")


def _agree(capture: Capture, a: Type, b: Type) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a is b
    return (
        a.dtype is b.dtype and a.ndim == b.ndim
        and all(capture.env.equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    )
