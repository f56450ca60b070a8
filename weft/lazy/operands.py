"""What a call looks like that may have come before: the types and memory formats of its operands, and its other
arguments, in a row. Calls that look alike append the same to the trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.functionalizer.memory_format import is_permuted, order_like
from weft.functionalizer.storage import Order
from weft.lazy.device import LazyDevice
from weft.lazy.payload import LazyPayload
from weft.lazy.values import Deferred
from weft.ops.geometry import Geometry
from weft.ops.overrides import plain_kinds
from weft.support import limits
from weft.support.memo import Memo
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.dtype import DType

SPECIAL = frozenset((0.0, 1.0))  # numbers that rules ask for
_ANY_FLOAT = object()
_INTEGER = frozenset((int,))
_orders: Memo[Geometry, Order | bool | None] = Memo(limits.ORDERS)


class Operands:
    """The tensors among a call's arguments (or payloads in their place), what they show, and the values of that.

    looks: what the call looks like, a few entries for each argument.
    """

    __slots__ = ("looks", "payloads", "tensors", "values")

    def __init__(self) -> None:
        self.looks: list[Any] = []
        self.tensors: list[Any] = []
        self.payloads: list[LazyPayload] = []
        self.values: list[Deferred] = []

    def look(self, device: LazyDevice, args: Iterable[Any], floats: list[float] | None = None) -> bool:
        """Look at more arguments. False where there is one that calls are not known by. floats: takes those that may be
        others the next time.
        """
        looks, tensors, payloads, values = self.looks, self.tensors, self.payloads, self.values
        for a in args:
            kind = type(a)
            if kind in plain_kinds or kind is LazyPayload:
                data = a if kind is LazyPayload else a._data
                if type(data) is LazyPayload and data.permuted is False and not data.path:  # (mostly)
                    storage = data.storage
                    if storage.device is device and not storage.type.is_symbolic:
                        value = storage.value
                        tensors.append(a)
                        payloads.append(data)
                        values.append(value)
                        looks.append(value.type_)
                        continue
                if not self._look_closer(device, a, floats is None):
                    return False
            elif a is None or kind is DType or kind is str:
                looks.append(a)
            elif kind is int or kind is bool:
                looks += (kind, a)
            elif kind is float:
                if floats is None or a in SPECIAL:
                    looks += (kind, a if a and a == a else repr(a))
                else:
                    floats.append(a)
                    looks.append(_ANY_FLOAT)
            elif kind is tuple:
                kinds = tuple(map(type, a))
                if _INTEGER.issuperset(kinds):  # sizes, mostly
                    looks += (kinds, a)
                    continue
                looks += (kind, len(a))
                if not self.look(device, a):
                    return False
            elif not isinstance(a, LazyPayload) or not self._look_closer(device, a, floats is None):
                return False
        return True

    def _look_closer(self, device: LazyDevice, a: Tensor | LazyPayload, with_views: bool) -> bool:
        """Look at a tensor that may be a view, or have its dims in another order in memory."""
        data = device.shown(a)
        if data is None or data.env is not None:
            return False
        value = data.read()
        self.tensors.append(a)
        self.payloads.append(data)
        self.values.append(value)
        if data.permuted is False and not data.path and not data.is_apart:
            self.looks.append(value.type_)
            return True
        order = order_of(data)
        if order is False or (not with_views and (data.path or data.is_apart)):
            return False
        geometry = data.geometry() if data.path else None  # (what views look like hangs on the gaps too)
        self.looks.append((value.type_, order, data.storage.order, geometry, data.is_apart))
        return True


def order_of(data: LazyPayload) -> Order | bool | None:
    """The order in memory of dims: None for row-major, False where elements repeat."""
    if not data.path:
        return data.storage.order
    g = data.geometry()
    order = _orders.get(g, True)
    if order is True:
        if any([s == 0 and d != 1 for s, d in zip(g.strides, g.dims, strict=True)]):
            order = False
        else:
            shown = tensor_around(data)
            order = order_like(shown, None) if is_permuted(shown, None) else None
        _orders[g] = order
    return order
