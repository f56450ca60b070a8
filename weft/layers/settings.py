"""Switches of the whole process that programs set and ask: default device, determinism, precision.
Most have one value here."""

from __future__ import annotations

from typing import Any

from weft.support.errors import ArgumentError, ValueProblem
from weft.tensor.device import Device, chosen, usable
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


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with memory of its own, laid out as the tensor is, or as the memory format says."""
    return input.clone(memory_format=memory_format)


def get_default_device() -> Device:
    """The device that factories use where they are given none: the CPU unless another one was set."""
    return chosen.device or Device("cpu")


def set_default_device(device: Any) -> None:
    """Let factories (and `weft.tensor`) of this thread make tensors on a device where they are given none; None: on the
    CPU. Raises NoSuchDevice for one that weft has not.
    """
    chosen.device = None if device is None else usable(device)


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
