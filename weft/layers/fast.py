"""The short way for the commonest calls: arithmetic on plain dense tensors of one dtype, straight to a ufunc.

The walk gives the same result; this only skips questions whose answers are known: no mode is on, both operands are dense, their dtypes are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.autograd.accumulate import accumulator_of
from weft.autograd.anomaly import anomaly
from weft.autograd.node import node_class, sequence_numbers
from weft.autograd.record import metadata_of
from weft.autograd.saved import SavedTensor, default_hooks
from weft.layers import walk as walk_module
from weft.ops import compute
from weft.ops.backward import ARG, needed_slots, plan_of
from weft.ops.forms import offer_shortcuts
from weft.ops.methods import OperatorMethods
from weft.ops.op import OPS, Op
from weft.ops.overrides import plain_integers, plain_kinds, plain_numbers
from weft.ops.quiet import SILENT, reset, set_silent
from weft.runtime.storage import InferenceStorage, root_of
from weft.support.locations import user_mark
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
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
        except (OverflowError, MemoryError):
            return slow(self, number)  # an integer beyond NumPy's, a result beyond memory
        finally:
            reset(token)
        return Tensor(found if type(found) is ndarray else np.asarray(found))

    def method(self: Any, other: Any) -> Any:
        if type(other) not in plain_kinds:
            return with_number(self, other) if type(other) in plain_numbers else slow(self, other)
        a, b = self._data, other._data
        if type(a) is not ndarray or type(b) is not ndarray or a.dtype is not b.dtype or a.dtype not in _FAST_DTYPES or local.special is not None:
            return slow(self, other) if local.capture is None else walk(op, (self, other, *rest))  # a capture watches every frame
        records = (self._autograd is not None or other._autograd is not None or self._view is not None or other._view is not None) and local.grad
        if local.capture is not None or (records and (self._view is not None or other._view is not None or default_hooks.stack or anomaly.enabled)):
            return walk(op, (self, other, *rest))
        token = set_silent(SILENT)
        try:
            data = ufunc(a, b)
        except (ValueError, MemoryError):
            return slow(self, other)  # sizes that do not broadcast or are beyond memory: the walk has the words
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
    method.slow = slow  # type: ignore[attr-defined]
    return method


def _shortcut(op: Op, kinds: tuple[type, ...]) -> Callable[[Op, tuple[Any, ...]], Any] | None:
    if kinds != (Tensor,) or len(op.schema.arguments) != 1 or op.schema.namespace != "aten":
        return None
    ufunc = compute.single_ufunc(op)
    return _short_unary(op) if ufunc is not None and {"d->d", "d->?"} & set(ufunc.types) else None  # bits of floats: the walk has the words


def _short_unary(op: Op) -> Callable[[Op, tuple[Any, ...]], Any]:
    """The route of an operator that is one ufunc of one tensor."""
    ufunc = compute.single_ufunc(op)
    walk = walk_module.walk
    local = modes

    def route(op: Op, args: tuple[Any, ...]) -> Any:
        x = args[0]
        data = x._data
        if type(data) is not ndarray or data.dtype not in _FAST_DTYPES or local.special is not None or local.capture is not None or (
            (x._autograd is not None or x._view is not None) and local.grad
        ):
            return walk(op, args)
        token = set_silent(SILENT)
        try:
            found = ufunc(data)
        except MemoryError:
            return walk(op, args)
        finally:
            reset(token)
        return Tensor(found if type(found) is ndarray else np.asarray(found))

    return route


def _fast_inplace(op: Op, slow: Callable[..., Any]) -> Callable[..., Any]:
    """`self.op_(other)` without history: tensors of one float dtype and shape, or a number."""
    ufunc = compute.single_ufunc(op)
    local = modes

    def method(*args: Any, **kwargs: Any) -> Any:
        if len(args) != 2 or kwargs:
            return slow(*args, **kwargs)
        self, other = args
        data = self._data
        if type(data) is not ndarray or data.dtype not in _FAST_DTYPES or not data.flags.c_contiguous or local.special is not None or (
            type(self._storage) is InferenceStorage or local.capture is not None or ((self._autograd is not None or self._view is not None) and local.grad)
        ):
            return slow(self, other)
        if type(other) in plain_kinds:
            operand = other._data
            if type(operand) is not ndarray or operand.dtype is not data.dtype or operand.shape != data.shape or not _apart(data, operand) or (
                (other._autograd is not None or other._view is not None) and local.grad
            ):
                return slow(self, other)
        elif type(other) in plain_numbers:
            operand = other
        else:
            return slow(self, other)
        token = set_silent(SILENT)
        try:
            ufunc(data, operand, data)
        except (ValueError, OverflowError):
            return slow(self, other)  # read-only memory, an integer beyond NumPy's: the walk has the words
        finally:
            reset(token)
        storage = self.storage()
        storage.version += 1
        storage.written = (storage.version, user_mark(2))
        return self

    method.__name__ = method.__qualname__ = slow.__name__
    method.__doc__ = slow.__doc__
    method.__dict__.update(slow.__dict__, slow=slow)
    return method


def _apart(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are the same, or lie in different blocks that NumPy owns."""
    if a is b:
        return True
    a, b = root_of(a), root_of(b)
    return a is not b and a.base is None and b.base is None


def _recorder(op: Op) -> Callable[[Any, Any, Any], None]:
    """Makes the node of a two-operand call whose formulas read nothing but the operands (what record.prepare and finish do, unrolled)."""
    plan = plan_of(op)
    cls = node_class(op)
    new = cls.__new__
    other_arguments = tuple(a.default for a in op.schema.arguments)
    counts = (1,) * len(plan.differentiable)
    slots = {needs: frozenset(needed_slots(plan, needs)) for needs in ((True, True), (True, False), (False, True))}
    positions = tuple(s.position if s.kind == ARG else -1 for s in plan.slots)
    fixed = {  # what is packed where no operand is
        needs: tuple([other_arguments[p] if i in wanted else None for i, p in enumerate(positions)])
        for needs, wanted in slots.items() if not any(positions[i] in (0, 1) for i in wanted)
    }

    def record(self: Any, other: Any, out: Any) -> None:
        ea, eb = _edge(self), _edge(other)
        if ea is None and eb is None:
            return
        node = new(cls)
        node.edges = (ea, eb)
        node.sequence = next(sequence_numbers)
        needs = (ea is not None, eb is not None)
        packed = fixed.get(needs)
        if packed is None:
            wanted = slots[needs]
            packed = tuple([_packed(i, p, wanted, self, other, other_arguments) for i, p in enumerate(positions)])
        node.packed = packed
        node.argument_counts = counts
        node.mark = user_mark(3)
        data = out._data
        node.metadata_of_inputs = [metadata_of(data.shape, BY_NUMPY[data.dtype])]
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
        if type(index) in plain_integers and type(data) is ndarray and data.ndim and -data.shape[0] <= index < data.shape[0]:
            return walk(select, (self, 0, index))
        return slow(self, index)

    method.__name__ = method.__qualname__ = slow.__name__
    method.__doc__ = slow.__doc__
    method.slow = slow  # type: ignore[attr-defined]
    return method


def install() -> None:
    """Put the short ways on Tensor (after the catalogue is complete)."""
    for syntax, name in (("__add__", "aten::add.Tensor"), ("__sub__", "aten::sub.Tensor"), ("__mul__", "aten::mul.Tensor"),
                         ("__truediv__", "aten::div.Tensor")):
        op = OPS.get(name)
        if op is not None and compute.single_ufunc(op) is not None:
            setattr(Tensor, syntax, _fast_binary(op, getattr(OperatorMethods, syntax)))
            for name in (f"{op.base}_", f"__i{syntax[2:]}"):
                setattr(Tensor, name, _fast_inplace(op, getattr(Tensor, name)))
    setattr(Tensor, "__getitem__", _fast_getitem(getattr(Tensor, "__getitem__")))  # noqa: B009, B010  as above: mypy knows the names of a class
    offer_shortcuts(_shortcut)
