"""Batch and instance norm as nn.functional has them: the running statistics are written in place."""

from __future__ import annotations

from typing import Any

from weft.catalogue.widening import cast
from weft.ops.layout import ROW_MAJOR
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.runtime.undivided import undivided
from weft.support.errors import ShapeError, ValueProblem
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim

_STATISTICS = "Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None"


def _update(running: Any, statistic: Any, momentum: float, count: Dim = 1) -> None:
    """running <- (1 - momentum) * running + momentum * statistic, outside of any history; as it is where the statistic
    is of `count` = 0 numbers, which only the run may find."""
    if running is not None:
        following = aten.lerp(running, aten.to(statistic.detach(), running.dtype), momentum)
        is_known = shape_env.is_known(count)
        running.copy_(following if is_known else aten.where(aten.scalar_tensor(count) > 0, following, running))


def _of_nothing(input: Any, weight: Any, bias: Any) -> Any:
    """An empty input normalized: weight and bias get zeros for gradients."""
    if input.ndim < 2:
        return aten.clone(input)
    across = (1, -1, *(1,) * (input.ndim - 2))
    out = input if weight is None else input * aten.reshape(weight, across)
    out = out if bias is None else out + aten.reshape(bias, across)
    return aten.clone(input) if out is input else cast(out, input.dtype)


def _batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    if shape_env.is_zero(dm.product(input.dims)):
        return _of_nothing(input, weight, bias)
    if input.ndim < 2:
        raise ShapeError(f"batch_norm: expected at least 2D input, got {dims_text(input.dims)}")
    for name, vector in (
        (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias))
    ):
        if vector is not None and not shape_env.equal(vector.dims[0], input.dims[1]):
            raise ShapeError(f"{name} should contain {input.dims[1]} elements not {vector.dims[0]}")
    if not training:
        if running_mean is None or running_var is None:
            raise ShapeError("Expected running_mean and running_var to be defined when training=False")
        return aten.batch_norm_eval(input, weight, bias, running_mean, running_var, eps)
    count = dm.floordiv(dm.product(input.dims), input.dims[1])
    shape_env.refuse_equal(count, 1, lambda: ValueProblem(  # (none at all have been dealt with, if that is known)
        f"Expected more than 1 value per channel when training, got input size {dims_text(input.dims)}"))
    with undivided():
        out, mean, variance = aten.batch_norm_train(input, weight, bias, eps)
        _update(running_mean, mean, momentum, count)
        if running_var is not None:
            _update(running_var, variance * count / (count - 1), momentum, count)
    return out


define(
    "nn::batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, "
    "bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
    "Normalization of each channel (dim 1) by the batch's statistics (training, which also updates the running ones "
    "in place) or by the running ones.",
    decompose=_batch_norm,
    public=("nn.functional",),
)


def _instance_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any,
    use_input_stats: bool, momentum: float, eps: float,
) -> Any:
    if input.ndim < 2:
        raise ShapeError(f"instance_norm: expected at least 2D input, got {dims_text(input.dims)}")
    if not use_input_stats:
        return _batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    batch, channels, *spatial = input.dims
    count = dm.product(spatial)
    shape_env.refuse_equal(count, 1, lambda: ValueProblem(
        f"Expected more than 1 spatial element when training, got input size {dims_text(input.dims)}"))
    with undivided():
        rows = aten.reshape(input, (1, batch * channels, *spatial))
        out, mean, variance = aten.batch_norm_train(rows, None, None, eps)
        out = aten.reshape(out, tuple(input.dims))
        lined = tuple(channels if i == 1 else 1 for i in range(input.ndim))
        if weight is not None:
            out = out * aten.reshape(weight, lined)
        if bias is not None:
            out = out + aten.reshape(bias, lined)
        by_sample = (batch, channels)
        if running_mean is not None:
            _update(running_mean, aten.mean(aten.reshape(mean, by_sample), 0), momentum)
        if running_var is not None:
            unbiased = aten.reshape(variance, by_sample) * count / (count - 1)
            _update(running_var, aten.mean(unbiased, 0), momentum)
    return out


define(
    f"nn::instance_norm(Tensor input, {_STATISTICS}, bool use_input_stats=True, float momentum=0.1, "
    "float eps=1e-05) -> Tensor",
    "Normalization of each channel of each sample over its places.",
    decompose=_instance_norm,
    lies=ROW_MAJOR,
    public=("nn.functional",),
)
