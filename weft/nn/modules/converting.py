"""Conversions of whole modules: to, float, half, train, requires_grad_, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from weft.nn.parameter import Parameter
from weft.support.errors import ArgumentError, ValueProblem
from weft.tensor.device import Device
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType

C = TypeVar("C", bound="Converted")


class Converted:
    """The part of Module that changes every parameter, buffer and submodule."""

    training: bool

    if TYPE_CHECKING:
        _parameters: dict[str, Parameter | None]
        _buffers: dict[str, Tensor | None]

        def modules(self) -> Iterator[Any]: ...
        def children(self) -> Iterator[Any]: ...
        def parameters(self) -> Iterator[Parameter]: ...

    def apply(self: C, fn: Callable[[Any], None]) -> C:
        """Call `fn` on every submodule, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: C, mode: bool = True) -> C:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueProblem("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: C) -> C:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self: C, requires_grad: bool = True) -> C:
        """Ask for gradients of all parameters (or stop asking)."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or set them to zero)."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                with no_grad():
                    parameter.grad.detach().zero_()

    def _apply(self: C, fn: Callable[[Tensor], Tensor]) -> C:
        """Replace the bytes of every parameter and gradient, and every buffer, by fn of them. Parameters stay the same objects."""
        with no_grad():
            for module in self.modules():
                for parameter in module._parameters.values():
                    if parameter is not None:
                        _replace(parameter, fn)
                for name, buffer in module._buffers.items():
                    if buffer is not None:
                        module._buffers[name] = fn(buffer)
        return self

    def to(self: C, *args: Any, **kwargs: Any) -> C:
        """Cast floating point parameters and buffers: to(dtype), to(tensor), to(device), to(device, dtype). weft has the device "cpu"."""
        dtype, device = kwargs.get("dtype"), kwargs.get("device")
        for a in args:
            if isinstance(a, Tensor):
                dtype = a.dtype
            elif isinstance(a, DType):
                dtype = a
            elif isinstance(a, (str, Device)):
                device = a
        if device is not None:
            Device(str(device))
        if dtype is None:
            return self
        if not (dtype.is_floating_point or dtype.is_complex):
            raise ArgumentError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")
        return self._cast(dtype)

    def type(self: C, dst_type: DType) -> C:
        """Cast all parameters and buffers."""
        return self._apply(lambda t: t.to(dst_type))

    def _cast(self: C, dtype: DType) -> C:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() or t.is_complex() else t)

    def _cast_real(self: C, dtype: DType) -> C:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: C) -> C:
        """Cast floating point parameters and buffers to float32."""
        return self._cast_real(dt.float32)

    def double(self: C) -> C:
        """Cast floating point parameters and buffers to float64."""
        return self._cast_real(dt.float64)

    def half(self: C) -> C:
        """Cast floating point parameters and buffers to float16."""
        return self._cast_real(dt.float16)

    def bfloat16(self: C) -> C:
        """Cast floating point parameters and buffers to bfloat16."""
        return self._cast_real(dt.bfloat16)

    def cpu(self: C) -> C:
        """The module itself: weft computes on the CPU."""
        return self

    def cuda(self: C, device: Any = None) -> C:
        """Refused: weft computes on the CPU."""
        Device("cuda")
        return self


def _replace(parameter: Parameter, fn: Callable[[Tensor], Tensor]) -> None:
    old = parameter.data
    new = fn(old)
    if new is not old:
        parameter.data = new
    if parameter.grad is not None:
        gradient = parameter.grad
        changed = fn(gradient.detach())
        changed.requires_grad_(gradient.requires_grad)
        parameter.grad = changed
