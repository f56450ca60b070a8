"""A backward call of a compiled function that goes on through what was computed before the call: the function runs as
it is written. It was refused, found inputs unused, or left out the gradients of the older part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca


class State:
    value: Any = None


def leaf(rng: np.random.Generator) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(4)).requires_grad_()


def test_the_backward_call_alone_is_compiled(rng: np.random.Generator) -> None:
    """It is captured once, by compiled autograd, for all losses."""
    w, state = leaf(rng), State()
    step = weft.compile(lambda: state.value.backward())
    captures = weft.counters.captures
    for _ in range(4):
        w.grad, state.value = None, (w**3).sum()
        step()
        np.testing.assert_allclose(w.grad.numpy(), 3 * w.detach().numpy() ** 2)
    assert weft.counters.captures == captures + 1
    assert "computed before the call" in step.misses[-1]


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_freed_graph_is_not_walked_again(options: dict[str, Any], keeps: bool, rng: np.random.Generator) -> None:
    """It was, in silence: the program had the nodes that were there when it was captured."""
    w = leaf(rng)
    state = [w.exp()]
    step = weft.compile(lambda: sum(state, w * 2).sum().backward(retain_graph=keeps), **options)
    step()
    if keeps:
        step()
        state[0].sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        step()


@pytest.mark.parametrize("options", [{}, {"split": True}], ids=["compile", "split"])
def test_a_capture_that_is_refused_frees_nothing(options: dict[str, Any], rng: np.random.Generator) -> None:
    """What a call that failed has left in a list is walked by the next one, which no program can."""
    w, seen = leaf(rng), []

    def step(x: weft.Tensor, fails: bool) -> None:
        seen.append(x * w)
        if fails and options:
            raise ValueError
        (sum(seen, w) * 2).sum().backward()
        seen[:] = [t.detach() for t in seen]

    compiled = weft.compile(step, **options)
    total = np.zeros(4)
    for fails in (False, True, False, True, False):
        x = rng.standard_normal(4)
        total += 2 * x
        if fails and options:
            with pytest.raises(ValueError):
                compiled(weft.from_numpy(x), fails)
        else:
            compiled(weft.from_numpy(x), fails)
            total += 2
        if not fails:
            np.testing.assert_allclose(w.grad.numpy(), total)


def test_some_of_the_leaves(rng: np.random.Generator) -> None:
    with ca.enable():
        for wanted in (0, 1, 0, 1):
            x, y, z = leaf(rng), leaf(rng), leaf(rng)
            loss, inputs = (x.sinh() * y * z).sum(), [(x, y)[wanted]]
            weft.compile(lambda loss=loss, inputs=inputs: weft.autograd.backward(loss, inputs=inputs))()
            assert (inputs[0].grad is not None, (y, x)[wanted].grad) == (True, None)


@pytest.mark.parametrize("is_argument", [False, True])
def test_both_ways_to_a_leaf_count(is_argument: bool, rng: np.random.Generator) -> None:
    w, state = leaf(rng), State()

    def step(given: Any = None) -> Any:
        older = state.value if given is None else given
        return weft.autograd.grad((older * w).sum(), w)[0]

    compiled = weft.compile(step)
    for _ in range(3):
        state.value = w * 2
        found = compiled(state.value) if is_argument else compiled()
        np.testing.assert_allclose(found.numpy(), 4 * w.detach().numpy())


def test_a_state_that_is_not_detached(rng: np.random.Generator) -> None:
    def trained(wrap: Any) -> list[np.ndarray]:
        state, found = State(), []

        def step(x: weft.Tensor) -> Any:
            state.value = x * w if state.value is None else state.value * w
            state.value.sum().backward(retain_graph=True)
            return w.grad.detach() * 1

        run = step if wrap is None else wrap(step)
        for _ in range(4):
            w.grad = None
            found.append(run(x).numpy())
        return found

    w, x = leaf(rng), leaf(rng).detach()
    for found, expected in zip(trained(weft.compile), trained(None), strict=True):
        np.testing.assert_allclose(found, expected)


def test_a_result_goes_on_in_its_callers_history_as_before(rng: np.random.Generator) -> None:
    """What callers differentiate is no backward call of the function: it stays a program."""
    w = leaf(rng)
    product = weft.compile(lambda x: x * w)
    for _ in range(2):
        w.grad = None
        product(w * 2).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), 4 * w.detach().numpy())
    assert len(product.entries) == 1
