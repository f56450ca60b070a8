"""The walk: what happens when an operator is called on Tensors, layer by layer from the top.
Each layer knows only that there is one below it.

    opened      operands of classes that say what an operator is made of (sparse tensors)
    TRANSFORM   levels of vmap, jvp and grad, dispatch modes, inference mode:
                whoever stands on top of `modes.special` answers
    AUTOGRAD    composites without formulas of their own are opened;
                an operator that a gradient is wanted of gets a node
    back end    the operands' own (layers/backends.py): NumPy, a capture, types alone, the class of a wrapper, ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.autograd.record as record
from weft.autograd.anomaly import anomaly, remember_forward
from weft.autograd.node import OpNode, node_class
from weft.autograd.views import check_inplace, rebase
from weft.guards.watching import unwatched
from weft.layers.backends import backend_of
from weft.layers.results import named
from weft.ops import route
from weft.ops.backward import plan_of
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.rules import same_dims
from weft.support.errors import ShapeError, too_large
from weft.tensor.backend import type_of
from weft.tensor.capture import in_place
from weft.tensor.dense import is_dense
from weft.tensor.modes import AT_WORK, modes
from weft.tensor.tensor import Tensor
from weft.tensor.views import forget_base
from weft.tensor.wrapper import opening_class, opening_classes
from weft.types import promotion

Args = tuple[Any, ...]


def walk(op: Op, args: Args) -> Any:
    """Run an operator on bound arguments, from the top layer down."""
    if op.enter is not None:
        return op.enter(walk_on, op, args)
    if modes.capture is not None:
        return captured(op, args)
    first: Any = args[0] if args else None
    if type(first) is tuple and first:
        first = first[0]
    is_walked = isinstance(first, Tensor) and getattr(first._data, "is_walked", False)
    if is_walked and modes.special is None:
        return first._data.backend.walked(walk_on, op, args)
    return walk_on(op, args)


def walk_on(op: Op, args: Args) -> Any:
    """The walk of an operator that nobody answers for."""
    if modes.capture is not None:
        return captured(op, args)
    try:
        out = walk_layers(op, args)
    except (MemoryError, ValueError, OverflowError) as problem:
        error = too_large(op.base, problem)
        if error is None:
            raise
        raise error from None
    return named(op, out) if type(out) is tuple else out


def captured(op: Op, args: Args) -> Any:
    """The walk while a function is captured: nothing in it is the user's code."""
    capture = modes.capture
    assert capture is not None
    repeats = capture.repeats
    repeats.call = op, args
    for out in repeats.predicted:
        return out
    return unwatched(capture.explained, _captured, op, args)


def _captured(op: Op, args: Args) -> Any:
    capture = modes.capture
    assert capture is not None
    out = capture.repeats.run(walk_layers, op, args if op.specialize is None else capture.specialized(op, args))
    if isinstance(out, Tensor) and is_dense(out):  # an operand from outside as it is
        capture.outside.note_asked(out)
    return named(op, out) if type(out) is tuple else out


def walk_layers(op: Op, args: Args) -> Any:
    """The layers, top to bottom."""
    if opening_classes:
        kind = opening_class(args)
        if kind is not None:
            return kind.__weft_open__(op, args)
    special = modes.special
    if special is not None:
        out = special[-1].intercept(op, args)
        return forget_base(out) if op.decompose is not None and _is_factory(op) else out
    return walk_untransformed(op, args)


def walk_untransformed(op: Op, args: Args) -> Any:
    """The layers below the transforms."""
    if op.decompose is not None and op.vjp is None:
        return composite(op, args)
    if modes.grad and op.is_differentiable and record.wants_gradient(op, args):
        return with_history(op, args)
    return backend_of(op, args).run(op, args)


def composite(op: Op, args: Args) -> Any:
    """A composite without formulas of its own: opened, unless no gradient is wanted and its back end
    knows a shorter way."""
    backend = backend_of(op, args)
    out = backend.open(op, args) if modes.grad and record.wants_gradient(op, args) else backend.compose(op, args)
    return forget_base(out) if _is_factory(op) else out


def opened(op: Op, args: Args) -> Any:
    """A composite, by the operators that it is made of."""
    return backend_of(op, args).open(op, args)


def _is_factory(op: Op) -> bool:
    """Whether the result is new whatever the arguments: it has none, or only draws in their sizes."""
    return not (op.tensor_positions or op.tensor_list_positions) or (op.effect == "random" and op.like)


def below(op: Op, args: Args) -> Any:
    """The operator's value without history."""
    return backend_of(op, args).run(op, args)


def with_history(op: Op, args: Args, lower: Callable[[Op, Args], Any] = below) -> Any:
    """AUTOGRAD: make the node, compute with `lower`, attach."""
    node = record.prepare(op, args)
    if node is None:
        return lower(op, args)
    if anomaly.enabled:
        remember_forward(node)
    if modes.capture is not None:
        modes.capture.expect_history(args, node)
    modes.grad = AT_WORK
    try:
        out = lower(op, args)
    finally:
        modes.grad = True
    if op.view is not None or op.view_if_captured:
        _mark_default(out, args[0]._view)
    record.finish(node, out)
    if modes.capture is not None:
        if op.view is None:
            modes.capture.note_history(out)
        else:
            modes.capture.note_view(op, args, node, out)
    return out


def _mark_default(out: Any, parent: Any) -> None:
    """A view made under grad mode may be written later (the no_grad of the layer below does not count),
    unless what it is a view of may not."""
    views = out if isinstance(out, tuple) else (out,)
    inherited = "default" if parent is None else parent.creation
    for v in views:
        if v._view is not None and v._view.creation == "no_grad":
            v._view.creation = inherited if inherited != "default" else "multi" if isinstance(out, tuple) else "default"


# ---- in-place operators: the same layers
def inplace(op: Op, args: Args) -> Any:
    """`self.op_(...)`: the functional operator's value is written into self; history takes the functional form."""
    capture = modes.capture
    if capture is None:
        data = args[0]._data
        if modes.special is None and getattr(data, "is_walked", False):
            return data.backend.written(_inplace, op, args)
        return _inplace(op, args)
    repeats = capture.repeats
    repeats.call = in_place(op), args
    for out in repeats.predicted:
        return out
    return capture.call(
        capture.written, _inplace, op, args if op.specialize is None else capture.specialized(op, args)
    )


def copy_into(target: Tensor, value: Tensor) -> Any:
    """`target.copy_(value)`."""
    return inplace(aten.copy.default.op, (target, value, False))


def _inplace(op: Op, args: Args) -> Any:
    if opening_classes:
        kind = opening_class(args)
        if kind is not None:
            return kind.__weft_write__(op, args)
    special = modes.special
    if special is not None:
        return special[-1].intercept_inplace(op, args)
    return inplace_here(op, args, write)


def inplace_untransformed(op: Op, args: Args) -> Any:
    """The layers of an in-place operator below the transforms."""
    return inplace_here(op, args, write)


def inplace_here(op: Op, args: Args, put: Callable[[Op, Args], None]) -> Any:
    """AUTOGRAD of an in-place operator; `put` writes the bytes."""
    target: Tensor = args[0]
    check_result(op, args, target)
    wants = modes.grad and (target.dtype.is_differentiable and record.wants_gradient(op, args))
    check_inplace(target, wants)
    if not wants:
        put(op, args)
        return target
    if op.opens_above_autograd:  # it has no node of its own: its opening gets one, and the value is copied in
        return copy_into(target, opened(op, (aten.clone(target), *args[1:])))
    node = record.prepare(op, args, clone_self=True) or blocking_node(op)
    if anomaly.enabled:
        remember_forward(node)
    if modes.capture is not None:
        modes.capture.expect_history(args, node)
    modes.grad = AT_WORK
    try:
        put(op, args)
    finally:
        modes.grad = True
    rebase(target, node)
    record.save_results(node, (target,))
    return target


def blocking_node(op: Op) -> OpNode:
    """The node of a write that lets no gradient through (fill_, comparisons, random numbers)."""
    plan = plan_of(op)
    return node_class(plan)((), (None,) * len(plan.slots), ())


def write(op: Op, args: Args) -> None:
    """The bytes of an in-place operator, below autograd."""
    backend_of(op, args).write(op, args)


def check_result(op: Op, args: Args, target: Tensor) -> None:
    """The result must fit the tensor that it is written to: same sizes, and a dtype whose category does not fall."""
    if op.type is None or backend_of(op, args).fits(op, args):
        return
    result = op.type(*[type_of(a) for a in args])
    promotion.check_cast(result.dtype, target.dtype)
    if not same_dims(result.shape, target.dims):
        raise ShapeError(
            f"output with shape {list(target.dims)} doesn't match the broadcast shape {list(result.shape)}"
        )


Tensor.__weft_route__ = staticmethod(walk)  # type: ignore[attr-defined]
Tensor.__weft_inplace__ = staticmethod(inplace)  # type: ignore[attr-defined]
route.install_base(walk)
