"""The walk: what happens when an operator is called on Tensors. One page; every layer is a few lines here and a room elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.autograd.record as record
from weft.autograd.anomaly import anomaly, remember_forward
from weft.autograd.node import OpNode, node_class
from weft.autograd.views import check_inplace, rebase
from weft.layers import abstract, dispatch, eager
from weft.layers.results import named
from weft.layers.watching import unwatched
from weft.ops import route
from weft.ops.backward import plan_of
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.ops.rules import Pointwise, same_dims
from weft.support.errors import DTypeError, ShapeError, WeftError, too_large
from weft.tensor import replayed
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import promotion

ndarray = np.ndarray


def walk(op: Op, args: tuple[Any, ...]) -> Any:
    """Run an operator on bound arguments, from the top layer down."""
    capture = modes.capture
    if capture is None:
        try:
            if op.decompose is None and modes.special is None and not (modes.grad and op.is_differentiable and record.wants_gradient(op, args)):
                try:  # what the layers below come to where none of them has anything to do
                    out = eager.run(op, args)
                except eager.NotDense:
                    out = dispatch.run(op, args)
            else:
                out = walk_layers(op, args)
        except (MemoryError, ValueError, OverflowError) as problem:
            error = too_large(op.base, problem)
            if error is None:
                raise
            raise error from None
        return named(op, out) if type(out) is tuple else out
    try:
        out = unwatched(walk_layers, op, args)
        return named(op, out) if type(out) is tuple else out
    except WeftError as error:
        capture.locate(error)
        raise


def walk_layers(op: Op, args: tuple[Any, ...]) -> Any:
    """The layers, top to bottom."""
    special = modes.special
    if special is not None:
        out = special[-1].intercept(op, args)
        return owned(out) if op.decompose is not None and _is_factory(op) else out
    if op.decompose is not None and op.vjp is None:
        return opened_or_replayed(op, args)
    if modes.grad and op.is_differentiable and record.wants_gradient(op, args):
        return with_history(op, args)
    return below(op, args)


def with_history(op: Op, args: tuple[Any, ...], lower: Any = None) -> Any:
    """AUTOGRAD: make the node, compute below (or with `lower`), attach."""
    if lower is None:
        lower = below
    node = record.prepare(op, args)
    if node is None:
        return lower(op, args)
    if anomaly.enabled:
        remember_forward(node)
    modes.grad = False
    try:
        out = lower(op, args)
    finally:
        modes.grad = True
    if op.view is not None or op.base == "select_at":
        _mark_default(out, args[0]._view)
    return record.finish(node, out)


def _mark_default(out: Any, parent: Any) -> None:
    """A view made under grad mode may be written later (the no_grad of the layer below does not count), unless what it is a view of may not."""
    views = out if isinstance(out, tuple) else (out,)
    inherited = "default" if parent is None else parent.creation
    for v in views:
        if v._view is not None and v._view.creation == "no_grad":
            v._view.creation = inherited if inherited != "default" else "multi" if isinstance(out, tuple) else "default"


def below(op: Op, args: tuple[Any, ...]) -> Any:
    """FUNCTIONAL and the back end: the active capture records, NumPy computes, and tensors without bytes are typed."""
    capture = modes.capture
    if capture is not None:
        return dispatch.run_captured(op, args) if dispatch.concerns(op, args) else capture.run(op, args)
    if op.decompose is not None:
        out = replayed.run(op, args)
        if out is not replayed.NOT_REPLAYED:
            return out
        if dispatch.concerns(op, args):
            return dispatch.run(op, args)
        return abstract.run(op, args) if abstract.concerns(op, args) else owned(opened(op, args))
    try:
        return eager.run(op, args)
    except eager.NotDense:
        return dispatch.run(op, args)


def opened_or_replayed(op: Op, args: tuple[Any, ...]) -> Any:
    """A composite without history: its NumPy calls are repeated where they are known, else it is opened."""
    if modes.capture is not None:
        return opened(op, args)
    if not (modes.grad and record.wants_gradient(op, args)):
        out = replayed.run(op, args)
        if out is not replayed.NOT_REPLAYED:
            return out
    out = opened(op, args)
    return owned(out) if _is_factory(op) else out


def _is_factory(op: Op) -> bool:
    """Whether the result is new whatever the arguments: it has none, or only draws in their sizes."""
    return not (op.tensor_positions or op.tensor_list_positions) or (op.effect == "random" and op.base.endswith("_like"))


def opened(op: Op, args: tuple[Any, ...]) -> Any:
    """A composite: its own type rule speaks before the operators that it opens to."""
    if op.type is not None and modes.capture is None:
        op.type(*[eager.type_of(a) for a in args])
    if abstract.concerns(op, args):
        return abstract.opened(op, args)
    return op.decompose(*args)  # type: ignore[misc]


def owned(out: Any) -> Any:
    """The results of a rule as tensors of their own: that the last step was a view of a temporary is nobody's business."""
    for t in out if isinstance(out, (tuple, list)) else (out,):
        if isinstance(t, Tensor):
            t._view = None
    return out


def inplace(op: Op, args: tuple[Any, ...]) -> Any:
    """`self.op_(...)`: the functional operator's value is written into self; history takes the functional form."""
    capture = modes.capture
    if capture is None:
        return _inplace(op, args)
    try:
        return unwatched(_inplace, op, args)
    except WeftError as error:
        capture.locate(error)
        raise


def _inplace(op: Op, args: tuple[Any, ...]) -> Any:
    special = modes.special
    if special is not None:
        return special[-1].intercept_inplace(op, args)
    return inplace_here(op, args, write)


def inplace_here(op: Op, args: tuple[Any, ...], put: Any) -> Any:
    """AUTOGRAD of an in-place operator; `put` writes the bytes."""
    target: Tensor = args[0]
    check_result(op, args, target)
    wants = modes.grad and (target.dtype.is_differentiable and record.wants_gradient(op, args))
    check_inplace(op.base, target, wants)
    if not wants:
        put(op, args)
        return target
    if op.opens_above_autograd:  # it has no node of its own: its opening gets one, and the value is copied in
        return inplace(OPS["aten::copy"], (target, op.decompose(aten.clone(target), *args[1:]), False))  # type: ignore[misc]
    node = record.prepare(op, args, clone_self=True) or _blocking_node(op)
    if anomaly.enabled:
        remember_forward(node)
    modes.grad = False
    try:
        put(op, args)
    finally:
        modes.grad = True
    rebase(target, node)
    record.save_results(node, (target,))
    return target


def _blocking_node(op: Op) -> OpNode:
    """The node of a write that lets no gradient through (fill_, comparisons, random numbers)."""
    return node_class(op)((), (None,) * len(plan_of(op).slots), ())


def write(op: Op, args: tuple[Any, ...]) -> None:
    """The bytes of an in-place operator, below autograd."""
    capture = modes.capture
    if capture is not None:
        if op.decompose is not None and op.type is None:  # only its opening says what the result is
            value = op.decompose(*args)
            op, args = OPS["aten::copy"], (args[0], value, False)
        if dispatch.concerns(op, args):
            dispatch.write_captured(op, args)
        else:
            capture.write(op, args)
        return
    try:
        eager.write(args[0], op, args)
    except eager.NotDense:
        dispatch.write(op, args)


def check_result(op: Op, args: tuple[Any, ...], target: Tensor) -> None:
    """The result must fit the tensor that it is written to: same sizes, and a dtype whose category does not fall."""
    if op.type is None:
        return
    if isinstance(op.type, Pointwise) and modes.capture is None and _all_alike(args):
        return
    result = op.type(*[eager.type_of(a) for a in args])
    if result.dtype is not target.dtype and not promotion.can_cast(result.dtype, target.dtype):
        raise DTypeError(
            f"result type {eager._name(result.dtype)} can't be cast to the desired output type {eager._name(target.dtype)}"
        )
    if not same_dims(result.shape, target.dims):
        raise ShapeError(f"output with shape {list(target.dims)} doesn't match the broadcast shape {list(result.shape)}")


def _all_alike(args: tuple[Any, ...]) -> bool:
    first = args[0]._data
    if type(first) is not ndarray or first.dtype.kind not in "fc":
        return False
    for a in args[1:]:
        if isinstance(a, Tensor):
            if type(a._data) is not ndarray or a._data.dtype != first.dtype or a._data.shape != first.shape:
                return False
        elif type(a) not in (int, float):
            return False
    return True


Tensor.__weft_route__ = staticmethod(walk)  # type: ignore[attr-defined]
Tensor.__weft_inplace__ = staticmethod(inplace)  # type: ignore[attr-defined]
route.install_base(walk)
