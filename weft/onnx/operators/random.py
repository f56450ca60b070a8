"""Random numbers. Streams are weft's: a seed gives the same numbers each time, not those of another program."""

from __future__ import annotations

from typing import Any

import weft
from weft.onnx.dtypes import dtype_of, element_of
from weft.onnx.registry import operator, symbolic
from weft.tensor.tensor import Tensor


def _generator(seed: float | None) -> Any:
    return None if seed is None else weft.Generator().manual_seed(int(seed))


@operator("RandomNormal")
def random_normal(
    *, shape: list[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return weft.randn(shape, dtype=dtype_of(dtype), generator=_generator(seed)) * scale + mean


@operator("RandomUniform")
def random_uniform(
    *, shape: list[int], dtype: int = 1, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Tensor:
    return weft.rand(shape, dtype=dtype_of(dtype), generator=_generator(seed)) * (high - low) + low


@operator("RandomNormalLike")
def random_normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    wanted = x.dtype if dtype is None else dtype_of(dtype)
    return weft.randn(x.shape, dtype=wanted, generator=_generator(seed)) * scale + mean


@operator("RandomUniformLike")
def random_uniform_like(
    x: Tensor, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Tensor:
    wanted = x.dtype if dtype is None else dtype_of(dtype)
    return weft.rand(x.shape, dtype=wanted, generator=_generator(seed)) * (high - low) + low


@operator("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    return weft.bernoulli(x, generator=_generator(seed)).to(x.dtype if dtype is None else dtype_of(dtype))


@operator("Multinomial")
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    drawn = weft.multinomial(weft.softmax(x, -1), sample_size, True, generator=_generator(seed))
    return drawn.to(dtype_of(dtype))


@symbolic("aten::rand", "aten::randn")
def write_rand(g: Any, size: Any, *others: Any) -> Any:
    name = "RandomUniformLike" if g.node.op.schema.base == "rand" else "RandomNormalLike"
    dtype = g.result_dtype()
    return g.op(name, g.filled(g.shape(size), 0, dtype), dtype=element_of(dtype))


@symbolic("aten::rand_like", "aten::randn_like")
def write_rand_like(g: Any, x: Any, *others: Any) -> Any:
    name = "RandomUniformLike" if g.node.op.schema.base == "rand_like" else "RandomNormalLike"
    return g.op(name, x, dtype=element_of(g.result_dtype()))


@symbolic("aten::bernoulli")
def write_bernoulli(g: Any, x: Any, *others: Any) -> Any:
    return g.op("Bernoulli", x)
