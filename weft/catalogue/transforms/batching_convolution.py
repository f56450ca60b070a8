"""The batch rules of convolutions: examples become samples where the weight is shared, and groups where it is not."""

from __future__ import annotations

from typing import Any

from weft.ops.batching import Flags, batches, everywhere
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.types.dims import Dim


def _to_samples(value: Any) -> Any:
    """[batch, n, ...] -> [batch * n, ...]."""
    return aten.flatten(value, 0, 1)


def _from_samples(value: Any, size: Dim, n: Dim) -> Any:
    return aten.reshape(value, (size, n, *value.dims[1:]))


def _to_channels(value: Any) -> Any:
    """[batch, n, c, ...] -> [n, batch * c, ...]."""
    return aten.flatten(aten.movedim(value, 0, 1), 1, 2)


def _from_channels(value: Any, size: Dim) -> Any:
    n, c = value.dims[0], value.dims[1] // size
    return aten.movedim(aten.reshape(value, (n, size, c, *value.dims[2:])), 1, 0)


def _windows(name: str) -> Any:
    """_convolve and _convolve_input: (x or its cotangent, weight)."""
    operator = getattr(aten, name)

    def rule(op: Op, size: Dim, flags: Flags, x: Any, weight: Any, *how: Any) -> Any:
        if not flags[1]:
            return _from_samples(operator(_to_samples(x), weight, *how), size, x.dims[1])
        x, weight = everywhere(size, flags[:2], (x, weight))
        out = operator(_to_channels(x), aten.flatten(weight, 0, 1), *how[:-1], how[-1] * size)
        return _from_channels(out, size)

    return rule


def _weight(op: Op, size: Dim, flags: Flags, grad: Any, x: Any, *how: Any) -> Any:
    """The gradient of each example's own weight: the examples side by side, as groups."""
    grad, x = everywhere(size, flags[:2], (grad, x))
    out = aten._convolve_weight(_to_channels(grad), _to_channels(x), *how[:-1], how[-1] * size)
    return aten.reshape(out, (size, out.dims[0] // size, *out.dims[1:]))


batches(aten._convolve)(_windows("_convolve"))
batches(aten._convolve_input)(_windows("_convolve_input"))
batches(aten._convolve_weight)(_weight)
