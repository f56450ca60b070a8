"""MultiheadAttention."""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.nn.modules.linear import NonDynamicallyQuantizableLinear
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter, empty
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor


class MultiheadAttention(Module):
    """Attention over several heads. Source: Vaswani et al. (arXiv:1706.03762).

    query [l, n, embed_dim], key [s, n, kdim], value [s, n, vdim]; with batch_first n comes first; n may be absent.
    Returns the output and the weights (None unless need_weights). Boolean masks hide where True; float masks are added.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueProblem(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self._make_projections(bias, device, dtype)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, dtype=dtype, device=device)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(
                name, Parameter(empty((1, 1, embed_dim), dtype=dtype, device=device)) if add_bias_kv else None
            )
        self._reset_parameters()

    def _make_projections(self, bias: bool, device: Any, dtype: Any) -> None:
        d = self.embed_dim
        shapes = {"q_proj_weight": (d, d), "k_proj_weight": (d, self.kdim), "v_proj_weight": (d, self.vdim)}
        joined = self._qkv_same_embed_dim
        for name, shape in shapes.items():
            self.register_parameter(name, None if joined else Parameter(empty(shape, dtype=dtype, device=device)))
        self.register_parameter(
            "in_proj_weight", Parameter(empty((3 * d, d), dtype=dtype, device=device)) if joined else None
        )
        self.register_parameter(
            "in_proj_bias", Parameter(empty((3 * d,), dtype=dtype, device=device)) if bias else None
        )

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        turns = self.batch_first and query.ndim == 3
        if turns:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )
        return (out.transpose(0, 1) if turns else out), weights
