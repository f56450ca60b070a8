"""Tensors as the real numbers that gradcheck compares: their values, seeds made of numbers, random directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.tensor.tensor import Tensor, tensor_around

Array = np.ndarray[Any, Any]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A list or tuple as a tuple, anything else as a tuple of itself."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def differentiable(outputs: Sequence[Any]) -> tuple[Tensor, ...]:
    """The outputs that gradients flow into."""
    return tuple(o for o in outputs if isinstance(o, Tensor) and o.requires_grad and o.dtype.is_differentiable)


def numbers_of(tensor: Tensor) -> Array:
    """The bytes of a tensor as an array of real numbers that shares them."""
    data = tensor.detach().numpy()
    if data.dtype.kind != "c":
        return data
    return np.lib.stride_tricks.as_strided(data.real, (*data.shape, 2), (*data.strides, data.itemsize // 2))


def flat(tensor: Tensor) -> Array:
    """The values as real numbers, float64 [n] (complex: real and imaginary parts side by side)."""
    data = np.array(tensor.detach().numpy())
    if data.dtype.kind == "c":
        data = np.stack([data.real, data.imag], -1)
    return np.asarray(data, np.float64).reshape(-1)


def flat_or_zero(tensor: Tensor | None) -> Any:
    """The values, or 0.0 for no tensor."""
    return 0.0 if tensor is None else flat(tensor)


def seed_of(numbers: Array, out: Tensor) -> Tensor:
    """Real numbers as a tensor of the shape and dtype of `out`."""
    if out.dtype.is_complex:
        pairs = numbers.reshape(*out.shape, 2)
        return tensor_around(np.asarray(pairs[..., 0] + 1j * pairs[..., 1], out.dtype.numpy))
    return tensor_around(np.asarray(numbers.reshape(tuple(out.shape)), out.dtype.numpy))


def random_like(out: Tensor, strided: bool = False) -> Tensor:
    """A random direction for an output, requiring grad."""
    shape = tuple(out.shape)
    random = np.random.default_rng(1)
    data: Array = np.asarray(random.standard_normal(shape))
    if out.dtype.is_complex:
        data = data + 1j * random.standard_normal(shape)
    data = np.asarray(data, out.dtype.numpy)
    if strided and data.ndim:
        data = np.repeat(data[..., None], 2, -1)[..., 0]
    return tensor_around(data).requires_grad_()
