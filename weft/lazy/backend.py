"""The back end of lazy devices: operators wait in a trace, views are paths from a base, writes give the base another
value. What has no value that a program could bring is computed at once, on the bytes of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

import weft.lazy.config as config
import weft.lazy.metrics as metrics
import weft.lazy.other_memory as other_memory
from weft.functionalizer.memory_format import is_permuted, order_like, orders_said
from weft.functionalizer.other_memory import resize
from weft.functionalizer.storage import Order
from weft.functionalizer.views import refuse_write
from weft.layers import walk
from weft.layers.results import named
from weft.lazy.arguments import has_indices, has_value, is_settled_by, on_cpu, values_of, versions_of
from weft.lazy.backward import run_graph
from weft.lazy.calls import NoValue, values_in
from weft.lazy.composites import Composites
from weft.lazy.device import LazyDevice
from weft.lazy.draws import drawn_numbers
from weft.lazy.inline.calls import learn
from weft.lazy.inline.writer import MISSED, note
from weft.lazy.inline.writes import Target, learn_write, write_of
from weft.lazy.payload import LazyPayload, LazyStorage, fresh, received
from weft.lazy.rules import NOT_RECORDED, Rules, repeated
from weft.lazy.values import Deferred, computed
from weft.lazy.views import short_view, shown
from weft.ops.layout import Orders
from weft.ops.op import OPS, Op
from weft.ops.route import default_route
from weft.support.errors import NoFake, StateError
from weft.support.locations import user_mark
from weft.tensor.backend import DEFERRED_RANK, Args, Backend, register
from weft.tensor.dense import is_dense, payload_of
from weft.tensor.device import Device
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.views import views_of
from weft.types import shape_env
from weft.types.unbacked import SizeNeeded, has_symbols, numbers_in, settled_in

_CAST = OPS["aten::_to_copy"]


class Lazy(Backend):
    """Tensors of one lazy device."""

    rank = DEFERRED_RANK
    device = "lazy"

    def __init__(self, device: LazyDevice) -> None:
        self.where = device
        self._composites = Composites(device)

    def at(self, where: Device) -> Lazy:
        """The back end of the device with this index."""
        return lazy_at(where.index or 0)

    # ---- operators
    def walked(self, below: Callable[[Op, Args], Any], op: Op, args: Args) -> Any:
        """An operator call with its history: `below(op, args)`, or what stands for it where the trace has come the way
        that it came before. (A view is no entry of the trace.)
        """
        if op.view is not None:
            out = short_view(op, args)
            if out is not MISSED:
                return out
        trace = self.where.trace
        learnt = trace.state.inline.get(op)
        if learnt is not None:
            for cache in learnt.caches:
                out = cache(args)
                if out is not MISSED:
                    return named(op, out) if type(out) is tuple else out
        at, versions = trace.point(), versions_of(args)
        out = below(op, args)
        if versions_of(args) == versions:
            latest = self._composites.latest
            note(trace, at, op, lambda: learn(self.where, at, op, args, out, latest))
        return out

    def run(self, op: Op, args: Args) -> Any:
        """The operator's results, which wait."""
        where = self.where
        where.make_room()
        if op.view is not None:
            return self._view(op, args)
        if (config.forced and config.is_forced(op)) or not has_value(op):
            return self.at_once(op, args)
        if op.decompose is not None and (op.type is None or op.effect == "random" or is_settled_by(op, args)):
            return self._own(op, self.open(op, args))
        operands = self._operands(op, args)
        try:
            out = where.trace.record(op, operands)
        except (NoValue, NoFake):
            return self.at_once(op, args)
        orders = where.orders_of(op, args)
        if len(out) == 1 and not op.schema.returns_list:
            return fresh(where, out[0], orders[0] if orders else None)
        return tuple([fresh(where, v, orders[i] if orders else None) for i, v in enumerate(out)])

    def _operands(self, op: Op, args: Args) -> Args:
        if has_indices(op):
            return tuple([
                tuple([self._index(op, v) for v in a]) if declared.element_optional and a is not None
                else self._operand(op, a) for a, declared in zip(args, op.schema.arguments, strict=True)
            ])
        return tuple([
            a if a is None or type(a) in _AS_THEY_ARE
            else a._data.storage.value if type(a) is Tensor and self._is_whole(a._data) else self._operand(op, a)
            for a in args
        ])

    def _is_whole(self, data: Any) -> bool:
        return type(data) is LazyPayload and not data.path and data.storage.device is self.where

    def _index(self, op: Op, value: Any) -> Any:
        """One of several indices, which may also be a plain tensor."""
        if isinstance(value, Tensor) and is_dense(value):
            return computed(self.where.trace, np.array(value._data, order="C"))
        return self._operand(op, value)

    def _operand(self, op: Op, value: Any) -> Any:
        """An argument as the trace takes it. A plain tensor is one of a single number, or goes where it is copied."""
        if isinstance(value, Tensor):
            data = value._data
            if type(data) is LazyPayload and data.storage.device is self.where:
                return data.read()
            if op.crosses_devices or (not value.ndim and value.device.type == "cpu"):
                array = payload_of(value).materialize(f"{op.base} with a lazy tensor")
                return computed(self.where.trace, np.array(array, order="C"))
            raise StateError(
                f"{op.base}: Expected all tensors to be on the same device, but found at least two devices, "
                f"{self.where.name} and {value.device}! Move them with .to({self.where.name!r})"
            )
        if type(value) is tuple or type(value) is list:
            return tuple([self._operand(op, v) for v in value])
        return value

    def _own(self, op: Op, out: Any) -> Any:
        """What a composite gives; of a factory a tensor that is no view: its last step may have reshaped what it drew.
        """
        if not isinstance(out, Tensor) or (op.tensor_positions and not op.like) or type(out._data) is not LazyPayload:
            return out
        return fresh(self.where, out._data.read()) if out._data.path and out.is_contiguous() else out

    def open(self, op: Op, args: Args) -> Any:
        """A composite, by the operators that it is made of."""
        self.where.trace.count(op)
        rules = self.where.rules if self._is_plain() else None
        out = NOT_RECORDED if rules is None else self._composites.run(rules, op, args)
        if out is not NOT_RECORDED:
            return out
        with drawn_numbers() if op.effect == "random" else nullcontext():
            return super().open(op, args)

    def orders_of(self, op: Op, args: Args) -> Orders | None:
        """As in eager mode."""
        return orders_said(op, args, None)

    def constants(self, args: Args) -> AbstractContextManager[None]:
        """Tensors that a rule makes are made here."""
        return default_route(self.run)

    def apply(self, owner: Any, rule: Any, args: Args) -> Any:
        """A rule on tensors. What it calls is recorded, and repeated for operands of the same types."""
        rules = self._rules()
        out = NOT_RECORDED if rules is None else rules.run(owner, rule, args)
        return super().apply(owner, rule, args) if out is NOT_RECORDED else out

    def update_each(self, rule: Any, rows: Sequence[Args], args: Args) -> None:
        """A rule that writes into tensors, idem: all rows together, or else one by one."""
        everything = tuple([a for row in rows for a in row]) + args
        together = repeated(rule, len(rows), len(rows[0]))
        if not self._repeat(together, everything):
            for row in rows:
                if len(rows) == 1 or not self._repeat(rule, row + args):
                    rule(*row, *args)

    def _repeat(self, rule: Any, args: Args) -> bool:
        """Whether a rule that writes is repeated as it was recorded."""
        rules = self._rules()
        return rules is not None and rules.update(rule, args) is not None

    def backward(self, roots: Sequence[Any], seeds: Sequence[Tensor], keep: bool) -> bool:
        """Whether a backward call is known from earlier steps, idem: it is one entry of the trace then."""
        rules = self._rules()
        return rules is not None and run_graph(self.where, rules, roots, seeds, keep)

    def _rules(self) -> Rules | None:
        """Those that are recorded, where operators do nothing but compute."""
        return self.where.rules if not modes.grad and self._is_plain() else None

    def _is_plain(self) -> bool:
        """Whether operators do nothing but compute, and maybe note their history."""
        return not config.forced and modes.special is None and modes.capture is None

    def at_once(self, op: Op, args: Args) -> Any:
        """The operator on the bytes of its operands, now."""
        self.where.compute([v for v in values_of(args) if v.cell is None], op.base)
        metrics.count(f"aten::{op.base}")
        out = walk.below(op, numbers_in(on_cpu(args, op.base)))
        return self._taken(out)

    def _taken(self, out: Any) -> Any:
        if isinstance(out, Tensor):
            return self.receive(out)
        if isinstance(out, (tuple, list)):
            return type(out)(*map(self._taken, out)) if hasattr(out, "_fields") else tuple(map(self._taken, out))
        return out

    def ready(self, tensor: Tensor) -> None:
        """What a factory made has its bytes at once: a first step is then like those that follow it."""
        data = tensor._data
        if type(data) is not LazyPayload or data.path or type(data.storage) is not LazyStorage:
            return
        node = data.storage.value.node
        if node is None or type(node.op) is not Op or node.op.effect != "pure":
            return
        held = values_in(node.args)
        if held and not (node.op.like and len(held) == 1 and held[0] is node.args[0]):
            return
        stand_ins = [tensor_around(np.empty(a.dims, a.dtype.numpy)) if type(a) is Deferred else a for a in node.args]
        value = walk.below(node.op, tuple(stand_ins))
        if not is_dense(value):
            return
        data.storage.replace(computed(self.where.trace, np.array(value._data, order="C")))

    # ---- views
    def _view(self, op: Op, args: Args) -> Any:
        if config.forced and config.is_forced(op):
            raise StateError(
                f"{op.base}: a view cannot be computed at once: it would show other memory than its source"
            )
        source, rest = args[0], args[1:]
        payload: LazyPayload = source._data
        results = self._shown(op, payload, rest)
        if results is None:
            (value,) = self.where.trace.record(op, (payload.read(), *rest))
            return fresh(self.where, value)
        views = [LazyPayload(payload.storage, path, kind, g) for path, kind, g in results]
        return views_of(source, source.storage(), views, op, rest)

    def _shown(self, op: Op, payload: LazyPayload, rest: Args) -> Any:
        """What a view shows. Sizes that it asks for are found first."""
        if not payload.storage.type.is_symbolic and not any([has_symbols(a) for a in rest]):
            return shown(op, payload, rest)
        while True:
            try:
                with shape_env.using(self.where.trace.sizes):
                    return shown(op, payload, settled_in(rest))
            except SizeNeeded as asked:
                needed = asked
            needed.find()

    # ---- writes
    def written(self, below: Callable[[Op, Args], Any], op: Op, args: Args) -> Any:
        """An in-place operator: `below(op, args)`, or what stands for it as in `walked`."""
        trace, payload, what = self.where.trace, args[0]._data, write_of(op)
        learnt = trace.state.inline.get(what)
        if learnt is not None:
            for cache in learnt.caches:
                if cache(args) is not MISSED:
                    return args[0]
        at = trace.point()
        target = Target.of(payload) if type(payload) is LazyPayload else None
        out = below(op, args)
        if args[0]._data is payload:
            note(trace, at, what, lambda: learn_write(self.where, at, op, args, target))
        return out

    def write(self, op: Op, args: Args) -> None:
        """The operator's value takes the place of the target in its base."""
        target: Tensor = args[0]
        payload = target._data
        if type(payload) is not LazyPayload:
            self._write_elsewhere(op, args)
            return
        refuse_write(op, payload)
        if (op.is_splat or op.crosses_devices) and not any([
            isinstance(a, Tensor) and payload.shares_memory(a._data) for a in args[1:]
        ]):  # nothing of what was there is read
            payload.renew()
        value = self._value_of(op, args)
        if payload.path:
            payload.renew()
        self.put(target, payload, value, op.is_splat)

    def _write_elsewhere(self, op: Op, args: Args) -> None:
        """Into a tensor of another device: the bytes go there."""
        if not op.crosses_devices:
            self._operands(op, args)
        walk.write(op, on_cpu(args, f"{op.base}_()"))

    def _value_of(self, op: Op, args: Args) -> Deferred:
        out = self.run(op, args)
        data: LazyPayload = out._data
        return data.read()

    def put(self, target: Tensor, payload: LazyPayload, value: Deferred, is_splat: bool = False) -> None:
        """Let a value be what a tensor shows. is_splat: its elements are equal."""
        kind = payload.type
        if value.dtype is not kind.dtype:
            (value,) = self.where.trace.record(_CAST, (value, kind.dtype))
        if payload.path:
            if payload.storage.is_resized:
                payload.refuse_short("a lazy tensor")
            payload.storage.put(payload.path, value, is_splat)
            payload.remember(value)
        else:
            payload.storage.write(value)
        storage = target.storage()
        storage.version += 1
        storage.written = (storage.version, user_mark(3))

    # ---- memory
    def receive(self, tensor: Tensor) -> Tensor:
        """A tensor of another device, its bytes copied."""
        array = tensor._data if is_dense(tensor) else tensor._data.materialize(f"to({self.where.name!r})")
        return received(self.where, np.array(array, order="C"), self._order(tensor))

    def _order(self, tensor: Tensor) -> Order | None:
        return order_like(tensor, None) if is_permuted(tensor, None) else None

    def resize(self, tensor: Tensor, dims: tuple[int, ...]) -> None:
        """Show the storage row-major with other sizes; it becomes larger where they need more."""
        resize(tensor, dims)

    def show(self, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
        """Show another storage."""
        other_memory.show(self.where, tensor, source, offset, size, stride)


_AS_THEY_ARE = frozenset((int, float, bool, str))


# ---- the devices that there are
_devices: dict[int, Lazy] = {}


def lazy_at(index: int) -> Lazy:
    """The back end of a lazy device."""
    backend = _devices.get(index)
    if backend is None:
        device = LazyDevice("lazy" if index == 0 else f"lazy:{index}")
        device.rules = Rules(device, Lazy)
        backend = _devices.setdefault(index, Lazy(device))
        backend.where.backend = backend
    return backend


def lazy_backend(device: LazyDevice) -> Lazy:
    """The back end of a lazy device."""
    backend = device.backend
    assert isinstance(backend, Lazy)
    return backend


def used_devices() -> list[LazyDevice]:
    """The lazy devices that were used."""
    return [backend.where for backend in _devices.values()]


register(lazy_at(0))
