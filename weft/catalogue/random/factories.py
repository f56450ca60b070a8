"""Random numbers. A public entry draws (key, offset) from a generator, in Python's call order,
and opens to a pure inner entry.

So a draw is a function of (key, counter) alone: eager, captured and lazy programs, and any split of the work,
give the same numbers. The offset advances by the number of elements, also where nothing uses the result. The pure inner
entries (`_uniform`, `_normal`, ...) are pointwise over a tensor of counters; their bodies are in draws.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft.catalogue.random.draws as draws
from weft.catalogue.creation.factories import checked_size
from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.runtime.generator import Generator, default_generator
from weft.support.errors import NotForDType, StateError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
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
    "A number in [0, 1) for each counter, a multiple of 2**-24 in float32, 2**-53 in float64, 2**-11 in float16, "
    "2**-8 in bfloat16.",
    draws.uniform,
)
normal_at = _inner(
    "aten::_normal(Tensor counter, Scalar key, *, ScalarType dtype) -> Tensor",
    "A standard normal number for each counter.",
    draws.normal,
)
integer_at = _inner(
    "aten::_random_integer(Tensor counter, Scalar key, Scalar low, Scalar high) -> Tensor",
    "An integer in [low, high) for each counter, as int64, of a range of at most 2**32.",
    draws.integer,
)
wide_integer_at = _inner(
    "aten::_random_wide_integer(Tensor counter, Scalar key, Scalar low, Scalar high) -> Tensor",
    "An integer in [low, high) for each counter, as int64; bounds are taken modulo 2**64, equal ones for all of them.",
    draws.wide_integer,
)


# who may draw in another size: vmap draws for all examples at once
transforms: list[Callable[[Callable[[Sequence[Dim]], Any], Sequence[Dim]], Any]] = []


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


def float_dtype(name: str, dtype: DType | None) -> DType:
    checked = dt.get_default() if dtype is None else dtype
    if not checked.is_floating_point and not checked.is_complex:
        raise NotForDType(f"\"{name}\" not implemented for '{checked}'")
    return checked


def uniform_values(size: Sequence[Dim], dtype: DType, generator: Generator | None) -> Any:
    if dtype.is_complex:  # both parts uniform
        return aten.complex(
            uniform_values(size, dtype.to_real(), generator), uniform_values(size, dtype.to_real(), generator)
        )
    return draw(lambda counters, key: aten._uniform(counters, key, dtype=dtype), size, generator)


def normal_values(size: Sequence[Dim], dtype: DType, generator: Generator | None) -> Any:
    if dtype.is_complex:  # each part has half of the variance
        return aten.complex(normal_values(
            size, dtype.to_real(), generator
        ), normal_values(size, dtype.to_real(), generator)) * math.sqrt(0.5)
    return draw(lambda counters, key: aten._normal(counters, key, dtype=dtype), size, generator)


def drawn_bits(size: Sequence[Dim], generator: Generator | None) -> Any:
    """64 random bits for each element, as int64."""
    return draw(lambda counters, key: aten._random_bits(counters, key, 64), size, generator)


def _integers(size: Sequence[Dim], low: Any, high: Any, dtype: DType, generator: Generator | None) -> Any:
    # a range that is not known yet is taken to be wide, which is right for any
    if shape_env.is_less(high - low, (1 << 32) + 1):
        drawn = draw(lambda counters, key: aten._random_integer(counters, key, low, high), size, generator)
    else:
        end = high - (1 << 64) if isinstance(high, int) and high == 1 << 63 else high
        drawn = draw(lambda counters, key: aten._random_wide_integer(counters, key, low, end), size, generator)
    return drawn if dtype is dt.int64 else aten._to_copy(drawn, dtype=dtype)


# ---- public factories
OPTIONS = "ScalarType? dtype=None, Device? device=None, Generator? generator=None"
_LIKE = "ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None, Generator? generator=None"


def _factory(name: str, words: str, make: Callable[..., Any]) -> None:
    """`name` and `name_like`."""
    define(
        f"aten::{name}(int[] size, *, {OPTIONS}) -> Tensor",
        f"A tensor of {words}.",
        type=lambda size, dtype, device, generator: tensor_type(float_dtype(name, dtype), checked_size(name, size)),
        decompose=lambda size, dtype, device, generator: make(
            checked_size(name, size), float_dtype(name, dtype), generator
        ),
        effect="random",
        out=True,
        public=("weft",),
    )
    define(
        f"aten::{name}_like(Tensor self, *, {_LIKE}) -> Tensor",
        f"A tensor of self's size, of {words}.",
        type=lambda self, dtype, *rest: self.with_dtype(float_dtype(name, dtype or self.dtype)),
        decompose=lambda self, dtype, device, memory_format, generator: make(
            self.dims, float_dtype(name, dtype or self.dtype), generator),
        effect="random",
        like=True,
        public=("weft",),
    )


_factory("rand", "random numbers, uniform in [0, 1)", uniform_values)
_factory("randn", "standard normal random numbers", normal_values)


def _check_range(low: Dim, high: Dim, dtype: DType) -> None:
    """Raises StateError for a range without numbers, or with numbers that the dtype does not hold."""
    shape_env.refuse_less(high, low + 1, lambda: StateError(
        f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
    ))
    if dtype.category == dt.FLOAT or dtype.is_complex:
        return
    greatest = 1 if dtype is dt.bool_ else 2 ** (dtype.bits - dtype.is_signed) - 1
    least = -greatest - 1 if dtype.is_signed else 0
    for less, more in ((low, least), (greatest + 1, high)):
        if dtype is dt.int64 and not type(less) is type(more) is int:
            continue  # what a symbol stands for is an int64
        shape_env.refuse_less(less, more, lambda: StateError(
            f"random_: 'from' or 'to - 1' is out of bounds for {dtype}, which holds {least} to {greatest}: "
            f"got from={low}, to={high}"
        ))


def _randint(low: Any, high: Any, size: Sequence[Dim], dtype: DType | None, device: Any, generator: Any) -> Any:
    return _integers(checked_size("randint", size), low, high, dtype or dt.int64, generator)


def _randint_type(
    low: Any, high: Any, size: Sequence[Dim], dtype: DType | None, device: Any, generator: Any
) -> TensorType:
    _check_range(low, high, dtype or dt.int64)
    return tensor_type(dtype or dt.int64, checked_size("randint", size))


define(
    f"aten::randint.low(int low, int high, int[] size, *, {OPTIONS}) -> Tensor",
    "Random integers in [low, high).",
    type=_randint_type,
    decompose=_randint,
    effect="random",
    out=True,
    public=("weft",),
)
define(
    f"aten::randint(int high, int[] size, *, {OPTIONS}) -> Tensor",
    "Random integers in [0, high).",
    type=lambda high, *rest: _randint_type(0, high, *rest),
    decompose=lambda high, *rest: _randint(0, high, *rest),
    effect="random",
    out=True,
    public=("weft",),
)


def whole_like(self: Any, low: Any, high: Any, dtype: DType | None, generator: Any) -> Any:
    _check_range(low, high, dtype or self.dtype)
    return _integers(self.dims, low, high, dtype or self.dtype, generator)


define(
    f"aten::randint_like.low(Tensor self, int low, int high, *, {_LIKE}) -> Tensor",
    "Random integers in [low, high), with self's size and dtype.",
    type=lambda self, low, high, dtype, *rest: self.with_dtype(dtype or self.dtype),
    decompose=lambda self, low, high, dtype, device, memory_format, generator: whole_like(
        self, low, high, dtype, generator
    ),
    effect="random",
    like=True,
    public=("weft",),
)
define(
    f"aten::randint_like(Tensor self, int high, *, {_LIKE}) -> Tensor",
    "Random integers in [0, high), with self's size and dtype.",
    type=lambda self, high, dtype, *rest: self.with_dtype(dtype or self.dtype),
    decompose=lambda self, high, dtype, device, memory_format, generator: whole_like(self, 0, high, dtype, generator),
    effect="random",
    like=True,
    public=("weft",),
)


def _randperm(n: Dim, dtype: DType | None, device: Any, generator: Any) -> Any:
    """The order that sorts random 64-bit numbers (ties, of probability n**2 / 2**65, stay in order)."""
    order = aten.argsort(drawn_bits((n,), generator), stable=True)
    return order if dtype in (None, dt.int64) else aten._to_copy(order, dtype=dtype)


define(
    f"aten::randperm(int n, *, {OPTIONS}) -> Tensor",
    "A random permutation of 0, 1, ..., n - 1.",
    type=lambda n, dtype, *rest: tensor_type(dtype or dt.int64, checked_size("randperm", (n,))),
    decompose=lambda n, dtype, device, generator: _randperm(
        checked_size("randperm", (n,))[0], dtype, device, generator
    ),
    effect="random",
    out=True,
    public=("weft",),
)


# ---- draws with parameters
def fills(head: str, doc: str, values: Callable[..., Any]) -> Op:
    """An operator whose result has self's size and dtype, and random numbers: `values(self, ..., generator)`. Its
    in-place form is a method. head: name and arguments of its own, `cauchy(float median=0, float sigma=1)`."""
    name, _, arguments = head[:-1].partition("(")
    own = f", {arguments}" if arguments else ""
    return define(
        f"aten::{name}(Tensor self{own}, *, Generator? generator=None) -> Tensor",
        doc,
        type=lambda self, *rest: self,
        decompose=values,
        effect="random",
        public=("Tensor",),
        inplace=True,
    )
