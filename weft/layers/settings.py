"""Switches of the whole process that programs set and ask: default device, determinism, precision.
Most have one value here."""

from __future__ import annotations

from typing import Any

from weft.support.errors import ArgumentError, Unsupported, ValueProblem
from weft.tensor.device import Device, usable
from weft.tensor.legacy import dtype_of_name
from weft.tensor.tensor import Tensor
from weft.types.dtype import set_default


def typename(obj: Any) -> str:
    """`weft.FloatTensor` for a tensor, else the type's full name."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = type(obj)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def detach(input: Tensor) -> Tensor:
    """An alias without history."""
    return input.detach()


def get_default_device() -> Device:
    """The device that factories use: the CPU."""
    return Device("cpu")


def set_default_device(device: Any) -> None:
    """Accepted for the CPU, which it is. Raises for other devices."""
    if device is not None and usable(device).type != "cpu":
        raise Unsupported(
            f"set_default_device: factories make tensors on the cpu; pass device='{device}' to those that should not"
        )


def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of a type (weft.DoubleTensor or its name) the default one."""
    dtype = dtype_of_name(t) if isinstance(t, str) else getattr(t, "dtype", None)
    if dtype is None:
        raise ArgumentError(f"invalid type object: {t}")
    set_default(dtype)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted: results never hang on chance or on the number of threads."""


def are_deterministic_algorithms_enabled() -> bool:
    """Always."""
    return True


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted ("highest", "high", "medium"): float32 products are computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise ValueProblem(f"{precision} is not one of 'highest', 'high', or 'medium'")


def get_float32_matmul_precision() -> str:
    """"highest"."""
    return "highest"
