"""Layers' functions under `weft` itself, where their arguments come in another order than in `weft.nn.functional`."""

from __future__ import annotations

import weft.nn.functional as F
from weft.tensor.tensor import Tensor

__all__ = ["batch_norm", "instance_norm"]


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool = False,
) -> Tensor:
    """`nn.functional.batch_norm` with the factors first. cudnn_enabled changes nothing."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = False,
) -> Tensor:
    """`nn.functional.instance_norm` with the factors first. cudnn_enabled changes nothing."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
