"""DataParallel: a module over several GPUs. There is none, so it calls the module."""

from __future__ import annotations

from typing import Any

from weft.nn.modules.module import Module
from weft.support.errors import NoSuchDevice


def _check_devices(device_ids: Any, output_device: Any) -> None:
    if device_ids or output_device is not None:
        raise NoSuchDevice(
            f"DataParallel: there is no device {device_ids or output_device}; weft computes on the CPU only. Leave "
            "device_ids out."
        )


class DataParallel(Module):
    """Calls `module`, as PyTorch's does where there is no GPU. Names in its state_dict begin with "module."."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        _check_devices(device_ids, output_device)
        self.module, self.dim = module, dim
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """The module's result for these inputs."""
    _check_devices(device_ids, output_device)
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))
