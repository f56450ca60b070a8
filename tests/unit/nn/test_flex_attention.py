"""flex_attention against attention written out, its block masks against PyTorch's, in every mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.lazy
from weft import Tensor, nn
from weft.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

RNG = np.random.Generator


def drawn(rng: RNG, *shapes: tuple[int, ...]) -> list[Tensor]:
    return [weft.from_numpy(rng.normal(size=shape)).requires_grad_() for shape in shapes]


def causal(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return q >= kv


def band(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
    return (q - kv).abs() <= 2


def written_out(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, seen: Tensor, scale: float) -> Tensor:
    scores = weft.where(seen, q @ k.mT * scale + bias, -math.inf)
    none = ~seen.any(-1, keepdim=True)
    return weft.where(none, 0, weft.softmax(weft.where(none, 0, scores), -1)) @ v


@pytest.mark.parametrize("mode", ["eager", "compile", "split", "lazy"])
def test_scores_and_masks_of_functions_in_every_mode(rng: RNG, mode: str) -> None:
    table = weft.from_numpy(rng.normal(size=(4, 40))).requires_grad_()

    def step(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = create_block_mask(
            and_masks(causal, band), None, None, q.shape[2], k.shape[2], q.device, BLOCK_SIZE=(2, 3)
        )
        return flex_attention(
            q, k, v, lambda s, b, h, i, j: s + table[h, i - j + 20], mask, enable_gqa=True, scale=0.3
        )

    run: Callable[..., Any] = {
        "compile": weft.compile(step), "split": weft.compile(step, split=True),
    }.get(mode, step)
    for length, keys in ((5, 7), (7, 7), (4, 9), (6, 3)):
        inputs = drawn(rng, (2, 4, length, 3), (2, 2, keys, 3), (2, 2, keys, 5))
        there = [t.detach().to("lazy").requires_grad_() for t in inputs] if mode == "lazy" else inputs
        if mode == "lazy":
            table = table.detach().to("lazy").requires_grad_()
        table.grad = None
        out = run(*there)
        out.sin().sum().backward()
        grads = [t.grad.cpu() for t in (*there, table) if t.grad is not None]
        again = [t.detach().clone().requires_grad_() for t in inputs]
        plain = table.detach().cpu().clone().requires_grad_()
        i, j = weft.arange(length)[:, None], weft.arange(keys)
        expected = written_out(
            again[0], again[1].repeat_interleave(2, 1), again[2].repeat_interleave(2, 1), plain[:, i - j + 20],
            ((i >= j) & ((i - j).abs() <= 2)).expand(2, 4, length, keys), 0.3,
        )
        expected.sin().sum().backward()
        np.testing.assert_allclose(out.detach().cpu().numpy(), expected.detach().numpy(), atol=1e-12)
        assert len(grads) == 4
        for grad, right in zip(grads, (*again, plain), strict=True):
            np.testing.assert_allclose(grad.numpy(), right.grad.numpy(), atol=1e-12)


def test_blocks_are_those_of_pytorch() -> None:
    """PyTorch 2.13 gives these for the same calls."""
    doc = weft.tensor([[1, 1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0, 0]])

    def documents(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (doc[b, q] == doc[b, kv]) & (q >= kv)

    mask = create_block_mask(documents, 2, None, 9, 9, device="cpu", BLOCK_SIZE=3)
    assert mask.shape == (2, 1, 9, 9) and mask.numel() == 162
    assert mask.to_dense().tolist() == [
        [[[1, 0, 0], [0, 1, 0], [0, 1, 1]]], [[[1, 0, 0], [1, 1, 0], [0, 0, 1]]],
    ]
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1]], [[1, 1, 1]]]
    assert mask.kv_indices.tolist() == [[[[0, 1, 2], [1, 0, 2], [2, 0, 1]]]] * 2
    assert mask.full_kv_num_blocks is not None and mask.full_kv_num_blocks.tolist() == [[[0, 0, 1]], [[0, 1, 0]]]
    assert mask.q_num_blocks is not None and mask.q_num_blocks.tolist() == [[[1, 1, 1]], [[1, 1, 1]]]
    assert mask.sparsity() == pytest.approx(100 * (1 - 72 / 162))
    part = mask[0]
    assert part.shape == (1, 1, 9, 9) and part.to_dense().tolist() == mask.to_dense().tolist()[:1]
    assert mask._adjust(4, 6).kv_num_blocks.tolist() == [[[1, 1]], [[1, 1]]]
    assert len(mask.as_tuple()) == 13 and len(mask.as_tuple(flatten=False)) == 11
    assert "sparsity=55.56%" in repr(mask) and mask.to("cpu").shape == mask.shape


def test_a_mask_of_blocks_alone_leaves_out_the_others(rng: RNG) -> None:
    q, k, v = drawn(rng, (1, 1, 4, 3), (1, 1, 4, 3), (1, 1, 4, 2))
    one = weft.ones(1, 1, 2, dtype=weft.int32)
    mask = BlockMask.from_kv_blocks(one, weft.tensor([[[[0, 1], [1, 0]]]], dtype=weft.int32), BLOCK_SIZE=2)
    seen = weft.tensor([[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2).bool()
    expected = written_out(q, k, v, weft.zeros(()), seen.expand(1, 1, 4, 4), 3**-0.5)
    assert weft.allclose(flex_attention(q, k, v, block_mask=mask), expected)
    assert weft.equal(create_mask(or_masks(causal, band), None, None, 3, 3)[0, 0], weft.ones(3, 3, dtype=weft.bool))
    biased = create_mask(lambda s, b, h, i, j: weft.where(i == j, s, -math.inf), 1, 1, 3, 3)
    assert weft.equal(biased[0, 0], weft.eye(3).bool()) and bool(noop_mask(one, one, one, one))


def test_what_it_gives_beside_its_result(rng: RNG) -> None:
    q, k, v = drawn(rng, (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    scores = q @ k.mT / 2
    out, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True, max_scores=True))
    assert weft.allclose(out, nn.functional.scaled_dot_product_attention(q, k, v))
    assert weft.allclose(aux.lse, scores.logsumexp(-1)) and weft.allclose(aux.max_scores, scores.amax(-1))
    assert weft.allclose(flex_attention(q, k, v, return_lse=True)[1], aux.lse)
    half = flex_attention(*(t.bfloat16() for t in (q, k, v)))
    assert half.dtype is weft.bfloat16


def test_bad_arguments_are_said(rng: RNG) -> None:
    q, k, v = drawn(rng, (1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    mask = create_block_mask(causal, None, None, 3, 5, BLOCK_SIZE=2)
    for problem, call in (
        ("4D", lambda: flex_attention(q[0], k, v)), ("Hkv=2", lambda: flex_attention(q, k, v)),
        ("multiple", lambda: flex_attention(q[:, :3], k, v, enable_gqa=True)),
        ("one dtype", lambda: flex_attention(q.float(), k, v)), ("E=3", lambda: flex_attention(q[..., :3], k, v)),
        ("q_len=2", lambda: flex_attention(q[:, :2, :2], k, v, block_mask=mask)),
        ("sliced", lambda: flex_attention(q[:, :2], k, v, block_mask=mask[0])),
        ("not both", lambda: flex_attention(q[:, :2], k, v, return_lse=True, return_aux=AuxRequest())),
        ("mask_mod", lambda: create_block_mask(lambda s, b, h, i, j: s, 1, 1, 3, 3)),
        ("2 arguments", lambda: create_mask(lambda i, j: i, 1, 1, 3, 3)), ("callable", lambda: and_masks(causal, 1)),
    ):
        with pytest.raises(weft.WeftError, match=problem):
            call()
