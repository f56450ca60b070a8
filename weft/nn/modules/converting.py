"""Conversions of whole modules: to, float, half, train, requires_grad_, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from weft.autograd.accumulate import zero
from weft.nn.parameter import Parameter, empty, is_lazy
from weft.support.errors import ArgumentError, ValueProblem
from weft.tensor.device import Device, usable
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
            else:
                zero(parameter)

    def _apply(self: C, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> C:
        """Replace the bytes of every parameter and gradient, and every buffer, by fn of them.
        Parameters stay the same objects."""
        with no_grad():
            for module in self.modules() if recurse else (self,):
                for parameter in module._parameters.values():
                    if parameter is not None:
                        _replace(parameter, fn)
                for name, buffer in module._buffers.items():
                    if buffer is not None:
                        module._buffers[name] = fn(buffer)
        return self

    def to(self: C, *args: Any, **kwargs: Any) -> C:
        """Cast floating point parameters and buffers, or move all: to(dtype), to(tensor), to(device),
        to(device, dtype). Devices are "cpu" and "meta". memory_format="channels_last" (or "channels_last_3d") lays out
        those of four or five dims so; those of the other number of dims are a ShapeError."""
        dtype, device = wanted(args, dict(kwargs))
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise ArgumentError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if device is not None and any(t.device != device for t in self._tensors()):
            self._apply(lambda t: t.to(device))
        if dtype is not None:
            self._cast(dtype)
        memory_format = kwargs.get("memory_format")
        if memory_format is not None:
            self._apply(lambda t: t.to(memory_format=memory_format) if t.ndim in (4, 5) else t)
        return self

    def to_empty(self: C, *, device: Any, recurse: bool = True) -> C:
        """Give every parameter and buffer fresh memory on a device, with any values in it:
        for models made on "meta"."""
        where = usable(device)
        return self._apply(
            lambda t: t.to(where) if is_lazy(t) else empty(tuple(t.dims), dtype=t.dtype, device=where), recurse
        )

    def _tensors(self) -> Iterator[Tensor]:
        for module in self.modules():
            for table in (module._parameters, module._buffers):
                yield from (t for t in table.values() if t is not None)

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
        """Move all parameters and buffers to the CPU."""
        return self.to(device="cpu")

    def cuda(self: C, device: Any = None) -> C:
        """Refused: weft computes on the CPU."""
        usable("cuda")
        return self


def wanted(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[DType | None, Device | None]:
    """The dtype and device that the arguments of `to` name. Raises ArgumentError for anything else."""
    dtype, device = options.pop("dtype", None), options.pop("device", None)
    for i, a in enumerate(args):
        if isinstance(a, Tensor) and i == 0:
            dtype, device = a.dtype, a.device
        elif isinstance(a, DType) and i < 2:
            dtype = a
        elif isinstance(a, (str, Device)) and i == 0:
            device = a
        elif not (a is None or (isinstance(a, bool) and i > 0)):  # non_blocking
            raise ArgumentError(
                f"to() received an invalid combination of arguments - got {_kinds(args)}; it takes a dtype, a device, "
                "a device and a dtype, or a tensor"
            )
    unknown = set(options) - {"non_blocking", "memory_format"}
    if unknown or (dtype is not None and not isinstance(dtype, DType)):
        raise ArgumentError(
            f"to() received an invalid combination of arguments - got {_kinds(args)} and "
            f"{sorted(unknown) or type(dtype).__name__}"
        )
    return dtype, None if device is None else usable(str(device))


def _kinds(args: tuple[Any, ...]) -> str:
    return "(" + ", ".join(type(a).__name__ for a in args) + ")"


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
