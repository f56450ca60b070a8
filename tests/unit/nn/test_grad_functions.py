"""nn.grad against autograd, the choice of attention's implementation, and casts of packed sequences."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn import functional as F
from weft.nn.attention import SDPBackend, sdpa_kernel


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_of_convolutions_as_functions(rank: int, rng: np.random.Generator) -> None:
    options = {
        "stride": int(rng.integers(1, 3)), "padding": int(rng.integers(0, 2)),
        "dilation": int(rng.integers(1, 3)), "groups": 2,
    }
    x = weft.from_numpy(rng.normal(size=(2, 4, *rng.integers(6, 9, rank)))).requires_grad_()
    w = weft.from_numpy(rng.normal(size=(6, 2, *(2,) * rank))).requires_grad_()
    y = getattr(F, f"conv{rank}d")(x, w, **options)
    g = weft.from_numpy(rng.normal(size=tuple(y.shape))).requires_grad_()
    wanted = weft.autograd.grad(y, (x, w), g, create_graph=True)
    found = (
        getattr(nn.grad, f"conv{rank}d_input")(x.shape, w, g, **options),
        getattr(nn.grad, f"conv{rank}d_weight")(x, w.shape, g, **options),
    )
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            weft.autograd.grad((a**2).sum(), g, retain_graph=True)[0].numpy(),
            weft.autograd.grad((b**2).sum(), g, retain_graph=True)[0].numpy(), rtol=1e-9, atol=1e-11,
        )


def test_the_choice_of_an_attention_kernel_chooses_nothing() -> None:
    q = weft.randn(1, 2, 3, 4)
    plain = F.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True), sdpa_kernel(SDPBackend.MATH):
        assert weft.equal(F.scaled_dot_product_attention(q, q, q), plain)
    with pytest.raises(TypeError), sdpa_kernel("math"):
        pass
    assert nn.attention.sdpa_kernel is sdpa_kernel


def test_packed_sequences_cast() -> None:
    packed = nn.utils.rnn.pack_sequence([weft.ones(3, 2), weft.ones(1, 2)])
    kinds = {
        "long": weft.int64, "int": weft.int32, "short": weft.int16, "char": weft.int8, "byte": weft.uint8,
        "half": weft.float16,
    }
    for name, dtype in kinds.items():
        assert getattr(packed, name)().data.dtype is dtype and getattr(packed, name)().batch_sizes is packed.batch_sizes
    assert packed.pin_memory() is packed
    for bad in (lambda: nn.utils.rnn.pad_sequence(5), lambda: nn.utils.rnn.pad_sequence([]),
                lambda: nn.utils.rnn.pack_padded_sequence(weft.zeros(0, 0), [])):
        with pytest.raises(RuntimeError):
            bad()
