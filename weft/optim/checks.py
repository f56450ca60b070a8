"""Checks of optimizer options, with PyTorch's messages."""

from __future__ import annotations

from typing import Any

from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor


def check_at_least_zero(**options: Any) -> None:
    """Each named option must be zero or greater. Names show as PyTorch writes them, with spaces for underscores.
    Raises ValueProblem."""
    for name, value in options.items():
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ValueProblem("Tensor lr must be 1-element")
        if not value >= 0.0:
            raise ValueProblem(
                f"Invalid {name.replace('_', ' ')} value: {value}" if name != "lr"
                else f"Invalid learning rate: {value}"
            )


def check_betas(betas: Any) -> None:
    """Both betas must lie in [0, 1), and be two numbers or two tensors of one element. Raises ValueProblem."""
    if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
        raise ValueProblem("betas must be either both floats or both Tensors")
    for i in (0, 1):
        if isinstance(betas[i], Tensor) and betas[i].numel() != 1:
            raise ValueProblem(f"Tensor betas[{i}] must be 1-element")
        if not 0.0 <= betas[i] < 1.0:
            raise ValueProblem(f"Invalid beta parameter at index {i}: {betas[i]}")
