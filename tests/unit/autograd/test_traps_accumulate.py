"""T-ACC-*: how gradients arrive in .grad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


def test_t_acc_1_identity(rng: Rng) -> None:
    x = leaf(rng, 2)
    (x * 2.0).sum().backward()
    g0 = x.grad
    (x * 3.0).sum().backward()
    assert x.grad is g0 and g0.tolist() == [5.0, 5.0]
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not g0 and x.grad.requires_grad and g0.tolist() == [5.0, 5.0]
    np.testing.assert_allclose(x.grad.detach().numpy(), 5 + 2 * x.detach().numpy())


def test_t_acc_1_second_order_through_grad(rng: Rng) -> None:
    x = leaf(rng, 2)
    (x**3).sum().backward(create_graph=True)
    (h,) = weft.autograd.grad(x.grad.sum(), x)
    np.testing.assert_allclose(h.numpy(), 6 * x.detach().numpy())


def test_t_acc_2_layout(rng: Rng) -> None:
    x = leaf(rng, 4, 3)
    x.sum().backward()
    assert x.grad.stride() == (3, 1)  # the expanded gradient was made dense
    x = leaf(rng, 3, 4).detach().t().requires_grad_()
    (x * 2.0).sum().backward()
    assert x.grad.stride() == x.stride() == (1, 4)
    x = leaf(rng, 3, 4)
    y = x.t()
    y.backward(weft.ones(4, 3, dtype=weft.float64))
    assert x.grad.stride() == (4, 1)


def test_t_acc_2_the_users_tensor_is_never_taken(rng: Rng) -> None:
    x, seed = leaf(rng, 3), leaf(rng, 3).detach()
    before = seed.clone()
    x.view(3).backward(seed)
    assert x.grad is not seed and x.grad.data_ptr() != seed.data_ptr()
    x.view(3).backward(seed)
    assert bool((seed == before).all())
    y = x.clone()
    y.retain_grad()
    y.backward(seed)
    y.grad.mul_(5.0)
    assert bool((seed == before).all())


def test_t_acc_3_one_gradient_on_two_edges(rng: Rng) -> None:
    x, y = leaf(rng, 2), leaf(rng, 2)
    (x + x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    x.grad = None
    (x + y).sum().backward()
    assert x.grad.data_ptr() != y.grad.data_ptr()
    (x * 5.0).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and y.grad.tolist() == [1.0, 1.0]


def test_t_acc_4_assignment(rng: Rng) -> None:
    x = leaf(rng, 2)
    with pytest.raises(RuntimeError, match=r"gradient of size '\[3\]' to a tensor of size '\[2\]'"):
        x.grad = weft.ones(3, dtype=weft.float64)
    with pytest.raises(RuntimeError, match="gradient with dtype"):
        x.grad = weft.ones(2, dtype=weft.float32)
    with pytest.raises(TypeError, match="expected to be a Tensor or None"):
        x.grad = 3
    with pytest.raises(RuntimeError, match="own grad"):
        x.grad = x
    for _ in range(2):
        x.grad = None
        (x * 2.0).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
    x.grad = weft.ones(2, dtype=weft.float64, requires_grad=True)
    (x * 2.0).sum().backward(create_graph=True)
    assert x.grad.tolist() == [3.0, 3.0] and x.grad.requires_grad


def test_t_acc_5_gradients_freed_by_hooks_do_not_pile_up(rng: Rng) -> None:
    ws = [leaf(rng, 4) for _ in range(6)]
    peak = [0]

    def free(t: weft.Tensor) -> None:
        peak[0] = max(peak[0], sum(w.grad is not None for w in ws))
        t.grad = None

    for w in ws:
        w.register_post_accumulate_grad_hook(free)
    y = weft.ones(4, dtype=weft.float64)
    for w in ws:
        y = (y * w).sin()
    y.sum().backward()
    assert peak[0] == 1


def test_t_acc_5_accumulation_waits_for_the_last_contribution(rng: Rng) -> None:
    x, seen = leaf(rng, 2), []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    y = x * 2.0
    for _ in range(3):
        y = y * 1.0
    (y + x * 3.0).sum().backward()
    assert seen == [[5.0, 5.0]]


def test_t_acc_6_a_parameter_that_is_read_later_in_the_same_backward(rng: Rng) -> None:
    a, b, x = leaf(rng, 3), leaf(rng, 3), leaf(rng, 3)
    a.grad = b.detach()  # accumulating into a.grad writes b, which the gradient of x * b reads afterwards
    y = (x * b) * a
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    v = x.detach().numpy()
    (x * (x * x)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * v**2)


def test_t_acc_7_a_fixed_order_of_sums(rng: Rng) -> None:
    n = int(rng.integers(3, 9))
    factors = [float(f) for f in rng.standard_normal(n)]
    w = weft.from_numpy(rng.standard_normal(5).astype(np.float32)).requires_grad_()

    def step(x: weft.Tensor) -> Any:
        total = (w * x).sum()
        for f in factors:
            total = total + (w * f).sin().sum()
        total.backward()
        out = w.grad
        w.grad = None
        return out

    x = weft.from_numpy(rng.standard_normal(5).astype(np.float32))
    first, second = step(x).tolist(), step(x).tolist()
    assert first == second
    np.testing.assert_allclose(weft.compile(step)(x).numpy(), first, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("has_grad", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("incoming", ["contiguous", "transposed", "expanded", "held"])
def test_s1_6_the_table(rng: Rng, has_grad: bool, create_graph: bool, incoming: str) -> None:
    x = leaf(rng, 3, 2)
    held = leaf(rng, 3, 2).detach()
    seed = {"contiguous": held * 1.0, "transposed": (held.t() * 1.0).t(), "held": held,
            "expanded": weft.full((1, 1), 2.0, dtype=weft.float64).expand(3, 2)}[incoming]
    before = leaf(rng, 3, 2).detach() if has_grad else None
    total = seed.detach().numpy() + (before.numpy().copy() if before is not None else 0.0)
    x.grad = before
    x.backward(seed, create_graph=create_graph)
    np.testing.assert_allclose(x.grad.detach().numpy(), total)
    assert (x.grad is before) == (has_grad and not create_graph)
    assert x.grad.stride() == (2, 1) or create_graph
    if not create_graph:
        assert x.grad.data_ptr() != seed.data_ptr()


def test_s1_7_copy_backwards(rng: Rng) -> None:
    s = leaf(rng, 1, 3)
    base = weft.from_numpy(rng.standard_normal((4, 3)).astype(np.float32)).requires_grad_()
    d = base * 1.0
    d[:2].copy_(s)
    weight = weft.from_numpy(rng.standard_normal((4, 3)).astype(np.float32))
    (d * weight).sum().backward()
    assert s.grad.dtype is weft.float64 and s.grad.shape == (1, 3)
    np.testing.assert_allclose(s.grad.numpy()[0], weight.numpy()[:2].sum(0), rtol=1e-6)
    np.testing.assert_allclose(base.grad.numpy(), np.concatenate([np.zeros((2, 3)), weight.numpy()[2:]]))
