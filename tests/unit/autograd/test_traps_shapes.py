"""T-BC-*, T-DT-*, T-SH-*: broadcasting, dtypes, shapes and kinks, at order 1 and 2 where there is one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck, gradgradcheck

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


SHAPES = [(), (1,), (3,), (1, 3), (2, 1), (2, 3), (0, 3), (0, 1), (1, 1)]


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(SHAPES, 2)))
def test_t_bc_1_all_patterns(rng: Rng, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(RuntimeError):
            leaf(rng, *a) * leaf(rng, *b)
        return
    x, y = leaf(rng, *a), leaf(rng, *b)
    assert gradcheck(lambda p, q: p * q.sin(), (x, y), fast_mode=True)
    assert gradgradcheck(lambda p, q: p * q.sin(), (x, y), fast_mode=True)
    (x * y).sum().backward()
    assert tuple(x.grad.shape) == a and tuple(y.grad.shape) == b


def test_t_bc_1_a_wider_number_keeps_its_dtype() -> None:
    x = weft.ones(3, requires_grad=True)
    s = weft.tensor(2.0, dtype=weft.float64, requires_grad=True)
    y = x * s
    assert y.dtype is weft.float32
    y.sum().backward()
    assert s.grad.dtype is weft.float64 and s.grad.item() == 3.0 and x.grad.dtype is weft.float32


def test_t_bc_2_one_program_for_changing_sizes(rng: Rng) -> None:
    w = weft.ones(1, 3, requires_grad=True)

    def step(x: weft.Tensor) -> Any:
        (w * x).sum().backward()
        out = w.grad
        w.grad = None
        return out

    compiled = weft.compile(step)
    for n in (2, 5, 3, 1):
        x = weft.from_numpy(rng.standard_normal((n, 3)).astype(np.float32))
        np.testing.assert_allclose(compiled(x).numpy(), x.numpy().sum(0, keepdims=True), rtol=1e-5, atol=1e-6)


def test_t_dt_1_promotion() -> None:
    i, f, b = weft.ones(2, dtype=weft.int64), weft.ones(2), weft.ones(2, dtype=weft.bool)
    assert (i + 1.5).dtype is weft.float32 and (i + True).dtype is weft.int64 and (i / i).dtype is weft.float32
    assert b.sum().dtype is weft.int64 and (b + b).dtype is weft.bool and (b * 2).dtype is weft.int64
    assert (f + weft.tensor(1.0, dtype=weft.float64)).dtype is weft.float32
    assert (f + weft.ones(2, dtype=weft.float64)).dtype is weft.float64
    assert (i + weft.tensor(1.0, dtype=weft.float64)).dtype is weft.float64
    with pytest.raises(RuntimeError, match="can't be cast"):
        i.add_(1.5)
    f.add_(weft.ones(2, dtype=weft.float64))
    assert f.dtype is weft.float32


@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16])
def test_t_dt_1_halves_sum_in_float32(dtype: Any) -> None:
    n = 4096
    x = weft.full((n,), 1.0, dtype=dtype, requires_grad=True)
    assert float(x.sum().item()) == n  # in half precision the sum would stick at 2048 (or 256)
    (x.sum() * 2.0).backward()
    assert x.grad.dtype is dtype and float(x.grad[0].item()) == 2.0


def test_t_dt_1_complex_gradients_are_conjugated(rng: Rng) -> None:
    z = weft.from_numpy(rng.standard_normal(3) + 1j * rng.standard_normal(3)).requires_grad_()
    (z * z.conj()).sum().abs().backward()
    np.testing.assert_allclose(z.grad.numpy(), 2 * z.detach().numpy())
    assert gradcheck(lambda t: t * t.sin(), (z,)) and gradgradcheck(lambda t: t * t, (z,))


def test_t_sh_1_nothing_to_compute() -> None:
    e = weft.zeros(0, requires_grad=True)
    assert e.sum().item() == 0.0 and e.prod().item() == 1.0
    with pytest.raises((RuntimeError, IndexError), match=r"max\(\)"):
        e.max()
    a, b = weft.zeros(0, 3, requires_grad=True), weft.ones(3, 2, requires_grad=True)
    (a @ b).sum().backward()
    assert a.grad.shape == (0, 3) and b.grad.tolist() == [[0.0, 0.0]] * 3
    c, d = weft.zeros(2, 0, requires_grad=True), weft.zeros(0, 3, requires_grad=True)
    out = c @ d
    assert out.tolist() == [[0.0] * 3] * 2
    out.sum().backward()
    assert c.grad.shape == (2, 0) and d.grad.shape == (0, 3)
    (e.exp() * 2.0).sum().backward()
    assert e.grad.shape == (0,)


def test_t_sh_2_zero_dims(rng: Rng) -> None:
    x = weft.tensor(float(rng.standard_normal()), dtype=weft.float64, requires_grad=True)
    assert x.stride() == () and x.sum(0).item() == x.item() == x.sum(-1).item()
    assert x.view(1).shape == (1,) and x.expand(2, 3).shape == (2, 3) and x[None].shape == (1,) and x[...].shape == ()
    with pytest.raises(IndexError, match="0-dim"):
        x[0]
    with pytest.raises(IndexError):
        x.sum(1)
    with pytest.raises(RuntimeError, match="zero-dimensional"):
        weft.cat((x, x))
    seen: list[Any] = []
    handle = x.register_hook(lambda g: seen.append(g.shape))
    (x.expand(2, 3) * 2.0).sum().backward()
    handle.remove()
    assert x.grad.item() == 12.0 and x.grad.shape == () and seen == [()]
    assert (
        gradcheck(lambda t: t.view(1).expand(3).exp(), (x,))
        and gradgradcheck(lambda t: t.view(1).expand(3).exp(), (x,))
    )


def test_t_sh_3_layouts(rng: Rng) -> None:
    base = leaf(rng, 4, 6)
    for view in (
        (lambda t: t.t(), lambda t: t[::2, 1::2], lambda t: t[1:, 2:], lambda t: t.view(2, 2, 6).permute(2, 0, 1))
    ):
        assert gradcheck(lambda t, view=view: (view(t) * 1.0).exp() * view(t), (base,), fast_mode=True)
        assert gradgradcheck(lambda t, view=view: view(t).sin(), (base,), fast_mode=True)
        assert view(base).contiguous().is_contiguous()
    with pytest.raises(RuntimeError, match=r"Use .reshape\(...\) instead"):
        base.t().view(24)
    assert base.t().reshape(24)._base is None and base.reshape(24)._base is base
    assert base.contiguous() is base and base[1:].storage_offset() == 6


def test_t_sh_4_kinks() -> None:
    x = weft.tensor([0.0, 1.0], requires_grad=True)
    weft.where(x > 0, x.log(), weft.zeros(2)).sum().backward()
    assert math.isnan(x.grad[0].item()) and x.grad[1].item() == 1.0

    def gradient(f: Any, values: list[float]) -> list[float]:
        t = weft.tensor(values, requires_grad=True)
        f(t).sum().backward()
        return t.grad.tolist()

    assert gradient(lambda t: t.max(), [2.0, 2.0, 1.0]) == [0.5, 0.5, 0.0]
    assert gradient(lambda t: t.max(0).values, [2.0, 2.0, 1.0]) == [1.0, 0.0, 0.0]
    assert gradient(lambda t: t.abs(), [0.0, -2.0]) == [0.0, -1.0]
    assert gradient(lambda t: t.relu(), [0.0, 2.0]) == [0.0, 1.0]
    assert gradient(lambda t: t.clamp(0.0, 1.0), [0.0, 1.0, 2.0]) == [1.0, 1.0, 0.0]
    assert gradient(lambda t: t.norm(), [0.0, 0.0]) == [0.0, 0.0]


def test_t_sh_5_dims(rng: Rng) -> None:
    x = leaf(rng, 2, 3, 4)
    v = x.detach().numpy()
    np.testing.assert_allclose(x.sum((-1, 0)).detach().numpy(), v.sum((2, 0)))
    assert x.sum((0, 2), keepdim=True).shape == (1, 3, 1) and x.mean(-2, keepdim=True).shape == (2, 1, 4)
    with pytest.raises(RuntimeError, match="multiple times"):
        x.sum((0, -3))
    with pytest.raises(IndexError, match="out of range"):
        x.sum(3)
    assert gradgradcheck(lambda t: t.sum((0, -1)).exp(), (x,), fast_mode=True)


@pytest.mark.parametrize("index", [
    (slice(None), 1), (Ellipsis, -1), (None, 0), (slice(1, None, 2), None, 2), ([0, 2, 0],),
    ([0, 2], slice(None), [1, 1]),
    (slice(None), [1, 0], [0, 3]), (0, [2, 1, 2]),
])
def test_t_sh_6_indexing(rng: Rng, index: Any) -> None:
    x = leaf(rng, 3, 4, 5)
    np.testing.assert_allclose(x[index].detach().numpy(), x.detach().numpy()[index])
    assert (
        gradcheck(lambda t: t[index].sin(), (x,), fast_mode=True)
        and gradgradcheck(lambda t: t[index].sin(), (x,), fast_mode=True)
    )

    def write(t: weft.Tensor, s: weft.Tensor) -> weft.Tensor:
        b = t.clone()
        b[index] = s
        return b * b

    if index not in (([0, 2, 0],), (0, [2, 1, 2])):  # which of two writes to one place wins is nobody's promise
        s = leaf(rng)
        assert gradcheck(write, (x, s), fast_mode=True) and gradgradcheck(write, (x, s), fast_mode=True)


def test_t_sh_6_masks_writes_and_errors(rng: Rng) -> None:
    x = leaf(rng, 3, 4)
    mask = x.detach() > 0
    np.testing.assert_allclose(x[mask].detach().numpy(), x.detach().numpy()[mask.numpy()])
    assert gradcheck(lambda t: t[mask].exp(), (x,), fast_mode=True)
    with pytest.raises(IndexError, match=r"out of bounds|out of range"):
        x[3]
    with pytest.raises(IndexError):
        x[[0, 5]]
    b = weft.zeros(3, dtype=weft.int64)
    b[0] = 2.7
    assert b.tolist() == [2, 0, 0]
    c = weft.zeros(3, dtype=weft.float64)
    s = leaf(rng, 4)
    c.index_put_((weft.tensor([0, 2, 0, 0]),), s, accumulate=True)
    v = s.detach().numpy()
    np.testing.assert_allclose(c.detach().numpy(), [v[0] + v[2] + v[3], 0, v[1]])
    (c * weft.tensor([1.0, 2.0, 3.0], dtype=weft.float64)).sum().backward()
    assert s.grad.tolist() == [1.0, 3.0, 1.0, 1.0]


def test_t_sh_7_numbers() -> None:
    assert (
        type(weft.tensor(3).item()) is int and type(weft.tensor(True).item()) is bool
        and type(weft.tensor(1.5).item()) is float
    )
    a = weft.tensor([-7, 7])
    assert (
        (a // 2).tolist() == [-4, 3] and weft.div(a, 2, rounding_mode="trunc").tolist() == [-3, 3]
        and (a % 4).tolist() == [1, 3]
    )
    assert math.copysign(1.0, (weft.tensor([-0.0]) * 1.0).item()) == -1.0
    assert (weft.tensor([1]) << 3).tolist() == [8] and (weft.tensor([-8]) >> 1).tolist() == [-4]
    top = weft.tensor([2**31 - 1], dtype=weft.int32)
    assert (top + 1).tolist() == [-(2**31)]
    assert weft.tensor([250], dtype=weft.uint8).add(10).tolist() == [4]
