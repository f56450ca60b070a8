"""Draws with parameters: bernoulli, uniform, normal, exponential, random, multinomial, and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.catalogue.creation.factories import checked_size
from weft.catalogue.pointwise.arithmetic import add
from weft.catalogue.random.factories import (
    OPTIONS,
    fills,
    float_dtype,
    normal_values,
    uniform_values,
    whole_like,
)
from weft.ops.op import Out, define
from weft.ops.packet import aten
from weft.support.errors import NotForDType, StateError
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

Dims = tuple[Dim, ...]


def _bernoulli_type(self: TensorType, generator: Any) -> TensorType:
    if self.dtype is not None and not self.dtype.is_floating_point:
        raise NotForDType(f"bernoulli: not implemented for {self.dtype}; the probabilities are floating point numbers")
    return self


_CHOSEN = "1 where a choice was made, else 0, with self's dtype; gradients of zeros for self and for the probabilities."
define(
    "aten::_chosen(Tensor self, Tensor holds) -> Tensor", _CHOSEN,
    type=lambda self, holds: self,
    decompose=lambda self, holds: aten._to_copy(holds, dtype=self.dtype),
    vjp={"self": lambda g: aten.zeros_like(g)},
    public=(),
    node="BernoulliBackward0",
)
define(
    "aten::_chosen.Tensor(Tensor self, Tensor holds, Tensor p) -> Tensor", _CHOSEN,
    type=lambda self, holds, p: self,
    decompose=lambda self, holds, p: aten._to_copy(holds, dtype=self.dtype),
    vjp={"self": lambda g: aten.zeros_like(g), "p": lambda g, p_dims: aten.new_zeros(g, p_dims)},
    public=(),
    node="BernoulliBackward1",
)


def _bernoulli(self: Any, probability: Any, generator: Any, p: Any = None) -> Any:
    """1 where a uniform number falls below the probability (compared in float64 for float64, else in float32).
    p: the argument that it is, where that is another one than self."""
    precision = dt.float64 if self.dtype is dt.float64 else dt.float32
    holds = aten.lt(uniform_values(self.dims, precision, generator), probability)
    return aten._chosen(self, holds) if p is None else aten._chosen(self, holds, p)


def _probability(p: Any) -> Any:
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise StateError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return p


def _probabilities(p: Any) -> Any:
    return aten._checked_values(p, 0, 1, "bernoulli: expected every p to be in [0, 1]")


define(
    "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
    "1 with the probability that self's element gives, else 0.",
    type=_bernoulli_type,
    decompose=lambda self, generator: _bernoulli(self, _probabilities(self), generator),
    effect="random",
    out=Out("any"),
)
define(
    "aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
    "1 with the probability given by p's element, else 0, with self's dtype.",
    type=lambda self, p, generator: self,
    decompose=lambda self, p, generator: _bernoulli(self, _probabilities(p), generator, p),
    effect="random",
    inplace=True,
)
define(
    "aten::bernoulli.p(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor",
    "1 with probability p, else 0, with self's size and dtype.",
    type=lambda self, p, generator: self,
    decompose=lambda self, p, generator: _bernoulli(self, _probability(p), generator),
    effect="random",
    inplace=True,
)


def _scaled_uniform(self: Any, low: Any, high: Any, generator: Any) -> Any:
    if isinstance(low, float) and isinstance(high, float) and low > high:
        raise StateError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    if self.dtype.category <= dt.INT:
        raise NotForDType(f'"uniform_" not implemented for {self.dtype}; it takes floating point and complex tensors')
    drawn = uniform_values(self.dims, self.dtype, generator)
    return drawn if low == 0.0 and high == 1.0 else aten._to_copy(drawn * (high - low) + low, dtype=self.dtype)


def _scaled_normal(size: Dims, mean: Any, std: Any, dtype: DType, generator: Any) -> Any:
    if isinstance(std, float) and std < 0:
        raise StateError(f"normal expects std >= 0.0, but found std {std}")
    return aten._to_copy(normal_values(size, dtype, generator) * std + mean, dtype=dtype)


def _exponential(self: Any, lambd: Any, generator: Any) -> Any:
    if isinstance(lambd, float) and not lambd > 0:
        raise StateError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    if not self.dtype.is_floating_point:
        raise NotForDType(f'"exponential_" not implemented for {self.dtype}; it takes floating point tensors')
    # a uniform number of 8 or 11 bits would end the tail early, and be 0 too often
    precision = dt.float64 if self.dtype is dt.float64 else dt.float32
    return aten._to_copy(aten.log1p(-uniform_values(self.dims, precision, generator)) / -lambd, dtype=self.dtype)


fills(
    "uniform(float from=0.0, float to=1.0)", "Random numbers, uniform in [from, to), with self's size and dtype.",
    _scaled_uniform,
)
define(
    "aten::_drawn(Tensor self) -> Tensor",
    "Random numbers; the gradient of the parameters that they were drawn with is zero.",
    type=lambda self: self,
    decompose=lambda self: aten.clone(self),
    vjp={"self": lambda g: aten.zeros_like(g)},
    reference=lambda self: self.copy(),
    public=(),
    node="NormalBackward0",
)


def _normal(mean: Any, std: Any, generator: Any) -> Any:
    like = std if isinstance(mean, (int, float)) else mean
    dims = like.dims if isinstance(std, (int, float)) or like is std else (mean + std).dims
    return aten._drawn(_scaled_normal(dims, mean, std, like.dtype, generator))


define(
    "aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
    "Normal random numbers with the means and standard deviations of two tensors.",
    type=lambda mean, std, generator: tensor_type(
        mean.dtype, add.type(mean, std, 1).dims, mean.device),  # type: ignore[misc]
    decompose=_normal,
    effect="random",
    public=("weft",),
)
define(
    "aten::normal.Tensor_float(Tensor mean, float std=1.0, *, Generator? generator=None) -> Tensor",
    "Normal random numbers with the means of a tensor and one standard deviation.",
    type=lambda mean, std, generator: mean,
    decompose=_normal,
    effect="random",
    public=("weft",),
)
define(
    "aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
    "Normal random numbers with one mean and the standard deviations of a tensor.",
    type=lambda mean, std, generator: std,
    decompose=_normal,
    effect="random",
    public=("weft",),
)
define(
    f"aten::normal.float_float(float mean, float std, int[] size, *, {OPTIONS}) -> Tensor",
    "A tensor of normal random numbers with one mean and one standard deviation.",
    type=lambda mean, std, size, dtype, device, generator: tensor_type(
        float_dtype("normal", dtype), checked_size("normal", size)
    ),
    decompose=lambda mean, std, size, dtype, device, generator: _scaled_normal(
        checked_size("normal", size), mean, std, float_dtype("normal", dtype), generator),
    effect="random",
    public=("weft",),
)
fills(
    "normal.self(float mean=0.0, float std=1.0)", "Normal random numbers with self's size and dtype.",
    lambda self, mean, std, generator: _scaled_normal(self.dims, mean, std, self.dtype, generator),
)
fills(
    "exponential(float lambd=1.0)",
    "Exponentially distributed random numbers with rate `lambd`, with self's size and dtype.",
    _exponential,
)
fills(
    "random.from(int from, int? to)",
    "Random integers in [from, to), with self's size and dtype; without `to`, up to the largest that the dtype "
    "holds exactly.",
    lambda self, low, high, generator: whole_like(
        self, low, _largest_whole(self.dtype) if high is None else high, None, generator
    ),
)


def _largest_whole(dtype: DType) -> int:
    """What random_() draws up to: the integers that the dtype holds exactly."""
    if dtype.is_floating_point:
        return {dt.float16: 2**11, dt.bfloat16: 2**8, dt.float32: 2**24, dt.float64: 2**53}[dtype] + 1
    return 2 if dtype is dt.bool_ else int(np.iinfo(dtype.numpy).max) + 1


fills(
    "random.to(int to)", "Random integers in [0, to), with self's size and dtype.",
    lambda self, to, generator: whole_like(self, 0, to, None, generator),
)
fills(
    "random()", "Random integers from 0 to the largest that self's dtype holds exactly.",
    lambda self, generator: whole_like(self, 0, _largest_whole(self.dtype), None, generator),
)


# ---- what networks draw
def _dropout(self: Any, p: Any, train: bool, generator: Any = None) -> Any:
    """Zero with probability p, the rest over (1 - p). Backward keeps the mask: one byte an element."""
    # a lifted number answers, and the answer is guarded
    if isinstance(p, (int, float)) or hasattr(type(p), "__weft_number__"):
        if not 0 <= p <= 1:
            raise StateError(f"dropout probability has to be between 0 and 1, but got {p}")
        if not train or p == 0:
            return self
        if p == 1:
            return self * aten.zeros_like(self)
    elif not train:
        return self
    kept = aten.ge(uniform_values(self.dims, dt.float32, generator), p)
    return self * kept * (1.0 / (1.0 - p))


define(
    "aten::dropout(Tensor input, float p, bool train) -> Tensor",
    "The input with each element zeroed with probability p and the others divided by 1 - p; "
    "the input itself when not training.",
    type=lambda input, p, train: input,
    decompose=_dropout,
    effect="random",
    inplace=True,
    public=("weft",),
)


def _multinomial_type(self: TensorType, num_samples: int, replacement: bool, generator: Any) -> TensorType:
    if not self.dims or len(self.dims) > 2:
        raise StateError("prob_dist must be 1 or 2 dim")
    shape_env.refuse_less(num_samples, 1, lambda: StateError("cannot sample n_sample <= 0 samples"))
    categories = self.shape[-1]
    if not replacement:
        shape_env.refuse_less(categories, num_samples, lambda: StateError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"))
    return tensor_type(dt.int64, (*self.dims[:-1], num_samples), self.device)


def _multinomial(self: Any, num_samples: int, replacement: bool, generator: Any) -> Any:
    """Without replacement: the largest p / e with exponential noise e. With: a search in the cumulative sums."""
    dtype = dt.float64 if self.dtype is dt.float64 else dt.float32
    limits = np.finfo(dtype.numpy)
    weights = aten._checked_values(
        aten.to(self, dtype), 0, float(limits.max), "multinomial: a probability is inf, nan or negative"
    )
    sums = aten._checked_values(
        aten.sum(weights, -1), float(limits.tiny), None, "multinomial: the probabilities of a row sum to 0"
    )
    weights = weights * aten.unsqueeze(aten.gt(sums, 0), -1)  # times 1: nobody takes the weights without the check
    if not replacement:
        noise = -aten.log1p(-uniform_values(self.dims, dtype, generator))
        return aten.topk(weights / noise, num_samples, -1)[1]
    steps = aten.cumsum(weights, -1)
    total = aten.slice(steps, -1, -1)
    drawn = uniform_values((*self.dims[:-1], num_samples), dtype, generator) * total
    below = aten.le(aten.unsqueeze(steps, -2), aten.unsqueeze(drawn, -1))
    return aten.clamp_max(aten.sum(below, -1), self.dims[-1] - 1)


define(
    "aten::multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
    "Indices drawn from each row with probabilities in proportion to its elements.",
    type=_multinomial_type,
    decompose=_multinomial,
    effect="random",
    out=True,
)
