"""Entries: what a call signature caches for operators on dense tensors. It goes to the call's plan without the walk
while no mode is on.

The walk gives the same result; an entry only skips questions whose answers are known: nothing intercepts, and no
history is wanted or the operator has a node of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.autograd.record as record
from weft.autograd.anomaly import anomaly
from weft.autograd.node import OpNode
from weft.autograd.saved import default_hooks
from weft.autograd.views import check_inplace, rebase
from weft.layers import dense
from weft.layers import walk as walk_module
from weft.layers.results import named
from weft.ops import compute
from weft.ops.call_signatures import offer_entries
from weft.ops.methods import OperatorMethods
from weft.ops.op import Op
from weft.ops.overrides import plain_kinds
from weft.ops.packet import aten
from weft.ops.planned import Wrap
from weft.ops.route import call, defaults
from weft.runtime.storage import Storage
from weft.support.locations import user_mark
from weft.tensor.modes import modes
from weft.tensor.planned import WRAP, table
from weft.tensor.tensor import Tensor
from weft.tensor.views import recorded_view

ndarray = np.ndarray
Entry = Callable[[Op, tuple[Any, ...]], Any]


# what walk.captured() asks first stands here: a call less for the profile function that watches a capture
_CAPTURED = """if local.capture is not None:
            repeats = local.capture.repeats
            repeats.call = op, args
            for out in repeats.predicted: return out
            return captured(op, args)"""


def entry_of(op: Op, args: tuple[Any, ...]) -> Entry | None:
    """The entry for calls with arguments of these classes; None where the walk must see to them."""
    kinds = tuple(map(type, args))
    tensors = [i for i in op.tensor_positions if isinstance(args[i], Tensor)]
    lists = [i for i in op.tensor_list_positions if args[i]]
    if op.effect not in ("pure", "raises") or op.enter is not None or not all(kinds[i] in plain_kinds for i in tensors):
        return None
    if op.view is not None:
        return _view_entry(op, tensors)
    plans = table(op, kinds)
    if not plans.can_plan:
        return None
    gate = [
        f"for x in x{i}:\n            if type(x) not in plain_kinds and x is not None: return call(op, args)"
        for i in lists
    ]
    gate += [_CAPTURED, "if local.special is not None: return walk(op, args)"]
    history = []
    if not tensors and not lists:
        gate.insert(0, "if defaults.stack: return call(op, args)")  # before the transforms: `call` asks in this order
    elif op.is_differentiable:
        history.append(f"if local.grad and ({_wants(tensors, lists)}): record(args, t)")
    elif op.opens_above_autograd:
        gate.append(f"if local.grad and ({_wants(tensors, lists)}): return walk(op, args)")
    names = {**_NAMES, "record": record.recording(op) if history else None}
    built = ("t = plan.build(args, out, wrap, show)", *history, "return named(op, t) if type(t) is tuple else t")
    return plans.lookup(Wrap((*WRAP.lines[:-1], *history, WRAP.lines[-1]), built, tuple(names.items()), tuple(gate)))


def _wants(tensors: Sequence[int], lists: Sequence[int]) -> str:
    """The code that asks whether autograd may have to do with the arguments."""
    asked = [f"x{i}._autograd is not None or x{i}._view is not None" for i in tensors]
    asked += [f"any([x is not None and (x._autograd is not None or x._view is not None) for x in x{i}])" for i in lists]
    return " or ".join(asked)


def _view_entry(op: Op, tensors: Sequence[int]) -> Entry | None:
    if not tensors:
        return None
    local, walk, attach, view, cache = modes, walk_module.walk, record.recording(op), compute.view, compute.views_of(op)
    views_around = dense.views_around

    def entry(op: Op, args: tuple[Any, ...]) -> Any:
        x, rest = args[0], args[1:]
        data = x._data
        if local.special is not None or local.capture is not None or type(data) is not ndarray:
            return walk(op, args)
        grad = local.grad
        try:
            show = cache.get((data.dtype, data.shape, data.strides, rest))
            shown = view(op, data, rest) if show is None else show(data)
            if type(shown) is ndarray and grad:  # (in inference mode its layer stands among the special ones)
                storage = x._storage
                if storage is None:
                    storage = x._storage = Storage(data)
                out: Any = recorded_view(x, storage, shown, op, rest, 0)
            else:
                out = views_around(op, args, shown)
        except Exception:  # the walk has the words
            return walk(op, args)
        if grad and (x._autograd is not None or x._view is not None):
            attach(args, out)
        return named(op, out) if type(out) is tuple else out

    return entry


_INPLACE = (
    "d = x0._data", "storage = x0._storage",
    "if local.special is not None or local.capture is not None: return walk(op, args)",
    "if type(d) is not ndarray or not d.flags.c_contiguous and 0 in d.strides: return walk(op, args)",
    "if storage is not None and storage.is_inference: return walk(op, args)",
)
_WRITTEN = (
    "if storage is None: storage = x0.storage()", "storage.version += 1",
    "storage.written = (storage.version, user_mark(3) if node is None else node.mark)",
    "if node is not None: put_behind(node, x0)", "return x0",
)


def inplace_entry_of(op: Op, args: tuple[Any, ...]) -> Entry | None:
    """The entry of `self.op_(...)`."""
    kinds = tuple(map(type, args))
    tensors = [i for i in op.tensor_positions if isinstance(args[i], Tensor)]
    if op.scalar is None or op.effect not in ("pure", "raises") or not tensors or tensors[0]:
        return None
    if not all(kinds[i] in plain_kinds for i in tensors):
        return None
    plans = table(op, kinds, dense.store)
    if not plans.can_plan:
        return None
    begun = f"node = begin(args) if local.grad and ({_wants(tensors, ())}) else None"
    gate = (*_INPLACE, begun, "if node is WALK: return walk(op, args)")
    return plans.lookup(Wrap(_WRITTEN, (), (*_INPLACE_NAMES, ("begin", _beginner(op))), gate))


def _beginner(op: Op) -> Callable[[tuple[Any, ...]], Any]:
    """`begin(args)`: the node of a write that may want history, with no mode on; None where it wants none, WALK where
    the walk must see to it."""
    prepare = record.preparing(op, clone_self=True)

    def begin(args: tuple[Any, ...]) -> Any:
        target = args[0]
        if anomaly.enabled or default_hooks.stack or op.opens_above_autograd:
            return WALK
        try:
            node = prepare(args) if target.dtype.is_differentiable else None
            if node is None and target.dtype.is_differentiable and record.wants_gradient(op, args):
                node = walk_module.blocking_node(op)
                node.mark = user_mark(3)
            check_inplace(target, node is not None)
        except Exception:  # the walk has the words; nothing was written
            return WALK
        return node

    return begin


def _put_behind(node: OpNode, target: Tensor) -> None:
    """Give what was written the history of the write."""
    rebase(target, node)
    record.save_results(node, (target,))


WALK = object()
_INPLACE_NAMES = (
    ("local", modes),
    ("walk", walk_module.inplace),
    ("user_mark", user_mark),
    ("WALK", WALK),
    ("put_behind", _put_behind),
)
_NAMES: dict[str, Any] = {
    **dict(WRAP.names),
    "local": modes,
    "walk": walk_module.walk,
    "captured": walk_module.captured,
    "named": named,
    "plain_kinds": plain_kinds,
    "call": call,
    "defaults": defaults,
}


def _syntax(name: str, slow: Callable[..., Any]) -> Callable[..., Any]:
    """`self <op> other` where its call signature is known."""
    plain = getattr(aten, name).calls.plain

    def method(self: Any, other: Any) -> Any:
        try:
            op, rest, route = plain[type(self), type(other)]
        except KeyError:
            route = None
        return slow(self, other) if route is None else route(op, (self, other, *rest))

    return known_as(slow, method)


def _reflected(name: str, slow: Callable[..., Any]) -> Callable[..., Any]:
    """`other <op> self`, the same for an operator whose operands may change places."""
    plain = getattr(aten, name).calls.plain

    def method(self: Any, other: Any) -> Any:
        try:
            op, rest, route = plain[type(self), type(other)] if type(self) in plain_kinds else _UNKNOWN
        except KeyError:
            route = None
        return slow(self, other) if route is None else route(op, (self, other, *rest))

    return known_as(slow, method)


def known_as(slow: Callable[..., Any], method: Any) -> Callable[..., Any]:
    """A short way under the name and with the docstring of the method that it is a short way of."""
    method.__name__ = method.__qualname__ = slow.__name__
    method.__doc__ = slow.__doc__
    method.__dict__.update(slow.__dict__, slow=slow)
    return method


_SYNTAX = {
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "pow": "__pow__",
    "matmul": "__matmul__", "eq": "__eq__", "ne": "__ne__",
    "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__", "bitwise_and": "__and__", "bitwise_or": "__or__",
}


_REFLECTED = {"add": "__radd__", "mul": "__rmul__"}
_UNKNOWN = None, (), None


def install() -> None:
    """Put the short ways on Tensor (after the catalogue is complete)."""
    for name, syntax in _SYNTAX.items():
        setattr(Tensor, syntax, _syntax(name, getattr(OperatorMethods, syntax)))
    for name, syntax in _REFLECTED.items():
        setattr(Tensor, syntax, _reflected(name, getattr(OperatorMethods, syntax)))
    offer_entries(entry_of, inplace_entry_of)
