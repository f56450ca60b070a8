"""Calls that the written-out check lets through are those that the questions one by one let through;
all others get their program or their miss."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.compile.program.quick_match import MOST, quick_match
from weft.programs.arguments import facts_of


def _quick(*tensors: weft.Tensor, outside: frozenset[int] = frozenset()):
    facts = [facts_of(t, False) for t in tensors]
    sizes = [(i, ((0, f"s{i}"),)) for i, t in enumerate(tensors) if t.ndim]
    return quick_match(facts, [None] * len(facts), sizes, outside)


def test_sizes_are_bound() -> None:
    quick = _quick(weft.zeros(3, 2), weft.zeros(4))
    assert quick is not None and quick([weft.zeros(5, 7), weft.ones(1)]) == {"s0": 5, "s1": 1}


@pytest.mark.parametrize("other", [
    lambda: weft.zeros(3, 2, dtype=weft.float64), lambda: weft.zeros(3), lambda: weft.zeros(2, 3).t(),
    lambda: weft.zeros(3, 2, requires_grad=True), lambda: weft.zeros(6, 2)[::2], lambda: 3.0,
    lambda: np.zeros((3, 2), np.float32), lambda: weft.nn.Parameter(weft.zeros(3, 2)),
    lambda: weft.zeros(3, 2, device="meta"),
])
def test_anything_else_is_looked_at_closely(other) -> None:
    quick = _quick(weft.zeros(3, 2), weft.zeros(4))
    assert quick is not None
    assert quick([other(), weft.zeros(4)]) is None


def test_shared_memory_is_looked_at_closely() -> None:
    x = weft.zeros(4)
    quick = _quick(weft.zeros(4), weft.zeros(4), outside=frozenset({id(x._data)}))
    y = weft.zeros(8)
    assert (
        quick is not None and quick([y[:4], y[4:]]) is None and quick([x, y[:4]]) is None
        and quick([y[:4], y[:4]]) is None
    )


def test_shared_memory_that_nothing_shows_passes() -> None:
    state, written, y = weft.zeros(6), weft.zeros(6), weft.zeros(8)
    outside, closed = {id(state._data), id(written._data)}, {id(written._data)}
    facts, sizes = [facts_of(weft.zeros(4), False)] * 2, [(i, ((0, f"s{i}"),)) for i in range(2)]
    quick = quick_match(facts, [None] * 2, sizes, outside, {0, 1}, closed)
    assert quick is not None and quick([y[:4], y[3:]]) == {"s0": 4, "s1": 5} and quick([y[:4], state[1:]]) is not None
    assert quick([y, y]) is None and quick([y[:4], written[1:]]) is None
    first = quick_match(facts, [None] * 2, sizes, outside, {0}, closed)
    assert first is not None and first([y[:4], y[4:]]) is None and first([y[:4], state[1:]]) is None
    assert first([state[1:], y]) is not None


def test_programs_that_hang_on_more_have_no_quick_check() -> None:
    hooked = weft.zeros(3, requires_grad=True)
    hooked.register_hook(lambda gradient: gradient)
    assert _quick(hooked) is None and _quick(weft.zeros(3, 2).t()) is None and _quick(weft.zeros(6)[::2]) is None
    assert _quick(hooked * 2) is None and _quick(*[weft.zeros(1) for _ in range(MOST + 1)]) is None


def test_leaves_that_want_gradients() -> None:
    quick = _quick(weft.nn.Parameter(weft.zeros(3)), weft.zeros(2, requires_grad=True))
    hooked, p, x = weft.ones(2, requires_grad=True), weft.nn.Parameter(weft.ones(5)), weft.ones(4, requires_grad=True)
    hooked.register_post_accumulate_grad_hook(lambda tensor: None)
    assert quick is not None and quick([p, x]) == {"s0": 5, "s1": 4}
    (p.sum() + x.sum()).backward()  # now there are gradients, and AccumulateGrad nodes
    assert quick([p, x]) == {"s0": 5, "s1": 4}
    for other in (hooked, x * 2, x.detach(), x[:2], x.detach()[:2].requires_grad_(), weft.nn.Parameter(weft.ones(2))):
        assert quick([p, other]) is None
    assert quick([x, x]) is None and quick([p.detach(), x]) is None
    node = weft.autograd.graph.get_gradient_edge(p).node
    handle = node.register_prehook(lambda gradients: None)
    assert quick([p, x]) is None
    handle.remove()
    assert quick([p, x]) is not None


def test_views_of_what_wants_a_gradient_are_looked_at_closely() -> None:
    quick, base = _quick(weft.zeros(3)), weft.ones(4)
    view = base[:2]
    assert quick is not None and quick([view]) == {"s0": 2}
    base.mul_(weft.ones(4, requires_grad=True))
    assert view.requires_grad and quick([view]) is None


def test_numbers_and_constants_beside_tensors() -> None:
    x = weft.zeros(3)
    facts = [facts_of(x, False), float, None, None]
    quick = quick_match(facts, [None, None, "mean", 2], [(0, ((0, "s0"),))], set(), numbers=[("n", 1)])
    assert quick is not None and quick([x, 1.5, "mean", 2]) == {"s0": 3, "n": 1.5}
    for others in ((1, "mean", 2), (1.5, "sum", 2), (1.5, "mean", 2.0), (1.5, "mean", True), (1.5, None, 2)):
        assert quick([x, *others]) is None
    assert quick_match([None], [object()], [], set()) is None


def test_misses_after_quick_calls_are_named_and_right(rng: np.random.Generator) -> None:
    state = weft.ones(4)

    @weft.compile
    def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        state.add_(1)
        return x * y + state

    x, y = weft.from_numpy(rng.standard_normal(4).astype("f")), weft.from_numpy(rng.standard_normal(4).astype("f"))
    for _ in range(3):
        step(x, y)
    weft.counters.reset()
    for a, b in (
        ((x, y), (x, x), (state, y), (x.double(), y.double()), (x, weft.ones(8)[::2]), (x.clone().requires_grad_(), y))
    ):
        after = state + 1
        expected = ((after if a is state else a.detach()) * b + after).numpy()
        np.testing.assert_allclose(step(a, b).detach().numpy(), expected, rtol=1e-5)
    assert weft.counters.captures == 5 and len(step.misses) == 5
    assert any("share memory" in text for text in step.misses) and any("requires_grad" in text for text in step.misses)
