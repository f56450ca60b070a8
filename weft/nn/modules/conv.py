"""Convolutions and transposed convolutions in 1, 2 and 3 dimensions."""

from __future__ import annotations

import math
from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.nn.modules.file_names import in_files
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter, empty
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor

_MODES = ("zeros", "reflect", "replicate", "circular")
_FUNCTIONS = {1: "conv1d", 2: "conv2d", 3: "conv3d"}


def times(value: Any, rank: int) -> tuple[int, ...]:
    """A number for every dim, or the sequence as a tuple."""
    return (value,) * rank if isinstance(value, int) else tuple(value)


class _Convolution(Module):
    """What convolutions of every rank share. weight: [out, in / groups, *kernel],
    transposed [in, out / groups, *kernel]."""

    _rank = 0
    _transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        output_padding: Any, groups: int, bias: bool, padding_mode: str, device: Any, dtype: Any,
    ) -> None:
        super().__init__()
        rank = self._rank
        if groups <= 0:
            raise ValueProblem("groups must be a positive integer")
        if in_channels % groups:
            raise ValueProblem("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueProblem("out_channels must be divisible by groups")
        if padding_mode not in _MODES:
            raise ValueProblem(f"padding_mode must be one of {set(_MODES)}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (
            in_channels, out_channels, groups, padding_mode
        )
        self.kernel_size, self.stride, self.dilation = (
            times(kernel_size, rank), times(stride, rank), times(dilation, rank)
        )
        self.output_padding = times(output_padding, rank)
        self.padding: Any = padding if isinstance(padding, str) else times(padding, rank)
        if isinstance(padding, str):
            self._check_named_padding(padding)
        outer, inner = (in_channels, out_channels) if self._transposed else (out_channels, in_channels)
        self.transposed = self._transposed
        self.weight = Parameter(empty((outer, inner // groups, *self.kernel_size), dtype=dtype, device=device))
        self.register_parameter("bias", Parameter(empty((out_channels,), dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def _check_named_padding(self, padding: str) -> None:
        if padding not in ("same", "valid"):
            raise ValueProblem(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ValueProblem("padding='same' is not supported for strided convolutions")

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform within 1 / sqrt(fan in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = init._calculate_fan_in_and_fan_out(self.weight)[0]
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        convolve = getattr(F, _FUNCTIONS[self._rank])
        if self.padding_mode == "zeros":
            return convolve(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._border(), mode=self.padding_mode)
        return convolve(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def _border(self) -> tuple[int, ...]:
        """Padding as nn.functional.pad takes it: (before, after) of the last dim first."""
        if isinstance(self.padding, tuple):
            return tuple(p for p in reversed(self.padding) for _ in range(2))
        border: list[int] = []
        for kernel, dilation in zip(reversed(self.kernel_size), reversed(self.dilation), strict=True):
            total = dilation * (kernel - 1) if self.padding == "same" else 0
            border += [total // 2, total - total // 2]
        return tuple(border)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self._rank:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._rank:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._rank:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


_ConvNd = _Convolution  # PyTorch's name, which programs ask isinstance of


class _Forward(_Convolution):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0,
            groups, bias, padding_mode, device, dtype,
        )


class Conv1d(_Forward):
    """input: [n, in, l] -> [n, out, l']. weight: [out, in / groups, kernel]."""

    _rank = 1


class Conv2d(_Forward):
    """input: [n, in, h, w] -> [n, out, h', w']. weight: [out, in / groups, *kernel]."""

    _rank = 2


class Conv3d(_Forward):
    """input: [n, in, d, h, w] -> [n, out, d', h', w']. weight: [out, in / groups, *kernel]."""

    _rank = 3


class _Transposed(_Convolution):
    _transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueProblem(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
            padding_mode, device, dtype,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._padding_for(input, output_size)
        convolve = getattr(F, f"conv_transpose{self._rank}d")
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _padding_for(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding that gives this size. Raises ValueProblem when none does."""
        rank = self._rank
        wanted = list(output_size)[-rank:]
        sizes = [
            (input.shape[i - rank] - 1) * self.stride[i] - 2 * self.padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1) + 1
            for i in range(rank)
        ]
        limits = [size + self.stride[i] - 1 for i, size in enumerate(sizes)]
        if any(not low <= size <= high for low, size, high in zip(sizes, wanted, limits, strict=True)):
            raise ValueProblem(
                f"requested an output size of {wanted}, but valid sizes range from {sizes} to {limits} (for an input "
                f"of {tuple(input.shape[2:])})")
        return tuple(size - low for size, low in zip(wanted, sizes, strict=True))


class ConvTranspose1d(_Transposed):
    """The adjoint of Conv1d: input [n, in, l] -> [n, out, l']. weight: [in, out / groups, kernel]."""

    _rank = 1


class ConvTranspose2d(_Transposed):
    """The adjoint of Conv2d: input [n, in, h, w] -> [n, out, h', w']."""

    _rank = 2


class ConvTranspose3d(_Transposed):
    """The adjoint of Conv3d: input [n, in, d, h, w] -> [n, out, d', h', w']."""

    _rank = 3


_ConvTransposeNd = _Transposed


def __getattr__(name: str) -> Any:
    """The lazy layers, which PyTorch keeps in this file."""
    return in_files(__name__, name, ("lazy_layers",))
