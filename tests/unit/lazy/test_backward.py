"""Backward calls that are one entry of a trace: gradients are those of eager mode, and whoever listens hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from weft import lazy, nn
from weft.lazy.backend import lazy_at
from weft.nn import functional as F

Build = Callable[[Any], Any]


def _entries() -> int:
    return len(lazy_at(0).where.trace.nodes)


def _loss(x: Any, w: Any, b: Any) -> Any:
    """A fan-in, views, a transposed leaf, gradients that two leaves share, and an index."""
    h = F.linear(x, w.t(), b)
    picked = h[:, weft.arange(h.shape[1], device=h.device).flip(0)]
    h = h.masked_fill(h > 1.25, -0.75)
    return (F.softmax(h, -1) * picked).sum(0).square().mean() + (x + x.tanh()).view(-1).mean() + (b + b.detach()).sum()


def _run(device: str, arrays: list[np.ndarray], steps: int, turn: Callable[[int, list[Any]], None]) -> Any:
    leaves = [weft.tensor(a, device="lazy" if device == "lazy" else "cpu") for a in arrays]
    leaves[1] = leaves[1].t().contiguous().t()  # another order in memory
    for leaf in leaves:
        leaf.requires_grad_()
    found: list[Any] = []

    def step(i: int) -> None:
        turn(i, leaves)
        _loss(*leaves).backward()
        with weft.no_grad():
            for leaf in leaves:
                leaf.sub_(leaf.grad, alpha=0.1)

    run = deferred(step) if device == "split" else step
    for i in range(steps):
        run(i)
        if device == "lazy":
            lazy.mark_step()
        found += [(t.detach().cpu().tolist(), t.grad.cpu().tolist(), t.grad.stride()) for t in leaves]
    return found


def _fresh(i: int, leaves: list[Any]) -> None:
    for leaf in leaves:
        leaf.grad = None


def _added(i: int, leaves: list[Any]) -> None:
    if i % 3 == 0:
        _fresh(i, leaves)


def _frozen(i: int, leaves: list[Any]) -> None:
    for leaf in leaves:
        leaf.grad = None if leaf.grad is None else weft.zeros_like(leaf)
    leaves[0].requires_grad_(i % 2 == 0)
    leaves[0].grad = weft.zeros_like(leaves[0])


def _doubled(p: Any) -> None:
    p.grad.mul_(2)


def _heard(i: int, leaves: list[Any]) -> None:
    _fresh(i, leaves)
    if i == 3:
        leaves[1].register_hook(lambda g: g * 3)
    if i == 5:
        leaves[2].register_post_accumulate_grad_hook(_doubled)


@pytest.mark.parametrize("turn", [_fresh, _added, _frozen, _heard])
@pytest.mark.parametrize("device", ["lazy", "split"])
def test_gradients_are_those_of_eager_mode(device: str, turn: Callable[[int, list[Any]], None], rng: Any) -> None:
    n, k, m = (int(v) for v in rng.integers(2, 6, 3))
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((n, k), (k, m), (m,))]
    for (a, g, lie), (b, h, other) in zip(_run("cpu", arrays, 7, turn), _run(device, arrays, 7, turn), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(h, g, rtol=1e-4, atol=1e-5)
        assert lie == other


@pytest.mark.usefixtures("nobody_takes_over")  # such classes leave backward calls to the engine
def test_a_known_backward_is_one_entry_and_its_first_run_is_the_program_of_all(rng: Any) -> None:
    lazy.metrics.reset()
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to("lazy")
    for n in (int(rng.integers(3, 9)), 11, 7, 8):
        for p in model.parameters():
            p.grad = None
        out = model(weft.randn(n, 4, device="lazy"))
        loss = out.masked_fill(out > 0.5, 0.75).square().mean()  # (a number among what is saved)
        before = _entries()
        loss.backward()
        assert _entries() == before + 2  # the seed, and all of the rest
        lazy.mark_step()
    assert lazy.metrics.counter_value("UncachedCompile") == 1


def test_gradients_are_nobody_elses(rng: Any) -> None:
    for _ in range(2):
        a, b = (weft.ones(3, device="lazy", requires_grad=True) for _ in range(2))
        seed = weft.ones(3, device="lazy")
        (a + b).backward(seed)
        with weft.no_grad():
            a.grad.add_(1)
            seed.zero_()
        assert a.grad.tolist() == [2, 2, 2] and b.grad.tolist() == [1, 1, 1]


def test_what_is_wrong_with_saved_values_is_said(rng: Any) -> None:
    p = weft.ones(3, device="lazy", requires_grad=True)
    for _ in range(3):
        loss = (p.exp() * p).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    loss = (p.exp() * p).sum()
    with weft.no_grad():
        p.add_(1)
    with pytest.raises(RuntimeError, match=r"inplace operation.*test_backward\.py"):
        loss.backward()


def test_calls_that_may_refuse_their_values_run_whoever_wants_them(rng: Any) -> None:
    """The gradient of a gather scatters: behind the index that the forward refuses, nothing is written."""
    w = weft.zeros(4, requires_grad=True)
    table = weft.zeros(4)

    @deferred
    def step(index: Any) -> None:
        table.add_(1)
        (w[index] * 2).sum().backward()
        table.add_(1)

    for _ in range(3):
        step(weft.tensor([1, 2]))
    with pytest.raises(IndexError):
        step(weft.tensor([1, 9]))
    assert table.tolist() == [7.0] * 4 and w.grad.tolist() == [0, 6, 6, 0]


def test_a_rule_is_known_by_zeros_too(rng: Any) -> None:
    """A number that updates ask for (0.0) is none of those that change."""
    for rate in (0.5, 0.25):
        p = weft.ones(2, device="lazy", requires_grad=True)
        optimizer = weft.optim.SGD([p], lr=rate, weight_decay=0.0, momentum=0.5)
        for _ in range(3):
            p.grad = weft.ones(2, device="lazy")
            optimizer.step()
        assert p.tolist() == pytest.approx([1 - rate * (1 + 1.5 + 1.75)] * 2)


class _Overriding(weft.Tensor):
    """Takes calls over, and changes nothing."""

    @classmethod
    def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__weft_function__(func, types, args, kwargs or {})


def test_classes_that_take_calls_over_elsewhere_change_no_backward_call(rng: Any) -> None:
    """What counts is whether a tensor of such a class has a part in the call, not whether one is alive."""
    arrays = [rng.standard_normal((4, 3)), rng.standard_normal((2, 4))]

    def entries(weight: Any, x: Any) -> tuple[int, list[Any]]:
        for _ in range(3):
            weight.grad = None
            loss = (x @ weight).square().sum()
            before = _entries()
            loss.backward()
            grown = _entries() - before
            lazy.mark_step()
        return grown, weight.grad.cpu().tolist()

    def plain() -> list[Any]:
        return [weft.tensor(a, device="lazy") for a in arrays]

    expected = entries(plain()[0].requires_grad_(), plain()[1])
    kept = weft.ones(2).as_subclass(_Overriding) + nn.LazyLinear(3)(weft.ones(1, 2)).sum()  # both classes are met
    assert type(kept) is _Overriding
    assert entries(plain()[0].requires_grad_(), plain()[1]) == expected
    for leaf, operand in ((_Overriding, weft.Tensor), (weft.Tensor, _Overriding)):
        weight, x = plain()
        grown, grad = entries(weight.as_subclass(leaf).requires_grad_(), x.as_subclass(operand))
        assert grown > expected[0]
        assert grad == expected[1]
