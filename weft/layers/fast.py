"""The short way for the commonest calls: syntax between plain dense tensors of one dtype, straight to a ufunc.

The walk gives the same result; this only skips questions whose answers are known: no mode is on, both operands are dense, their dtypes are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.autograd.accumulate import accumulator_of
from weft.autograd.anomaly import anomaly
from weft.autograd.node import _sequence, node_class
from weft.autograd.record import _metadata
from weft.autograd.saved import SavedTensor, default_hooks
from weft.layers import walk as walk_module
from weft.ops import compute
from weft.ops.backward import ARG, needed_slots, plan_of
from weft.ops.methods import OperatorMethods
from weft.ops.op import OPS, Op
from weft.ops.quiet import SILENT, reset, set_silent
from weft.support.locations import user_mark
from weft.tensor.modes import modes
from weft.tensor.history import AutogradState
from weft.tensor.tensor import Tensor
from weft.types.dtype import BY_NUMPY

ndarray = np.ndarray
_NEW = Tensor.__new__
_FAST_DTYPES = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def _fast_binary(op: Op, slow: Callable[..., Any]) -> Callable[..., Any]:
    """`self <op> other` for two dense tensors of the same float dtype."""
    ufunc = compute.single_ufunc(op)
    rest = tuple(a.default for a in op.schema.arguments[2:])
    walk = walk_module.walk
    local = modes
    record = _recorder(op)

    def with_number(self: Any, number: Any) -> Any:
        data = self._data
        if type(data) is not ndarray or data.dtype not in _FAST_DTYPES or local.special is not None or local.capture is not None or (
            (self._autograd is not None or self._view is not None) and local.grad
        ):
            return slow(self, number)
        token = set_silent(SILENT)
        try:
            found = ufunc(data, number)
        except OverflowError:
            return slow(self, number)  # an integer beyond NumPy's
        finally:
            reset(token)
        return Tensor(found if type(found) is ndarray else np.asarray(found))

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, Tensor):
            return with_number(self, other) if type(other) is float or type(other) is int else slow(self, other)
        a, b = self._data, other._data
        if type(a) is not ndarray or type(b) is not ndarray or a.dtype is not b.dtype or a.dtype not in _FAST_DTYPES or local.special is not None:
            return slow(self, other)
        records = (self._autograd is not None or other._autograd is not None or self._view is not None or other._view is not None) and local.grad
        if local.capture is not None or (records and (self._view is not None or other._view is not None or default_hooks.stack or anomaly.enabled)):
            return walk(op, (self, other, *rest))
        token = set_silent(SILENT)
        try:
            data = ufunc(a, b)
        except ValueError:
            return slow(self, other)  # sizes that do not broadcast: the walk has the words
        finally:
            reset(token)
        out = _NEW(Tensor)
        out._data = data if type(data) is ndarray else np.asarray(data)
        out._storage = out._autograd = out._view = None
        if records:
            record(self, other, out)
        return out

    method.__name__ = method.__qualname__ = slow.__name__
    method.__doc__ = op.doc
    return method


def _recorder(op: Op) -> Callable[[Any, Any, Any], None]:
    """Makes the node of a two-operand call whose formulas read nothing but the operands (what record.prepare and finish do, unrolled)."""
    plan = plan_of(op)
    cls = node_class(op)
    new = cls.__new__
    other_arguments = tuple(a.default for a in op.schema.arguments)
    counts = (1,) * len(plan.differentiable)
    slots = {needs: frozenset(needed_slots(plan, needs)) for needs in ((True, True), (True, False), (False, True))}
    positions = tuple(s.position if s.kind == ARG else -1 for s in plan.slots)

    def record(self: Any, other: Any, out: Any) -> None:
        ea, eb = _edge(self), _edge(other)
        if ea is None and eb is None:
            return
        node = new(cls)
        node.edges = (ea, eb)
        node.sequence = next(_sequence)
        if positions:
            wanted = slots[(ea is not None, eb is not None)]
            node.packed = tuple([_packed(i, p, wanted, self, other, other_arguments) for i, p in enumerate(positions)])
        else:
            node.packed = ()
        node.argument_counts = counts
        node.mark = user_mark(3)
        data = out._data
        node.metadata_of_inputs = [_metadata(data.shape, BY_NUMPY[data.dtype])]
        out._autograd = AutogradState(False, node)

    return record


def _packed(slot: int, position: int, wanted: frozenset[int], self: Any, other: Any, defaults: tuple[Any, ...]) -> Any:
    if slot not in wanted:
        return None
    if position == 0:
        return SavedTensor(self)
    return SavedTensor(other) if position == 1 else defaults[position]


def _edge(tensor: Any) -> Any:
    state = tensor._autograd
    if state is None:
        return None
    if state.node is not None:
        return (state.node, state.index)
    if not state.requires_grad:
        return None
    return (state.accumulate or accumulator_of(tensor), 0)


def _fast_getitem(slow: Callable[..., Any]) -> Callable[..., Any]:
    """`self[i]` for an integer within bounds."""
    select = OPS["aten::select.int"]
    walk = walk_module.walk

    def method(self: Any, index: Any) -> Any:
        data = self._data
        if type(index) is int and type(data) is ndarray and data.ndim and -data.shape[0] <= index < data.shape[0]:
            return walk(select, (self, 0, index))
        return slow(self, index)

    method.__name__ = method.__qualname__ = slow.__name__
    method.__doc__ = slow.__doc__
    return method


def install() -> None:
    """Put the short ways on Tensor (after the catalogue is complete)."""
    for syntax, name in (("__add__", "aten::add.Tensor"), ("__sub__", "aten::sub.Tensor"), ("__mul__", "aten::mul.Tensor"),
                         ("__truediv__", "aten::div.Tensor")):
        op = OPS.get(name)
        if op is not None and compute.single_ufunc(op) is not None:
            setattr(Tensor, syntax, _fast_binary(op, getattr(OperatorMethods, syntax)))
    for syntax in ("__getitem__",):
        setattr(Tensor, syntax, _fast_getitem(getattr(Tensor, syntax)))
