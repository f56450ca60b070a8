"""Random numbers. A public entry draws (key, offset) from a generator, in Python's call order, and opens to a pure inner entry.

So a draw is a function of (key, counter) alone: eager, captured and lazy programs, and any split of the work, give the same numbers. The
offset advances by the number of elements, also where nothing uses the result. The pure inner entries (`_uniform`, `_normal`, ...) are pointwise
over a tensor of counters; their bodies are in draws.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.catalogue import draws
from weft.catalogue.pointwise import add
from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise, dims_text
from weft.ops.schema import parse_schema
from weft.runtime.generator import Generator, default_generator
from weft.support.errors import NotForDType, ShapeError, StateError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

Dims = tuple[Dim, ...]


# ---- pure inner entries
class _Drawn(Pointwise):
    """The rule of draws: integers in, the dtype asked for out."""

    def compute_dtype(self, args: tuple[Any, ...]) -> DType:
        return dt.int64

    def result_dtype(self, args: tuple[Any, ...]) -> DType:
        return next((a for a in args if isinstance(a, DType)), dt.int64)


def _inner(schema: str, doc: str, body: Callable[..., Any]) -> Op:
    parsed = parse_schema(schema)
    return define(parsed, doc, type=_Drawn(parsed), scalar=body, vjp=NOT_DIFFERENTIABLE, public=())


random_bits = _inner(
    "aten::_random_bits(Tensor counter, Scalar key, int width=64) -> Tensor",
    "32 or 64 random bits for each counter, as int64.",
    draws.random_bits,
)
uniform_at = _inner(
    "aten::_uniform(Tensor counter, Scalar key, *, ScalarType dtype) -> Tensor",
    "A number in [0, 1) for each counter, a multiple of 2**-24 in float32, 2**-53 in float64, 2**-11 in float16, 2**-8 in bfloat16.",
    draws.uniform,
)
normal_at = _inner(
    "aten::_normal(Tensor counter, Scalar key, *, ScalarType dtype) -> Tensor",
    "A standard normal number for each counter.",
    draws.normal,
)
integer_at = _inner(
    "aten::_random_integer(Tensor counter, Scalar key, Scalar low, Scalar high) -> Tensor",
    "An integer in [low, high) for each counter, as int64.",
    draws.integer,
)


transforms: list[Callable[[Callable[[Sequence[Dim]], Any], Sequence[Dim]], Any]] = []  # who may draw in another size: vmap draws for all examples at once


def draw(make: Callable[[Any, Dim], Any], size: Sequence[Dim], generator: Generator | None) -> Any:
    """Take as many counters as `size` has elements and show `make(counters, key)` with that size."""
    for transform in transforms:
        drawn = transform(lambda dims: draw(make, dims, generator), size)
        if drawn is not None:
            return drawn
    which = default_generator if generator is None else generator
    numel = dm.product(size)
    key, offset = which.advance(numel)
    counters = aten.add(aten._iota(numel), offset)
    return aten.reshape(make(counters, key), tuple(size))


def _float_dtype(name: str, dtype: DType | None) -> DType:
    found = dt.get_default() if dtype is None else dtype
    if not found.is_floating_point and not found.is_complex:
        raise NotForDType(f"\"{name}\" not implemented for '{found}'")
    return found


def _uniform(size: Sequence[Dim], dtype: DType, generator: Generator | None) -> Any:
    if dtype.is_complex:  # both parts uniform
        return aten.complex(_uniform(size, dtype.to_real(), generator), _uniform(size, dtype.to_real(), generator))
    return draw(lambda counters, key: aten._uniform(counters, key, dtype=dtype), size, generator)


def _normal(size: Sequence[Dim], dtype: DType, generator: Generator | None) -> Any:
    if dtype.is_complex:  # each part has half of the variance
        return aten.complex(_normal(size, dtype.to_real(), generator), _normal(size, dtype.to_real(), generator)) * math.sqrt(0.5)
    return draw(lambda counters, key: aten._normal(counters, key, dtype=dtype), size, generator)


def _integers(size: Sequence[Dim], low: Any, high: Any, dtype: DType, generator: Generator | None) -> Any:
    drawn = draw(lambda counters, key: aten._random_integer(counters, key, low, high), size, generator)
    return drawn if dtype is dt.int64 else aten._to_copy(drawn, dtype=dtype)


# ---- public factories
_OPTIONS = "ScalarType? dtype=None, Device? device=None, Generator? generator=None"
_LIKE = "ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None, Generator? generator=None"


def _checked(name: str, size: Sequence[Dim]) -> Dims:
    if any(isinstance(d, int) and d < 0 for d in size):
        raise ShapeError(f"{name}: Trying to create tensor with negative dimension: {dims_text(size)}")
    return tuple(size)


def _factory(name: str, words: str, make: Callable[..., Any]) -> None:
    """`name` and `name_like`."""
    define(
        f"aten::{name}(int[] size, *, {_OPTIONS}) -> Tensor",
        f"A tensor of {words}.",
        type=lambda size, dtype, device, generator: tensor_type(_float_dtype(name, dtype), _checked(name, size)),
        decompose=lambda size, dtype, device, generator: make(_checked(name, size), _float_dtype(name, dtype), generator),
        effect="random",
        out=True,
        public=("weft",),
    )
    define(
        f"aten::{name}_like(Tensor self, *, {_LIKE}) -> Tensor",
        f"A tensor of self's size, of {words}.",
        type=lambda self, dtype, *rest: self.with_dtype(_float_dtype(name, dtype or self.dtype)),
        decompose=lambda self, dtype, device, memory_format, generator: make(
            self.dims, _float_dtype(name, dtype or self.dtype), generator),
        effect="random",
        public=("weft",),
    )


_factory("rand", "random numbers, uniform in [0, 1)", _uniform)
_factory("randn", "standard normal random numbers", _normal)


def _check_range(low: Any, high: Any) -> None:
    if isinstance(low, int) and isinstance(high, int) and low >= high:
        raise StateError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")


def _randint(low: Any, high: Any, size: Sequence[Dim], dtype: DType | None, device: Any, generator: Any) -> Any:
    _check_range(low, high)
    return _integers(_checked("randint", size), low, high, dtype or dt.int64, generator)


def _randint_type(low: Any, high: Any, size: Sequence[Dim], dtype: DType | None, device: Any, generator: Any) -> TensorType:
    _check_range(low, high)
    return tensor_type(dtype or dt.int64, _checked("randint", size))


define(
    f"aten::randint.low(int low, int high, int[] size, *, {_OPTIONS}) -> Tensor",
    "Random integers in [low, high).",
    type=_randint_type,
    decompose=_randint,
    effect="random",
    out=True,
    public=("weft",),
)
define(
    f"aten::randint(int high, int[] size, *, {_OPTIONS}) -> Tensor",
    "Random integers in [0, high).",
    type=lambda high, *rest: _randint_type(0, high, *rest),
    decompose=lambda high, *rest: _randint(0, high, *rest),
    effect="random",
    out=True,
    public=("weft",),
)


def _randint_like(self: Any, low: Any, high: Any, dtype: DType | None, generator: Any) -> Any:
    _check_range(low, high)
    return _integers(self.dims, low, high, dtype or self.dtype, generator)


define(
    f"aten::randint_like.low(Tensor self, int low, int high, *, {_LIKE}) -> Tensor",
    "Random integers in [low, high), with self's size and dtype.",
    type=lambda self, low, high, dtype, *rest: self.with_dtype(dtype or self.dtype),
    decompose=lambda self, low, high, dtype, device, memory_format, generator: _randint_like(self, low, high, dtype, generator),
    effect="random",
    public=("weft",),
)
define(
    f"aten::randint_like(Tensor self, int high, *, {_LIKE}) -> Tensor",
    "Random integers in [0, high), with self's size and dtype.",
    type=lambda self, high, dtype, *rest: self.with_dtype(dtype or self.dtype),
    decompose=lambda self, high, dtype, device, memory_format, generator: _randint_like(self, 0, high, dtype, generator),
    effect="random",
    public=("weft",),
)


def _randperm(n: Dim, dtype: DType | None, device: Any, generator: Any) -> Any:
    """The order that sorts random 64-bit numbers (ties, of probability n**2 / 2**65, stay in order)."""
    bits = draw(lambda counters, key: aten._random_bits(counters, key, 64), (n,), generator)
    order = aten.argsort(bits, stable=True)
    return order if dtype in (None, dt.int64) else aten._to_copy(order, dtype=dtype)


define(
    f"aten::randperm(int n, *, {_OPTIONS}) -> Tensor",
    "A random permutation of 0, 1, ..., n - 1.",
    type=lambda n, dtype, *rest: tensor_type(dtype or dt.int64, _checked("randperm", (n,))),
    decompose=lambda n, dtype, device, generator: _randperm(_checked("randperm", (n,))[0], dtype, device, generator),
    effect="random",
    out=True,
    public=("weft",),
)


# ---- draws with parameters
def _bernoulli(probability: Any, dims: Dims, dtype: DType, generator: Any) -> Any:
    """1 where a uniform number falls below the probability (compared in float64 for float64, else in float32)."""
    precision = dt.float64 if dtype is dt.float64 else dt.float32
    return aten._to_copy(aten.lt(_uniform(dims, precision, generator), probability), dtype=dtype)


def _probability(p: Any) -> Any:
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise StateError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return p


define(
    "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
    "1 with the probability that self's element gives, else 0.",
    type=lambda self, generator: self,
    decompose=lambda self, generator: _bernoulli(self, self.dims, self.dtype, generator),
    effect="random",
    out=True,
)
define(
    "aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
    "1 with the probability given by p's element, else 0, with self's dtype.",
    type=lambda self, p, generator: self,
    decompose=lambda self, p, generator: _bernoulli(p, self.dims, self.dtype, generator),
    effect="random",
    inplace=True,
)
define(
    "aten::bernoulli.p(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor",
    "1 with probability p, else 0, with self's size and dtype.",
    type=lambda self, p, generator: self,
    decompose=lambda self, p, generator: _bernoulli(_probability(p), self.dims, self.dtype, generator),
    effect="random",
    inplace=True,
)


def _scaled_uniform(self: Any, low: Any, high: Any, generator: Any) -> Any:
    if isinstance(low, float) and isinstance(high, float) and low > high:
        raise StateError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    drawn = _uniform(self.dims, self.dtype, generator)
    return drawn if low == 0.0 and high == 1.0 else aten._to_copy(drawn * (high - low) + low, dtype=self.dtype)


def _scaled_normal(size: Dims, mean: Any, std: Any, dtype: DType, generator: Any) -> Any:
    if isinstance(std, float) and std < 0:
        raise StateError(f"normal expects std >= 0.0, but found std {std}")
    return aten._to_copy(_normal(size, dtype, generator) * std + mean, dtype=dtype)


define(
    "aten::uniform(Tensor self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor",
    "Random numbers, uniform in [from, to), with self's size and dtype.",
    type=lambda self, low, high, generator: self,
    decompose=_scaled_uniform,
    effect="random",
    public=("Tensor",),
    inplace=True,
)
define(
    "aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
    "Normal random numbers with the means and standard deviations of two tensors.",
    type=lambda mean, std, generator: add.type(mean, std, 1),  # type: ignore[misc]
    decompose=lambda mean, std, generator: aten.randn((mean + std).dims, dtype=mean.dtype, generator=generator) * std + mean,
    effect="random",
    public=("weft",),
)
define(
    "aten::normal.Tensor_float(Tensor mean, float std=1.0, *, Generator? generator=None) -> Tensor",
    "Normal random numbers with the means of a tensor and one standard deviation.",
    type=lambda mean, std, generator: mean,
    decompose=lambda mean, std, generator: _scaled_normal(mean.dims, mean, std, mean.dtype, generator),
    effect="random",
    public=("weft",),
)
define(
    "aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
    "Normal random numbers with one mean and the standard deviations of a tensor.",
    type=lambda mean, std, generator: std,
    decompose=lambda mean, std, generator: _scaled_normal(std.dims, mean, std, std.dtype, generator),
    effect="random",
    public=("weft",),
)
define(
    f"aten::normal.float_float(float mean, float std, int[] size, *, {_OPTIONS}) -> Tensor",
    "A tensor of normal random numbers with one mean and one standard deviation.",
    type=lambda mean, std, size, dtype, device, generator: tensor_type(_float_dtype("normal", dtype), _checked("normal", size)),
    decompose=lambda mean, std, size, dtype, device, generator: _scaled_normal(
        _checked("normal", size), mean, std, _float_dtype("normal", dtype), generator),
    effect="random",
    public=("weft",),
)
define(
    "aten::normal.self(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor",
    "Normal random numbers with self's size and dtype.",
    type=lambda self, mean, std, generator: self,
    decompose=lambda self, mean, std, generator: _scaled_normal(self.dims, mean, std, self.dtype, generator),
    effect="random",
    public=("Tensor",),
    inplace=True,
)
define(
    "aten::exponential(Tensor self, float lambd=1.0, *, Generator? generator=None) -> Tensor",
    "Exponentially distributed random numbers with rate `lambd`, with self's size and dtype.",
    type=lambda self, lambd, generator: self,
    decompose=lambda self, lambd, generator: aten.log1p(-_uniform(self.dims, self.dtype, generator)) / -lambd,
    effect="random",
    public=("Tensor",),
    inplace=True,
)
define(
    "aten::random.from(Tensor self, int from, int to, *, Generator? generator=None) -> Tensor",
    "Random integers in [from, to), with self's size and dtype.",
    type=lambda self, low, high, generator: self,
    decompose=lambda self, low, high, generator: _randint_like(self, low, high, None, generator),
    effect="random",
    public=("Tensor",),
    inplace=True,
)


def _largest_whole(dtype: DType) -> int:
    """What random_() draws up to: the integers that the dtype holds exactly."""
    if dtype.is_floating_point:
        return {dt.float16: 2**11, dt.bfloat16: 2**8, dt.float32: 2**24, dt.float64: 2**53}[dtype] + 1
    return 2 if dtype is dt.bool_ else int(np.iinfo(dtype.numpy).max) + (0 if dtype is dt.int64 else 1)


define(
    "aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor",
    "Random integers in [0, to), with self's size and dtype.",
    type=lambda self, to, generator: self,
    decompose=lambda self, to, generator: _randint_like(self, 0, to, None, generator),
    effect="random",
    public=("Tensor",),
    inplace=True,
)
define(
    "aten::random(Tensor self, *, Generator? generator=None) -> Tensor",
    "Random integers from 0 to the largest that self's dtype holds exactly.",
    type=lambda self, generator: self,
    decompose=lambda self, generator: _randint_like(self, 0, _largest_whole(self.dtype), None, generator),
    effect="random",
    public=("Tensor",),
    inplace=True,
)


# ---- what networks draw
def _dropout(self: Any, p: Any, train: bool, generator: Any = None) -> Any:
    """Zero with probability p, the rest over (1 - p). Backward keeps the mask: one byte an element."""
    if isinstance(p, (int, float)) or hasattr(type(p), "__weft_number__"):  # a lifted number answers, and the answer is guarded
        if not 0 <= p <= 1:
            raise StateError(f"dropout probability has to be between 0 and 1, but got {p}")
        if not train or p == 0:
            return self
        if p == 1:
            return self * aten.zeros_like(self)
    elif not train:
        return self
    kept = aten.ge(_uniform(self.dims, dt.float32, generator), p)
    return self * kept * (1.0 / (1.0 - p))


define(
    "aten::dropout(Tensor input, float p, bool train) -> Tensor",
    "The input with each element zeroed with probability p and the others divided by 1 - p; the input itself when not training.",
    type=lambda input, p, train: input,
    decompose=_dropout,
    effect="random",
    inplace=True,
    public=("weft",),
)


def _multinomial_type(self: TensorType, num_samples: int, replacement: bool, generator: Any) -> TensorType:
    if not self.dims or len(self.dims) > 2:
        raise StateError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise StateError("cannot sample n_sample <= 0 samples")
    categories = self.dims[-1]
    if not replacement and isinstance(categories, int) and num_samples > categories:
        raise StateError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    return tensor_type(dt.int64, (*self.dims[:-1], num_samples), self.device)


def _multinomial(self: Any, num_samples: int, replacement: bool, generator: Any) -> Any:
    """Without replacement: the largest p / e with exponential noise e. With: a search in the cumulative sums."""
    dtype = dt.float64 if self.dtype is dt.float64 else dt.float32
    weights = aten.to(self, dtype)
    if not replacement:
        noise = -aten.log1p(-_uniform(self.dims, dtype, generator))
        return aten.topk(weights / noise, num_samples, -1)[1]
    steps = aten.cumsum(weights, -1)
    total = aten.slice(steps, -1, -1)
    drawn = _uniform((*self.dims[:-1], num_samples), dtype, generator) * total
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
