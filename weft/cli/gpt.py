"""The demo's model: a GPT over bytes, in ordinary weft. Pre-norm blocks, learned positions, GELU, an untied head."""

from __future__ import annotations

import weft
import weft.nn.functional as F
from weft import Tensor, nn
from weft.cli.recipe import BYTES, GPTSize


class KeyValues:
    """The keys and values that one block's attention has seen so far: room for context positions,
    [1, heads, context, width]."""

    def __init__(self, size: GPTSize) -> None:
        shape = (1, size.heads, size.context, size.width // size.heads)
        self.keys, self.values = weft.zeros(*shape), weft.zeros(*shape)
        self.length = 0

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append k and v, [1, heads, n, width]; returns all keys and values so far, as views."""
        end = self.length + k.shape[2]
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class Attention(nn.Module):
    """Causal self-attention over heads of equal width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, past: KeyValues | None = None) -> Tensor:
        """x: [batch, length, width] -> the same. With a past, x is one new position, or the first ones of all."""
        batch, length, width = x.shape
        q, k, v = (self._heads(part) for part in self.qkv(x).split(width, dim=2))
        if past is not None:
            k, v = past.extend(k, v)
        causal = past is None or length > 1  # a single new position may look at everything before it
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def _heads(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class MLP(nn.Module):
    """Two linear layers with GELU between them, four times as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """One layer: attention and MLP, each on a normalised copy, added back."""

    def __init__(self, size: GPTSize, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(size.width, size.heads)
        self.mlp = MLP(size.width)
        self.norm1, self.norm2 = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x: Tensor, past: KeyValues | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), past))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """tokens: int64 [batch, length] -> logits over the next byte, [batch, length, 256]."""

    def __init__(self, size: GPTSize, dropout: float = 0.0) -> None:
        super().__init__()
        self.size = size
        self.tokens = nn.Embedding(BYTES, size.width)
        self.positions = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList([Block(size, dropout) for _ in range(size.blocks)])
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, BYTES, bias=False)

    def forward(self, tokens: Tensor, pasts: list[KeyValues] | None = None) -> Tensor:
        start = pasts[0].length if pasts else 0
        x = self.tokens(tokens) + self.positions(weft.arange(start, start + tokens.shape[1], device=tokens.device))
        for number, block in enumerate(self.blocks):
            x = block(x, pasts[number] if pasts else None)
        return self.head(self.norm(x))
