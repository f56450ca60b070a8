"""LazyLinear, LazyConv1d, LazyBatchNorm2d, ...: layers whose number of inputs is that of the first input."""

from __future__ import annotations

from typing import Any

from weft.nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from weft.nn.modules.lazy import LazyModuleMixin
from weft.nn.modules.linear import Linear
from weft.nn.modules.running_norms import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from weft.nn.parameter import is_lazy, zeros
from weft.nn.uninitialized import UninitializedBuffer, UninitializedParameter
from weft.support.errors import StateError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


class LazyLinear(LazyModuleMixin, Linear):
    """Linear whose in_features is the last size of the first input."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(dtype=dtype, device=device)
        if bias:
            self.bias = UninitializedParameter(dtype=dtype, device=device)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once they are known."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take in_features from the input's last dim."""
        is_initialized = not self.has_uninitialized_params()
        self.in_features = int(input.shape[-1]) if not is_initialized else int(self.weight.shape[-1])
        if is_initialized:
            return
        _materialize(self.weight, (self.out_features, self.in_features))
        _materialize(self.bias, (self.out_features,))
        self.reset_parameters()


class _LazyConvolution(LazyModuleMixin):
    def _make_lazy(self: Any, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        for name in ("weight", "bias") if bias else ("weight",):
            self.register_parameter(name, UninitializedParameter(dtype=dtype, device=device))

    def reset_parameters(self: Any) -> None:
        """Draw weight and bias anew, once they are known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take in_channels from the input's dim of channels. Raises StateError for inputs of another rank,
        ValueProblem for groups that do not divide."""
        rank = self._rank
        if input.ndim not in (rank + 1, rank + 2):
            raise StateError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {list(input.shape)}"
            )
        if not self.has_uninitialized_params():
            self.in_channels = (
                int(self.weight.shape[0 if self._transposed else 1]) * (1 if self._transposed else self.groups)
            )
            return
        self.in_channels = int(input.shape[-rank - 1])
        if self.in_channels % self.groups:
            raise ValueProblem("in_channels must be divisible by groups")
        outer, inner = (
            (self.in_channels, self.out_channels) if self._transposed else (self.out_channels, self.in_channels)
        )
        _materialize(self.weight, (outer, inner // self.groups, *self.kernel_size))
        _materialize(self.bias, (self.out_channels,))
        self.reset_parameters()


class _LazyForward(_LazyConvolution):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyForward, Conv1d):
    """Conv1d whose in_channels is that of the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyForward, Conv2d):
    """Conv2d whose in_channels is that of the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyForward, Conv3d):
    """Conv3d whose in_channels is that of the first input."""

    cls_to_become = Conv3d


class _LazyTransposed(_LazyConvolution):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """ConvTranspose1d whose in_channels is that of the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """ConvTranspose2d whose in_channels is that of the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """ConvTranspose3d whose in_channels is that of the first input."""

    cls_to_become = ConvTranspose3d


class _LazyNorm(LazyModuleMixin):
    def __init__(
        self: Any, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(dtype=dtype, device=device)
        if affine and bias:
            self.bias = UninitializedParameter(dtype=dtype, device=device)
        if track_running_stats:
            self.running_mean, self.running_var = (
                UninitializedBuffer(dtype=dtype, device=device), UninitializedBuffer(dtype=dtype, device=device)
            )
            self.num_batches_tracked = zeros((), dtype=dt.int64, device=device)

    def reset_parameters(self: Any) -> None:
        """Forget all batches; weight 1, bias 0, once they are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor) -> None:
        """Take num_features from the input's dim of channels."""
        if self.has_uninitialized_params():
            self.num_features = int(input.shape[self._channels_at(input)])
            for value in self._own_tensors():
                if is_lazy(value):
                    value.materialize((self.num_features,))
            self.reset_parameters()
        elif self.weight is not None or self.running_mean is not None:
            self.num_features = int((self.running_mean if self.weight is None else self.weight).shape[0])
        else:
            self.num_features = int(input.shape[self._channels_at(input)])

    def _channels_at(self: Any, input: Tensor) -> int:
        return 1


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """BatchNorm1d whose num_features is the number of channels of the first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """BatchNorm2d whose num_features is the number of channels of the first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """BatchNorm3d whose num_features is the number of channels of the first input."""

    cls_to_become = BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    def __init__(
        self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__(eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _channels_at(self: Any, input: Tensor) -> int:
        return 0 if input.ndim == min(self._ranks) else 1


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """InstanceNorm1d whose num_features is the number of channels of the first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """InstanceNorm2d whose num_features is the number of channels of the first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """InstanceNorm3d whose num_features is the number of channels of the first input."""

    cls_to_become = InstanceNorm3d


def _materialize(value: Any, shape: tuple[int, ...]) -> None:
    if is_lazy(value):
        value.materialize(shape)


_LazyConvXdMixin, _LazyNormBase = _LazyConvolution, _LazyNorm  # PyTorch's names
