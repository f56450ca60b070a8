"""Utilities of training loops."""

from typing import Any

from weft.nn.utils import rnn
from weft.nn.utils.clip import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from weft.nn.utils.fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from weft.nn.utils.making import skip_init
from weft.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from weft.nn.utils.vectors import parameters_to_vector, vector_to_parameters
from weft.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm", "parameters_to_vector", "remove_spectral_norm",
    "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "vector_to_parameters", "weight_norm",
]


def __getattr__(name: str) -> Any:
    """Parametrizations, pruning and stateless are imported when first asked for."""
    import importlib

    if name in ("parametrizations", "parametrize", "prune", "stateless"):
        return importlib.import_module(f"weft.nn.utils.{name}")
    if name in ("convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"):
        return getattr(importlib.import_module("weft.nn.utils.memory_format"), name)
    raise AttributeError(f"module 'weft.nn.utils' has no attribute {name!r}")
