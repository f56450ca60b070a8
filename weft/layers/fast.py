"""The short way for the commonest calls: syntax between plain dense tensors of one dtype, straight to a ufunc.

The walk gives the same result; this only skips questions whose answers are known: no mode is on, both operands are dense, their dtypes are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.autograd.anomaly import anomaly
from weft.layers import walk as walk_module
from weft.ops import compute
from weft.ops.methods import OperatorMethods
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.ops.quiet import SILENT, reset, set_silent
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

ndarray = np.ndarray
_NEW = Tensor.__new__
_FAST_DTYPES = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def _fast_binary(op: Op, slow: Callable[..., Any]) -> Callable[..., Any]:
    """`self <op> other` for two dense tensors of the same float dtype."""
    ufunc = compute.single_ufunc(op)
    rest = tuple(a.default for a in op.schema.arguments[2:])
    walk = walk_module.walk
    local = modes

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, Tensor):
            a, b = self._data, other._data
            if (
                type(a) is ndarray
                and type(b) is ndarray
                and a.dtype is b.dtype
                and a.dtype in _FAST_DTYPES
                and local.special is None
            ):
                if (
                    self._autograd is None and other._autograd is None and self._view is None and other._view is None
                ) or not local.grad:
                    if local.capture is None:
                        token = set_silent(SILENT)
                        try:
                            data = ufunc(a, b)
                        except ValueError:
                            return slow(self, other)
                        finally:
                            reset(token)
                        out = _NEW(Tensor)
                        out._data = data if type(data) is ndarray else np.asarray(data)
                        out._storage = out._autograd = out._view = None
                        return out
                return walk(op, (self, other, *rest))
        return slow(self, other)

    method.__name__ = method.__qualname__ = slow.__name__
    method.__doc__ = op.doc
    return method


def install() -> None:
    """Put the short ways on Tensor (after the catalogue is complete)."""
    for syntax, name in (("__add__", "aten::add.Tensor"), ("__sub__", "aten::sub.Tensor"), ("__mul__", "aten::mul.Tensor"),
                         ("__truediv__", "aten::div.Tensor")):
        op = OPS.get(name)
        if op is not None and compute.single_ufunc(op) is not None:
            setattr(Tensor, syntax, _fast_binary(op, getattr(OperatorMethods, syntax)))
    assert anomaly is not None and aten is not None
