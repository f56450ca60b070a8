"""Initialisers: fill tensors in place, without history, from the default generator or one that is given."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.ops.packet import aten
from weft.runtime.generator import Generator
from weft.support.errors import ValueProblem
from weft.support.warn import warn
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor, tensor_around


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with this mean and standard deviation."""
    return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, cut off at a and b (by the inverse of the distribution function)."""
    low, high = (math.erf((edge - mean) / std / math.sqrt(2.0)) for edge in (a, b))
    with no_grad():
        tensor.uniform_(low, high, generator=generator)
        tensor.erfinv_()
        tensor.mul_(std * math.sqrt(2.0)).add_(mean)
        return tensor.clamp_(a, b)


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """All elements `val`."""
    return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """All zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """All ones."""
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise ValueProblem("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(aten.eye(tensor.dims[0], tensor.dims[1]))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution weight [o, i, ...] that keeps as many channels as it can (per group)."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueProblem("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *kernel = (int(d) for d in tensor.shape)
    if outputs % groups:
        raise ValueProblem("dim 0 must be divisible by groups")
    per_group = outputs // groups
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, inputs)):
                place = (group * per_group + channel, channel, *(k // 2 for k in kernel))
                tensor[place] = 1
    return tensor


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain of a nonlinearity."""
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, (int, float, type(None))):
            raise ValueProblem(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity in gains:
        return gains[nonlinearity]
    if nonlinearity in (
        "linear", "sigmoid", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"
    ):
        return 1.0
    raise ValueProblem(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    dims = [int(d) for d in tensor.shape]
    if len(dims) < 2:
        raise ValueProblem("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(dims[2:])
    return dims[1] * field, dims[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueProblem(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"]


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform with the variance of He et al. (arXiv:1502.01852)."""
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with the variance of He et al. (arXiv:1502.01852)."""
    if _is_empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.dims:
        warn("Initializing zero-element tensors is a no-op")
        return True
    return False


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform with the variance of Glorot and Bengio (2010): gain^2 * 2 / (fan in + fan out)."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with the variance of Glorot and Bengio (2010): gain^2 * 2 / (fan in + fan out)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A random matrix (trailing dims taken as one) with orthonormal rows or columns.
    Source: Saxe et al. (arXiv:1312.6120)."""
    if tensor.ndim < 2:
        raise ValueProblem("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = int(tensor.shape[0])
    columns = int(tensor.numel()) // rows
    with no_grad():
        drawn = aten.randn((max(rows, columns), min(rows, columns)), dtype=tensor.dtype, generator=generator)
        q = _orthonormal_columns(drawn)
        tensor.copy_(aten.reshape(q if rows >= columns else aten.transpose(q, 0, 1), tuple(tensor.dims)))
        return tensor.mul_(gain)


def _orthonormal_columns(matrix: Tensor) -> Tensor:
    """Q of the QR decomposition with positive diagonal of R, which makes it uniform over orthogonal matrices."""
    q, r = np.linalg.qr(matrix.numpy())
    return tensor_around(np.ascontiguousarray(q * np.sign(np.diagonal(r))))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal, with a share `sparsity` of each column set to zero."""
    if tensor.ndim != 2:
        raise ValueProblem("Only tensors with 2 dimensions are supported")
    rows, columns = (int(d) for d in tensor.shape)
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0.0, std, generator)
    with no_grad():
        for column in range(columns):
            chosen = aten.slice(aten.randperm(rows, generator=generator), 0, 0, zeros)
            tensor[chosen, column] = 0
    return tensor


def _old(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An initialiser under the name that it had before PyTorch 0.4."""
    new = function.__name__
    old = new.rstrip("_")

    @functools.wraps(function)
    def named(*args: Any, **kwargs: Any) -> Tensor:
        warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning)
        return function(*args, **kwargs)

    named.__name__ = named.__qualname__ = old
    named.__doc__ = f"The old name of {new}."
    return named


uniform, normal, constant = _old(uniform_), _old(normal_), _old(constant_)
eye, dirac = _old(eye_), _old(dirac_)
xavier_uniform, xavier_normal = _old(xavier_uniform_), _old(xavier_normal_)
kaiming_uniform, kaiming_normal = _old(kaiming_uniform_), _old(kaiming_normal_)
orthogonal, sparse = _old(orthogonal_), _old(sparse_)
