"""From one device to another: the back end of the device makes the tensor, and gradients go the way back."""

from __future__ import annotations

from typing import Any

from weft.autograd.function import Function
from weft.autograd.function_context import FunctionCtx
from weft.layers.inference import noted
from weft.tensor.backend import backend_at
from weft.tensor.device import Device
from weft.tensor.modes import modes, top_interceptor
from weft.tensor.tensor import Tensor


def is_at(tensor: Tensor, device: Device) -> bool:
    """Whether a tensor is on a device (the first of its type, where no index is given)."""
    here = tensor.device
    return here is device or (here.type == device.type and (here.index or 0) == (device.index or 0))


class ToDevice(Function):
    """A copy on another device."""

    @staticmethod
    def forward(x: Tensor, device: Device) -> Tensor:
        """The values, made there."""
        return backend_at(device).receive(x)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Where the gradient goes back to, and a tangent to."""
        ctx.origin, ctx.target = inputs[0].device, inputs[1]

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        """The gradient, on the device that the tensor came from."""
        return moved(gradient, ctx.origin), None

    @staticmethod
    def jvp(ctx: FunctionCtx, tangent: Tensor, _: Any) -> Tensor:
        """The tangent, on the device that the tensor goes to."""
        return moved(tangent, ctx.target)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], x: Tensor, device: Device) -> tuple[Tensor, Any]:
        """All examples at once."""
        return moved(x, device), in_dims[0]


def moved(tensor: Tensor, device: Device) -> Tensor:
    """The tensor on a device: itself if it is there."""
    if is_at(tensor, device):
        return tensor
    if (modes.grad and tensor.requires_grad) or hasattr(top_interceptor(), "apply_function"):
        out: Tensor = ToDevice.apply(tensor, device)
        return out
    return noted(backend_at(device).receive(tensor))
