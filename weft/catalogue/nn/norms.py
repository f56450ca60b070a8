"""Normalization: layer, group, instance, batch and RMS norm, and vectors of unit length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.catalogue.samples import F, case, draw
from weft.catalogue.widening import cast, widened
from weft.ops.batching import Flags, full_rank, whole
from weft.ops.layout import LIKE_IMAGES, ROW_MAJOR, Follows, channels_last
from weft.ops.op import Op, Out, define, joint
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import dims_text, same_dims
from weft.support.errors import NotForDType, ShapeError, ValueProblem
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

# ---- layer norm


def _check_normalized(
    name: str, input: TensorType, normalized_shape: Sequence[Dim], *affine: tuple[str, TensorType | None]
) -> None:
    count = len(normalized_shape)
    if count == 0:
        raise ShapeError(
            f"{name}: Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            "but got normalized_shape = []"
        )
    if not input.is_complete:
        return
    if input.ndim < count or not same_dims(input.shape[input.ndim - count :], tuple(normalized_shape)):
        raise ShapeError(
            f"Given normalized_shape={dims_text(normalized_shape)}, expected input with shape [*, "
            f"{', '.join(map(str, normalized_shape))}], but got input of size{dims_text(input.shape)}"
        )
    for what, tensor in affine:
        if tensor is not None and tensor.is_complete and not same_dims(tensor.shape, tuple(normalized_shape)):
            raise ShapeError(
                f"Expected {what} to be of same shape as normalized_shape, "
                f"but got {what} of shape {dims_text(tensor.shape)} and normalized_shape = "
                f"{dims_text(normalized_shape)}"
            )


def _layer_norm_type(
    input: TensorType, normalized_shape: Sequence[Dim], weight: TensorType | None, bias: TensorType | None, eps: float
) -> tuple[TensorType, TensorType, TensorType]:
    _check_normalized("layer_norm", input, normalized_shape, ("weight", weight), ("bias", bias))
    if input.dtype is not None and not input.dtype.is_floating_point:
        raise NotForDType(f'"LayerNormKernelImpl" not implemented for {input.dtype}')
    dtype = None if input.dtype is None else dt.compute_dtype(input.dtype)
    if not input.is_complete:
        return input, tensor_type(dtype, None), tensor_type(dtype, None)
    rows = (*input.shape[: input.ndim - len(normalized_shape)], *(1,) * len(normalized_shape))
    return input, tensor_type(dtype, rows, input.device), tensor_type(dtype, rows, input.device)


def _last(count: int) -> list[int]:
    return list(range(-count, 0))


def _layer_norm(
    input: Any, normalized_shape: Sequence[Dim], weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    axes = _last(len(normalized_shape))
    x = widened(input)
    mean = aten.mean(x, axes, True)
    centred = x - mean
    rstd = aten.rsqrt(aten.mean(centred * centred, axes, True) + eps)
    out = centred * rstd
    if weight is not None:
        out = out * widened(weight)
    if bias is not None:
        out = out + widened(bias)
    return cast(out, input.dtype), mean, rstd


def _layer_norm_back(
    gs: Sequence[Any],
    needs: Sequence[bool],
    input: Any,
    normalized_shape: Sequence[Dim],
    weight: Any,
    bias_dims: Any,
    result1: Any,
    result2: Any,
) -> tuple[Any, Any, Any]:
    g, g_mean, g_rstd = gs
    axes = _last(len(normalized_shape))
    scale = dm.product(normalized_shape)
    normal = (widened(input) - result1) * result2
    grad_input = grad_weight = grad_bias = None
    if g is not None:
        g = widened(g)
        if needs[0]:
            inner = g if weight is None else g * widened(weight)
            along = aten.mean(inner, axes, True) + normal * aten.mean(inner * normal, axes, True)
            grad_input = (inner - along) * result2
        if needs[1]:
            grad_weight = aten.sum_to_size(g * normal, normalized_shape)
        if needs[2]:
            grad_bias = aten.sum_to_size(g, bias_dims)
    if needs[0] and g_mean is not None:
        part = g_mean / scale
        grad_input = part if grad_input is None else grad_input + part
    if needs[0] and g_rstd is not None:
        part = normal * (g_rstd * result2 * result2 / -scale)
        grad_input = part if grad_input is None else grad_input + part
    return grad_input, grad_weight, grad_bias


def _layer_norm_batch(
    op: Op, size: Dim, flags: Flags, input: Any, shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    if not flags[2] and not flags[3]:
        return call(op, (input, shape, weight, bias, eps))
    x = input if flags[0] else whole(input, size)
    out, mean, rstd = aten.native_layer_norm(x, shape, None, None, eps)
    rank = x.ndim - 1
    if weight is not None:
        out = out * (full_rank(weight, True, size, rank) if flags[2] else weight)
    if bias is not None:
        out = out + (full_rank(bias, True, size, rank) if flags[3] else bias)
    return out, mean, rstd


native_layer_norm = define(
    "aten::native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
    "-> (Tensor, Tensor, Tensor)",
    "(x - mean) / sqrt(var + eps) over the last dims, times weight, plus bias; and the mean and 1 / sqrt(var + eps).",
    type=_layer_norm_type,
    decompose=_layer_norm,
    vjp=joint(("input", "weight", "bias"), _layer_norm_back),
    batch=_layer_norm_batch, padding=0,
    lies=Follows(lambda *args: (None, None, None)),
    public=("weft",),
    samples=draw(case(F(2, 3, 4), (4,), F(4), F(4), 1e-3), case(F(3, 4), (3, 4), None, None, 1e-3)),
)

define(
    "aten::layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
    "bool cudnn_enable=True) -> Tensor",
    "(x - mean) / sqrt(var + eps) over the last dims, times weight, plus bias.",
    decompose=lambda input, normalized_shape, weight, bias, eps, cudnn_enable: aten.native_layer_norm(
        input, normalized_shape, weight, bias, eps
    )[0],
    padding=0,
    public=("weft", "nn.functional"),
)

# ---- rms norm


def _rms_norm(input: Any, normalized_shape: Sequence[Dim], weight: Any, eps: float | None) -> Any:
    _check_normalized(
        "rms_norm", _type_of(input), normalized_shape, ("weight", None if weight is None else _type_of(weight))
    )
    x = widened(input)
    if eps is None:
        eps = {"float64": 2.220446049250313e-16}.get(x.dtype.name, 1.1920928955078125e-07)
    out = x * aten.rsqrt(aten.mean(x * x, _last(len(normalized_shape)), True) + eps)
    if weight is not None:
        out = out * widened(weight)
    return cast(out, input.dtype)


def _type_of(x: Any) -> TensorType:
    return tensor_type(x.dtype, tuple(x.dims))


define(
    "aten::rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    "x / sqrt(mean(x^2) + eps) over the last dims, times weight.",
    decompose=_rms_norm,
    lies=ROW_MAJOR,
    public=("weft", "nn.functional"),
    samples=draw(case(F(2, 4), (4,), F(4), 1e-3)),
)

# ---- statistics over groups of channels


def _normalized_over(x: Any, axes: Sequence[int], eps: float) -> Any:
    mean = aten.mean(x, axes, True)
    centred = x - mean
    return centred * aten.rsqrt(aten.mean(centred * centred, axes, True) + eps)


def _per_channel(vector: Any, ndim: int) -> Any:
    """A vector over channels, lined up with dim 1."""
    return aten.reshape(widened(vector), tuple(vector.dims[0] if i == 1 else 1 for i in range(ndim)))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        x = x * _per_channel(weight, x.ndim)
    return x if bias is None else x + _per_channel(bias, x.ndim)


def _group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if input.ndim < 2:
        raise ShapeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    batch, channels, *rest = input.dims
    if not shape_env.equal(dm.mod(channels, num_groups), 0):
        raise ShapeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{dims_text(input.dims)} and num_groups={num_groups}"
        )
    for what, vector in (("weight", weight), ("bias", bias)):
        if vector is not None and (vector.ndim != 1 or not shape_env.equal(vector.dims[0], channels)):
            raise ShapeError(
                f"Expected {what} to be a vector of size equal to the number of channels in input, "
                f"but got {what} of shape {dims_text(vector.dims)} and input of shape {dims_text(input.dims)}"
            )
    shape_env.refuse_equal(dm.product(input.dims), num_groups, lambda: ValueProblem(
        f"Expected more than 1 value per channel when training, got input size {dims_text(input.dims)} and "
        f"num_groups={num_groups}"))
    x = widened(input)
    grouped = aten.reshape(x, (batch, num_groups, dm.floordiv(channels, num_groups) * dm.product(rest)))
    out = _affine(aten.reshape(_normalized_over(grouped, [2], eps), tuple(input.dims)), weight, bias)
    return cast(out, input.dtype)


define(
    "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
    "bool cudnn_enabled=True) -> Tensor",
    "Normalization over groups of channels (dim 1) and all places, for each sample.",
    decompose=lambda input, num_groups, weight, bias, eps, cudnn_enabled: _group_norm(
        input, num_groups, weight, bias, eps
    ),
    lies=LIKE_IMAGES,
    public=("weft", "nn.functional"),
    samples=draw(case(F(2, 4, 3), 2, F(4), F(4), 1e-3)),
)


def _batch_norm(input: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """The normalized input, and the mean and (biased) variance of each channel."""
    x = widened(input)
    axes = [i for i in range(x.ndim) if i != 1]
    mean = aten.mean(x, axes, True)
    centred = x - mean
    variance = aten.mean(centred * centred, axes, True)
    out = _affine(centred * aten.rsqrt(variance + eps), weight, bias)
    vector = (input.dims[1],)
    return cast(out, input.dtype), aten.reshape(mean, vector), aten.reshape(variance, vector)


def _batch_norm_type(input: TensorType, *rest: Any) -> tuple[TensorType, TensorType, TensorType]:
    if input.dtype is not None and not input.dtype.is_floating_point:
        raise NotForDType(f'"batch_norm" not implemented for {input.dtype}')
    dtype = None if input.dtype is None else dt.compute_dtype(input.dtype)
    vector = tensor_type(dtype, input.shape[1:2] if input.is_complete else (None,), input.device)
    return input, vector, vector


def _batch_norm_back(
    gs: Sequence[Any], needs: Sequence[bool], input: Any, weight: Any, eps: float, result1: Any, result2: Any
) -> tuple[Any, Any, Any]:
    g, g_mean, g_variance = gs
    x = widened(input)
    axes = [i for i in range(x.ndim) if i != 1]
    centred = x - _per_channel(result1, x.ndim)
    rstd = aten.rsqrt(_per_channel(result2, x.ndim) + eps)
    parts = []
    grad_weight = grad_bias = None
    if g is not None:
        g, normal = widened(g), centred * rstd
        if needs[0]:
            inner = g if weight is None else g * _per_channel(widened(weight), x.ndim)
            along = aten.mean(inner, axes, True) + normal * aten.mean(inner * normal, axes, True)
            parts.append((inner - along) * rstd)
        grad_weight = aten.sum(g * normal, axes) if needs[1] else None
        grad_bias = aten.sum(g, axes) if needs[2] else None
    if needs[0] and not (g_mean is None and g_variance is None):
        count = dm.product([x.dims[i] for i in axes])
        if g_mean is not None:
            parts.append(aten.expand(_per_channel(g_mean, x.ndim) / count, x.dims))
        if g_variance is not None:
            parts.append(centred * (_per_channel(g_variance, x.ndim) * 2 / count))
    return sum(parts[1:], parts[0]) if parts else None, grad_weight, grad_bias


define(
    "aten::batch_norm_train(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    "Normalization of each channel (dim 1) over the batch; also each channel's mean and biased variance, "
    "for the running statistics.",
    node="NativeBatchNormBackward0",
    type=_batch_norm_type,
    decompose=_batch_norm,
    vjp=joint(("input", "weight", "bias"), _batch_norm_back),
    lies=Follows(lambda input, *rest: (channels_last(input), None, None)),
    public=(),
    samples=draw(case(F(3, 2, 4), F(2), F(2), 1e-3)),
)


def _batch_norm_eval(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float) -> Any:
    x = widened(input)
    out = (x - _per_channel(running_mean, x.ndim)) * aten.rsqrt(_per_channel(running_var, x.ndim) + eps)
    return cast(_affine(out, weight, bias), input.dtype)


define(
    "aten::batch_norm_eval(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
    "float eps) -> Tensor",
    "Normalization of each channel (dim 1) by given statistics.",
    decompose=_batch_norm_eval,
    lies=LIKE_IMAGES,
    public=(),
)


def _normalize(input: Any, p: Any, dim: Any, eps: float) -> Any:
    length = aten.linalg_vector_norm(input, p, dim, True)
    return input / aten.expand_as(aten.clamp_min(length, eps), input)


define(
    "nn::normalize(Tensor input, float p=2.0, int[1]? dim=1, float eps=1e-12) -> Tensor",
    "Vectors along dim divided by their p-norm, which counts as at least eps.",
    decompose=_normalize,
    out=Out("castable"),
    public=("nn.functional",),
)

