"""weft.cuda: what programs ask before they use a GPU. There is none: weft computes on the CPU.
Questions are answered, uses are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from weft.support.absent import refused
from weft.support.errors import NoSuchDevice

__all__ = [
    "CUDAGraph", "Event", "ExternalStream", "Stream", "StreamContext", "can_device_access_peer", "current_device",
    "current_stream", "default_stream", "device_count", "device_of", "empty_cache", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "graph", "init", "initial_seed", "ipc_collect", "is_available", "is_bf16_supported",
    "is_current_stream_capturing", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_max_memory_allocated", "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a GPU: never."""
    return False


def is_initialized() -> bool:
    """Whether a GPU is in use: never."""
    return False


def is_current_stream_capturing() -> bool:
    """Whether a CUDA graph is being captured: never."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU computes in bfloat16: there is none. (The CPU does.)"""
    return False


def device_count() -> int:
    """The number of GPUs: none."""
    return 0


def get_arch_list() -> list[str]:
    """The architectures of GPUs that code is made for: none."""
    return []


def get_rng_state_all() -> list[Any]:
    """The states of the generators of all GPUs: none."""
    return []


def manual_seed(seed: int) -> None:
    """Seed the GPU's generator; there is none, so nothing happens, as in PyTorch."""


manual_seed_all = manual_seed


def seed() -> None:
    """Seed the GPU's generator with a number drawn for it: there is none, so nothing happens."""


seed_all = seed


def empty_cache() -> None:
    """Free the GPU's cached memory: nothing to do."""


def ipc_collect() -> None:
    """Free memory that other processes shared: nothing to do."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Forget how much of a GPU's memory was taken at most: nothing to do."""


reset_max_memory_allocated = reset_peak_memory_stats


def synchronize(device: Any = None) -> None:
    """Wait for the GPU: nothing to do."""


def memory_allocated(device: Any = None) -> int:
    """The bytes that tensors take of a GPU's memory: none."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Figures of a GPU's memory: none."""
    return {}


def _refused(name: str, what: str) -> Callable[..., NoReturn]:
    reason = f"cuda.{name}: weft computes on the CPU only; there is no {what}. Ask weft.cuda.is_available() first."
    return refused(name, __name__, reason, f"Refused: there is no {what}.", NoSuchDevice)


current_device = _refused("current_device", "current CUDA device")
set_device = _refused("set_device", "CUDA device")
get_device_name = _refused("get_device_name", "CUDA device")
get_device_capability = _refused("get_device_capability", "CUDA device")
get_device_properties = _refused("get_device_properties", "CUDA device")
can_device_access_peer = _refused("can_device_access_peer", "CUDA device")
mem_get_info = _refused("mem_get_info", "CUDA device")
current_stream = _refused("current_stream", "CUDA stream")
default_stream = _refused("default_stream", "CUDA stream")
get_rng_state = _refused("get_rng_state", "CUDA generator")
set_rng_state = _refused("set_rng_state", "CUDA generator")
initial_seed = _refused("initial_seed", "CUDA generator")
init = _refused("init", "CUDA device")


def _refused_class(name: str, what: str) -> type:
    """A type that programs name, of which nothing can be made."""
    return type(name, (), {"__new__": _refused(name, what), "__doc__": f"Refused where it is made: there is no {what}.",
                           "__module__": __name__})


CUDAGraph, graph = _refused_class("CUDAGraph", "CUDA graph"), _refused_class("graph", "CUDA graph")
Stream, ExternalStream = _refused_class("Stream", "CUDA stream"), _refused_class("ExternalStream", "CUDA stream")
StreamContext, Event = _refused_class("StreamContext", "CUDA stream"), _refused_class("Event", "CUDA event")
device_of = _refused_class("device_of", "CUDA device")
__path__: list[str] = []  # its modules are in weft/module_names.py
default_generators: tuple[Any, ...] = ()
_initialized = False
