"""The GPT of the benchmarks, for any library with PyTorch's names: training forward, and one-token decoding with
a cache written in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

Array = numpy.ndarray[Any, Any]


@dataclass(frozen=True)
class GptSizes:
    """layers, width, heads, vocabulary; `length` is the longest sequence."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    vocabulary: int = 256
    length: int = 128


def weights_of(random: numpy.random.Generator, sizes: GptSizes, scale: float) -> dict[str, Array]:
    """Initial weights by parameter name."""
    d = sizes.width

    def drawn(*shape: int) -> Array:
        return (random.standard_normal(shape) * scale).astype(numpy.float32)

    found = {
        "tokens.weight": drawn(sizes.vocabulary, d), "places.weight": drawn(sizes.length, d),
        "head.weight": drawn(sizes.vocabulary, d),
    }
    for i in range(sizes.layers):
        for name, outputs, inputs in (("qkv", 3 * d, d), ("mixed", d, d), ("wide", 4 * d, d), ("narrow", d, 4 * d)):
            found[f"blocks.{i}.{name}.weight"] = drawn(outputs, inputs)
            found[f"blocks.{i}.{name}.bias"] = numpy.zeros(outputs, numpy.float32)
    return found


def fill(xp: Any, module: Any, weights: dict[str, Array]) -> None:
    """Give a module's parameters their initial values; those without one keep theirs."""
    with xp.no_grad():
        for name, parameter in module.named_parameters():
            if name in weights:
                parameter.copy_(xp.tensor(weights[name]))


def attention_mask(xp: Any, place: Any, sizes: GptSizes) -> Any:
    """Which cached places a token at `place` may see, as (1, 1, 1, length)."""
    return (xp.arange(sizes.length) <= place).view(1, 1, 1, sizes.length)


def gpt(xp: Any, sizes: GptSizes) -> Any:
    """The model."""
    nn, functional = xp.nn, xp.nn.functional
    d, heads = sizes.width, sizes.heads

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.qkv, self.mixed = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.wide, self.narrow = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def split(self, x: Any) -> list[Any]:
            batch, length, _ = x.shape
            return [
                part.view(batch, length, heads, d // heads).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(d, dim=2)
            ]

        def rest(self, x: Any, attended: Any) -> Any:
            x = x + self.mixed(attended.transpose(1, 2).reshape(x.shape[0], x.shape[1], d))
            return x + self.narrow(functional.gelu(self.wide(self.norm2(x)), approximate="tanh"))

        def forward(self, x: Any) -> Any:
            q, k, v = self.split(x)
            return self.rest(x, functional.scaled_dot_product_attention(q, k, v, is_causal=True))

        def decode(self, x: Any, place: Any, cache: tuple[Any, Any], mask: Any) -> Any:
            q, k, v = self.split(x)
            keys, values = cache
            keys[:, :, place] = k
            values[:, :, place] = v
            return self.rest(x, functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask))

    class Gpt(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(sizes.vocabulary, d), nn.Embedding(sizes.length, d)
            self.blocks = nn.ModuleList([Block() for _ in range(sizes.layers)])
            self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, sizes.vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places(xp.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

        def decode(self, token: Any, place: Any, caches: list[tuple[Any, Any]], mask: Any) -> Any:
            x = self.tokens(token) + self.places(place)
            for block, cache in zip(self.blocks, caches, strict=True):
                x = block.decode(x, place, cache, mask)
            return self.head(self.norm(x))

    return Gpt()
