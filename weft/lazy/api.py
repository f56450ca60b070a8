"""What users call: `weft.lazy`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import weft.lazy.metrics as metrics
from weft.lazy.backend import lazy_at, used_devices
from weft.lazy.device import LazyDevice, device_of
from weft.lazy.payload import LazyPayload
from weft.support.errors import ArgumentError, NoSuchDevice
from weft.tensor.device import Device
from weft.tensor.tensor import Tensor
from weft.types.unbacked import bound_of


def _device(name: Any) -> LazyDevice:
    where = Device(name or "lazy")
    if where.type != "lazy":
        raise NoSuchDevice(f"{str(name)!r} is not a lazy device: lazy devices are 'lazy', 'lazy:1', ...")
    return lazy_at(where.index or 0).where


def lazy_payload(tensor: Any, what: str) -> LazyPayload:
    """The payload of a lazy tensor. Raises ArgumentError for anything else."""
    data = tensor._data if isinstance(tensor, Tensor) else None
    if not isinstance(data, LazyPayload):
        kind = f"a tensor on {tensor.device}" if isinstance(tensor, Tensor) else f"a {type(tensor).__name__}"
        raise ArgumentError(f"{what}: expected a lazy tensor, got {kind}")
    return data


def mark_step(device: Any = "", wait: bool = False) -> None:
    """End the step: everything traced so far that somebody holds is computed, and the device's step closures are
    called when it is there.

    device: "lazy" unless it is named. wait: return when the values are there. Programs may run while Python traces the
    next step; what one raised comes out here at the latest, or where one of its results is read.
    """
    where = _device(device)
    metrics.count("MarkStep")
    where.executor.raise_failure()
    where.cut()
    if wait or where.closures.waiting:
        where.executor.wait()
        where.executor.raise_failure()
    where.closures.run()


def wait_device_ops(devices: Iterable[Any] | None = None) -> None:
    """Wait until everything that was asked for is computed; on all lazy devices unless some are named. Raises what a
    program raised.
    """
    chosen = used_devices() if devices is None else [_device(d) for d in devices]
    for where in chosen:
        where.executor.wait()
        where.closures.wait()
        where.executor.raise_failure()
        where.closures.raise_problem()


def reset() -> None:
    """Forget the programs of all lazy devices, and what was traced for them. Tensors keep their values."""
    for where in used_devices():
        where.cut(False)
        where.executor.wait()
        where.forget()


def sync_multi(tensors: Sequence[Tensor], devices: Sequence[Any] = (), wait: bool = True) -> None:
    """Compute these tensors, and no others that are not needed for them, in one program."""
    payloads = [lazy_payload(t, "sync_multi") for t in tensors]
    for where in {id(p.storage.device): device_of(p) for p in payloads}.values():
        where.compute([p.storage.value for p in payloads if p.storage.device is where], "sync_multi()")
        if wait:
            where.executor.wait()
            where.executor.raise_failure()


def get_tensor_id(tensor: Tensor) -> int:
    """A number that a tensor shares with no other one; handles of the same tensor have the same."""
    return lazy_payload(tensor, "get_tensor_id").tensor_id()


def upper_bounds(tensor: Tensor) -> tuple[int | None, ...]:
    """What the sizes of a lazy tensor never exceed, without computing anything: the sizes themselves where they are
    known; None for one without a bound.
    """
    return tuple([bound_of(d) for d in lazy_payload(tensor, "upper_bounds").shape])


def add_step_closure(
    function: Callable[..., Any], args: Sequence[Any] = (), run_async: bool = False, device: Any = ""
) -> None:
    """Call `function(*args)` after the next mark_step, when its values are there: in order, or beside the next step
    with `run_async`. Tensors among the arguments have the values then that they have now.

    What an asynchronous closure raises comes out as a RuntimeError at a later mark_step; closures behind it are not
    called.
    """
    if not callable(function):
        raise ArgumentError(f"add_step_closure: expected a function, got {type(function).__name__}")
    _device(device).closures.add(function, args, run_async)
