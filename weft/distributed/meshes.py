"""Types of tensors that lie over several devices, which programs ask about (`isinstance(p, DTensor)`) and write into
annotations. weft has no such tensors: whoever makes one is told so."""

from __future__ import annotations

from typing import Any, NoReturn

from weft.support.errors import Unsupported

__all__ = [
    "CPUOffload", "DTensor", "DeviceMesh", "FullyShardedDataParallel", "MixedPrecision", "Partial", "Placement",
    "Replicate", "Shard", "distribute_module", "distribute_tensor", "fully_shard", "init_device_mesh",
]


def _refuse(name: str) -> NoReturn:
    raise Unsupported(
        f"{name}: weft has no tensors that lie over several devices; weft.nn.parallel.DistributedDataParallel trains "
        "a copy of the model in each process"
    )


class _Absent:
    """A type that nothing is of. Raises Unsupported where it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class DeviceMesh(_Absent):
    """Devices in rows and columns. Raises Unsupported where it is made."""


class DTensor(_Absent):
    """A tensor that lies over a mesh of devices: no tensor of weft's is one. Raises Unsupported where it is made."""


class Placement(_Absent):
    """How a tensor lies over one dim of a mesh. Raises Unsupported where it is made."""


class Shard(Placement):
    """Cut along a dim. Raises Unsupported where it is made."""


class Replicate(Placement):
    """A copy on each device. Raises Unsupported where it is made."""


class Partial(Placement):
    """A part of a sum on each device. Raises Unsupported where it is made."""


class FullyShardedDataParallel(_Absent):
    """A Module whose parameters are cut over devices. Raises Unsupported where it is made."""


class CPUOffload(_Absent):
    """Whether such parameters wait on the CPU. Raises Unsupported where it is made."""


class MixedPrecision(_Absent):
    """The dtypes of such parameters. Raises Unsupported where it is made."""


def init_device_mesh(*args: Any, **kwargs: Any) -> NoReturn:
    """A mesh of devices. Raises Unsupported."""
    _refuse("init_device_mesh")


def distribute_tensor(*args: Any, **kwargs: Any) -> NoReturn:
    """A tensor over a mesh. Raises Unsupported."""
    _refuse("distribute_tensor")


def distribute_module(*args: Any, **kwargs: Any) -> NoReturn:
    """A Module over a mesh. Raises Unsupported."""
    _refuse("distribute_module")


def fully_shard(*args: Any, **kwargs: Any) -> NoReturn:
    """A Module whose parameters are cut over devices. Raises Unsupported."""
    _refuse("fully_shard")
