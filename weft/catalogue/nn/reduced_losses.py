"""Losses that have one node each: a value for each element, and its sum or mean. What users call (losses.py) checks
arguments and ends here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weft.catalogue.families import pointwise
from weft.catalogue.samples import F, P, case, draw
from weft.catalogue.widening import cast, widened
from weft.ops.op import NOT_DIFFERENTIABLE, Rule, define
from weft.ops.packet import aten
from weft.ops.rules import broadcast_dims
from weft.support.errors import NotForDType, ValueProblem
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.promotion import promote
from weft.types.tensor_type import TensorType, tensor_type


def reduced(loss: Any, reduction: str) -> Any:
    """The mean or the sum of losses, or all of them."""
    if reduction == "mean":
        return aten.mean(loss)
    return aten.sum(loss) if reduction == "sum" else loss


def _share(g: Any, reduction: str, *dims: tuple[Dim, ...]) -> Any:
    """The part of the gradient that goes to each element."""
    return g / dm.product(broadcast_dims("loss", list(dims))) if reduction == "mean" else g


def _float(base: str, input: Any, target: Any) -> dt.DType:
    """The joint dtype. Raises NotForDType unless it is of floats."""
    dtype = promote(input.dtype, target.dtype)
    if not dtype.is_floating_point:
        raise NotForDType(f'"{base}" not implemented for {dtype}')
    return dtype


def _loss_type(base: str, input: TensorType, target: TensorType, reduction: str) -> TensorType:
    if reduction not in ("none", "mean", "sum"):
        raise ValueProblem(f"{reduction} is not a valid value for reduction")
    dtype = None if input.dtype is None or target.dtype is None else _float(base, input, target)
    if not (input.is_complete and target.is_complete):
        return tensor_type(dtype, None if reduction == "none" else ())
    each = tensor_type(dtype, broadcast_dims("loss", [input.shape, target.shape]), input.device)
    if reduction == "none":
        return each
    return tensor_type(dtype, (), input.device)


def _loss(
    base: str, more: str, doc: str, each: Rule, vjp: Mapping[str, Rule], samples: Callable[..., Any],
    reference: Rule,
) -> None:
    """An entry whose `each(self, target, *more)` is reduced."""

    def decompose(self: Any, target: Any, *rest: Any) -> Any:
        dtype = _float(base, self, target)
        return reduced(cast(each(widened(self), widened(target), *rest[:-1]), dtype), rest[-1])

    arguments = f"Tensor self, Tensor target, {more}" if more else "Tensor self, Tensor target"
    define(
        f'aten::{base}({arguments}, *, str reduction="mean") -> Tensor',
        doc,
        precision="float32",
        type=lambda self, target, *rest: _loss_type(base, self, target, rest[-1]),
        decompose=decompose,
        vjp=vjp,
        public=(),
        samples=samples,
        reference=lambda *args: _reduced_array(reference(*args[:-1]), args[-1]),
    )


def _reduced_array(loss: Any, reduction: str) -> Any:
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# ---- differences


def _square(self: Any, target: Any) -> Any:
    difference = self - target
    return difference * difference


def _of_square(g: Any, self: Any, target: Any, reduction: str) -> Any:
    return (self - target) * _share(g * 2, reduction, self.dims, target.dims)


_PAIR = (F(3, 4), F(3, 4))
_loss(
    "mse_loss", "", "(self - target)^2.", _square,
    {
        "self": _of_square,
        "target": lambda g, self, target, reduction: -_of_square(g, self, target, reduction),
    },
    draw(case(*_PAIR), case(*_PAIR, reduction="none"), case(F(3, 4), F(4), reduction="sum")),
    lambda x, y: (x - y) ** 2,
)


def _unless(condition: Any, x: Any) -> Any:
    """x, and 0 where the other branch is taken: its infinities then reach no gradient of this one."""
    return aten.where(condition, 0, x)


def _smooth_l1(self: Any, target: Any, beta: float) -> Any:
    size = aten.abs(self - target)
    if isinstance(beta, (int, float)) and beta == 0:
        return size
    is_far = size >= beta
    near = _unless(is_far, size)
    return aten.where(is_far, size - 0.5 * beta, near * near * (0.5 / beta))


def _of_smooth_l1(g: Any, self: Any, target: Any, beta: Any, reduction: str) -> Any:
    difference, share = self - target, _share(g, reduction, self.dims, target.dims)
    if isinstance(beta, (int, float)) and beta == 0:
        return aten.sign(difference) * share
    is_far = aten.abs(difference) >= beta
    return aten.where(is_far, aten.sign(difference), _unless(is_far, difference) / beta) * share


_loss(
    "smooth_l1_loss", "float beta=1.0",
    "Half the squared difference over beta where it is below beta, else the difference less beta / 2.", _smooth_l1,
    {
        "self": _of_smooth_l1,
        "target": lambda g, self, target, beta, reduction: -_of_smooth_l1(g, self, target, beta, reduction),
    },
    draw(case(*_PAIR), case(*_PAIR, 0.3, reduction="none"), case(F(3, 4), F(4), 0.5, reduction="sum")),
    lambda x, y, beta: np.where(abs(x - y) >= beta, abs(x - y) - beta / 2, (x - y) ** 2 / 2 / beta),
)


def _huber(self: Any, target: Any, delta: float) -> Any:
    size = aten.abs(self - target)
    is_far = size > delta
    near = _unless(is_far, size)
    return aten.where(is_far, (size - 0.5 * delta) * delta, near * near * 0.5)


def _of_huber(g: Any, self: Any, target: Any, delta: Any, reduction: str) -> Any:
    difference = self - target
    is_far = aten.abs(difference) > delta
    slope = aten.where(is_far, aten.sign(difference) * delta, _unless(is_far, difference))
    return slope * _share(g, reduction, self.dims, target.dims)


_loss(
    "huber_loss", "float delta=1.0",
    "Half the squared difference where it is at most delta, else delta times (difference - delta / 2).", _huber,
    {
        "self": _of_huber,
        "target": lambda g, self, target, delta, reduction: -_of_huber(g, self, target, delta, reduction),
    },
    draw(case(*_PAIR), case(*_PAIR, 0.3, reduction="none"), case(F(3, 4), F(4), 0.5, reduction="sum")),
    lambda x, y, delta: np.where(abs(x - y) > delta, (abs(x - y) - delta / 2) * delta, (x - y) ** 2 / 2),
)

# ---- two classes


def _bce(s: Any, x: Any, t: Any) -> Any:
    one, least = s.const(1, s.dtype(x)), s.const(-100, s.dtype(x))
    on, off = s.maximum(s.log(x), least), s.maximum(s.log1p(s.neg(x)), least)
    return s.sub(s.mul(s.sub(t, one), off), s.mul(t, on))


pointwise(
    "aten::_binary_cross_entropy(Tensor self, Tensor target) -> Tensor",
    "-(t log(x) + (1 - t) log(1 - x)), logarithms not below -100.",
    scalar=_bce,
    accepts=lambda d: d.is_floating_point,
    wants="floating point tensors",
    numbers=False,
    inplace=False,
    out=False,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
    samples=draw(case(P(3, 4), P(3, 4))),
    reference=lambda x, t: -(t * np.log(x) + (1 - t) * np.log1p(-x)),
)


def _of_bce(g: Any, self: Any, target: Any, reduction: str) -> Any:
    """With PyTorch's floor under the denominator."""
    slope = (self - target) / aten.clamp_min((1 - self) * self, 1e-12)
    return slope * _share(g, reduction, self.dims)


def _of_bce_target(g: Any, self: Any, reduction: str) -> Any:
    slope = aten.clamp_min(aten.log1p(-self), -100) - aten.clamp_min(aten.log(self), -100)
    return slope * _share(g, reduction, self.dims)


_PROBABILITIES = (P(3, 4), P(3, 4))
_loss(
    "binary_cross_entropy", "", "-(t log(x) + (1 - t) log(1 - x)), logarithms not below -100.",
    lambda self, target: aten._binary_cross_entropy(self, target),
    {"self": _of_bce, "target": _of_bce_target},
    draw(case(*_PROBABILITIES), case(*_PROBABILITIES, reduction="none"), case(*_PROBABILITIES, reduction="sum")),
    lambda x, t: -(t * np.log(x) + (1 - t) * np.log1p(-x)),
)
_loss(
    "binary_cross_entropy_with_logits", "", "Binary cross entropy of sigmoid(self), exact for large |self|.",
    lambda self, target: (1 - target) * self - aten.log_sigmoid(self),
    {
        "self": lambda g, self, target, reduction: (aten.sigmoid(self) - target) * _share(g, reduction, self.dims),
        "target": lambda g, self, reduction: -self * _share(g, reduction, self.dims),
    },
    draw(case(F(3, 4), P(3, 4)), case(F(3, 4), P(3, 4), reduction="sum")),
    lambda x, t: (1 - t) * x + np.log1p(np.exp(-x)),
)
_loss(
    "soft_margin_loss", "", "log(1 + exp(-target * self)).",
    lambda self, target: -aten.log_sigmoid(target * self),
    {
        "self": lambda g, self, target, reduction: -target * aten.sigmoid(-target * self) * _share(
            g, reduction, self.dims, target.dims
        ),
        "target": lambda g, self, target, reduction: -self * aten.sigmoid(-target * self) * _share(
            g, reduction, self.dims, target.dims
        ),
    },
    draw(case(*_PAIR), case(*_PAIR, reduction="none")),
    lambda x, t: np.log1p(np.exp(-t * x)),
)

# ---- many classes


def _nll_type(self: TensorType, target: TensorType, ignore_index: int, reduction: str) -> TensorType:
    if self.dtype is not None:
        _float("nll_loss", self, self)
    return tensor_type(self.dtype, target.dims if reduction == "none" else (), self.device)


def _nll(self: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    _float("nll_loss", self, self)
    return picked(self, target, None, ignore_index, reduction)


def picked(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """-input at each target, weighted; ignored targets count as nothing."""
    ignored, safe = _classes(target, ignore_index)
    dim = min(input.ndim - 1, 1)
    loss = -aten.squeeze(aten.gather(input, dim, aten.unsqueeze(safe, dim)), dim)
    counted = None
    if weight is not None:
        counted = aten.masked_fill(aten.index(weight, (safe,)), ignored, 0)
        loss = loss * counted
    loss = aten.masked_fill(loss, ignored, 0)
    if reduction != "mean":
        return reduced(loss, reduction)
    return aten.sum(loss) / (_count(ignored, input.dtype) if counted is None else cast(aten.sum(counted), input.dtype))


def _classes(target: Any, ignore_index: int) -> tuple[Any, Any]:
    """Of each target whether it is ignored, and its class (0 for those)."""
    target = cast(target, dt.int64)
    ignored = target == ignore_index
    return ignored, aten.masked_fill(target, ignored, 0)


def _count(ignored: Any, dtype: Any) -> Any:
    return cast(aten.sum(aten.logical_not(ignored)), dtype)


def _of_nll(g: Any, self_dims: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    ignored, safe = _classes(target, ignore_index)
    dim = min(len(self_dims) - 1, 1)
    share = -(g / _count(ignored, g.dtype) if reduction == "mean" else g)
    each = aten.masked_fill(aten.expand(share, safe.dims), ignored, 0)
    return aten.scatter_add(aten.new_zeros(each, self_dims), dim, aten.unsqueeze(safe, dim), aten.unsqueeze(each, dim))


for _base in ("nll_loss", "nll_loss2d"):
    define(
        f'aten::{_base}(Tensor self, Tensor target, int ignore_index=-100, *, str reduction="mean") -> Tensor',
        "Minus the log-probability of each target class; ignored targets count as nothing.",
        precision="float32",
        type=_nll_type,
        decompose=_nll,
        effect="raises",
        vjp={"self": _of_nll},
        public=(),
    )
