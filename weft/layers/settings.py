"""Switches of the whole process that programs set and ask: default device, determinism, precision.
Most have one value here."""

from __future__ import annotations

import importlib
from typing import Any

from weft.runtime.storage import UntypedStorage
from weft.support.errors import ArgumentError, StateError, ValueProblem
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


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Never: nothing is refused for it."""
    return False


_DEBUG_MODES = ("default", "warn", "error")


class _Modes:
    """What was set, for programs that ask."""

    debug = 0
    interop_threads = 1
    warns_always = False


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Accepted ("default", "warn", "error" or 0, 1, 2): results are the same every time. Raises StateError."""
    if debug_mode not in _DEBUG_MODES and debug_mode not in (0, 1, 2):
        raise StateError(
            f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
        )
    _Modes.debug = _DEBUG_MODES.index(debug_mode) if isinstance(debug_mode, str) else debug_mode


def get_deterministic_debug_mode() -> int:
    """What was set: 0, 1 or 2."""
    return _Modes.debug


def set_num_interop_threads(threads: int) -> None:
    """Accepted: operators run one after the other, each over weft.get_num_threads() threads. Raises StateError."""
    if threads < 1:
        raise StateError("Expected positive number of threads")
    _Modes.interop_threads = threads


def get_num_interop_threads() -> int:
    """What was set, 1 at first."""
    return _Modes.interop_threads


def set_flush_denormal(mode: bool) -> bool:
    """False: weft computes with subnormal numbers, and cannot leave them out."""
    return False


def set_warn_always(b: bool, /) -> None:
    """Accepted: Python's own filters decide how often a warning is shown."""
    _Modes.warns_always = b


def is_warn_always_enabled() -> bool:
    """What was set, False at first."""
    return _Modes.warns_always


def get_device(input: Tensor) -> int:
    """`input.get_device()`: -1, for the CPU."""
    return input.get_device()


def get_device_module(device: Any = None) -> Any:
    """The module of a device: `weft.cpu`. Raises NoSuchDevice for one that weft has not."""
    kind = usable(device).type if device is not None else "cpu"
    return importlib.import_module(f"weft.{kind}")


def is_storage(obj: Any, /) -> bool:
    """Whether a value is a storage."""
    return isinstance(obj, UntypedStorage)


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted ("highest", "high", "medium"): float32 products are computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise ValueProblem(f"{precision} is not one of 'highest', 'high', or 'medium'")


def get_float32_matmul_precision() -> str:
    """"highest"."""
    return "highest"
