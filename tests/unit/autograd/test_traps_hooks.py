"""T-HOOKS-*: the order of hooks, what they see, and what they may do."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import register_multi_grad_hook

Rng = np.random.Generator
ORDER = ["t1", "t2", "pre", "post", "xh", "accpre", "pacc", "accpost"]


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


def hooked(x: weft.Tensor, log: list[str]) -> weft.Tensor:
    y = x * 2.0
    y.retain_grad()
    y.register_hook(lambda g: log.append("t1"))
    y.register_hook(lambda g: (log.append("t2"), g * 10.0)[1])
    y.grad_fn.register_prehook(lambda g: log.append("pre"))
    y.grad_fn.register_hook(lambda inputs, outputs: log.append("post"))
    return y


def hook_leaf(x: weft.Tensor, y: weft.Tensor, log: list[str]) -> None:
    accumulate = y.grad_fn.next_functions[0][0]
    x.register_hook(lambda g: log.append("xh"))
    accumulate.register_prehook(lambda g: log.append("accpre"))
    accumulate.register_hook(lambda inputs, outputs: log.append("accpost"))
    x.register_post_accumulate_grad_hook(lambda t: log.append("pacc"))


def test_t_hooks_1_order(rng: Rng) -> None:
    x, log = leaf(rng, 1), []
    y = hooked(x, log)
    hook_leaf(x, y, log)
    y.sum().backward()
    assert log == ORDER
    assert y.grad.item() == 10.0 and x.grad.item() == 20.0


def test_t_hooks_1_order_at_order_two(rng: Rng) -> None:
    x, log = leaf(rng, 2), []
    y = x * x
    y.register_hook(lambda g: (log.append(g.requires_grad), g * g)[1])
    (g,) = weft.autograd.grad((y * y).sum(), x, create_graph=True)
    v = x.detach().numpy()
    np.testing.assert_allclose(g.detach().numpy(), 8 * v**5)  # (2 y)**2 * 2 x
    (h,) = weft.autograd.grad(g.sum(), x)
    # the hook squares what flows through y again
    np.testing.assert_allclose(h.numpy(), 8 * v**4 + 2 * v * (16 * v**3) ** 2)
    assert log == [True, False]


def test_t_hooks_2_inputs_that_tensor() -> None:
    x, log = weft.tensor([1.0], requires_grad=True), []
    y = x * 2.0
    y.register_hook(lambda g: g * 5.0)
    y.grad_fn.register_prehook(lambda g: log.append("pre"))
    (g,) = weft.autograd.grad((y * 4.0).sum(), y)
    assert g.item() == 20.0 and log == []


def test_t_hooks_3_a_hook_stays_with_its_value() -> None:
    x, log = weft.ones(2, requires_grad=True), []
    y = x * 2.0
    y.register_hook(lambda g: log.append(("before", g.tolist())))
    y.mul_(3.0)
    y.register_hook(lambda g: log.append(("after", g.tolist())))
    y.sum().backward()
    assert log == [("after", [1.0, 1.0]), ("before", [3.0, 3.0])]


def test_t_hooks_3_retained_gradients_move_with_the_tensor() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x * 2.0
    y.retain_grad()
    y.mul_(3.0)
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0] and x.grad.tolist() == [6.0, 6.0]
    base = weft.ones(1, requires_grad=True).clone()
    base.retain_grad()
    v, w = base[:], base[:]
    v.retain_grad()
    w.retain_grad()
    v.mul_(2.0)
    (v + w).sum().backward()
    assert v.grad.tolist() == [1.0] and w.grad.tolist() == [1.0] and base.grad.tolist() == [2.0]


@pytest.mark.parametrize(("result", "error", "text"), [
    (lambda g: g[:1], RuntimeError, "has changed the size of value"),
    (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
    (lambda g: g.to(weft.float32), RuntimeError, "has changed the type of value"),
])
def test_t_hooks_4_wrong_results(rng: Rng, result: Any, error: type[Exception], text: str) -> None:
    x = leaf(rng, 2)
    handle = x.register_hook(result)
    with pytest.raises(error, match=text):
        x.sum().backward()
    handle.remove()
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_t_hooks_4_none_replacement_and_removal(rng: Rng) -> None:
    x, log = leaf(rng, 1), []
    handles: list[Any] = []
    handles.append(x.register_hook(lambda g: (log.append("a"), handles[0].remove(), handles[1].remove())[0]))
    handles.append(x.register_hook(lambda g: log.append("b")))
    x.register_hook(lambda g: g * 3.0)
    (x * 1.0).sum().backward()
    assert log == ["a", "b"] and x.grad.item() == 3.0  # the run under way is not disturbed
    (x * 1.0).sum().backward()
    assert log == ["a", "b"] and x.grad.item() == 6.0


@pytest.mark.parametrize("place", ["tensor", "pre", "post", "leaf", "accumulated"])
def test_t_hooks_4_an_exception_leaves_the_engine_usable(rng: Rng, place: str) -> None:
    class Stop(Exception):
        pass

    def stop(*args: Any) -> None:
        raise Stop

    x = leaf(rng, 2)
    y = x * 2.0
    node = y.grad_fn
    register = {
        "tensor": y.register_hook, "pre": node.register_prehook, "post": node.register_hook, "leaf": x.register_hook,
        "accumulated": x.register_post_accumulate_grad_hook,
    }[place]
    handle = register(stop)
    with pytest.raises(Stop):
        y.sum().backward()
    assert weft.is_grad_enabled()
    handle.remove()
    x.grad = None
    y = x * 2.0
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_t_hooks_5_the_sum_over_all_uses_once(rng: Rng) -> None:
    x, seen = leaf(rng, 2), []
    y = x * 1.0
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * 2.0 + y * 3.0 + y.view(1, 2) * 4.0).sum().backward()
    assert seen == [[9.0, 9.0]]


def test_t_hooks_5_post_accumulate_order_of_a_chain(rng: Rng) -> None:
    ws, log = [leaf(rng, 1) for _ in range(3)], []
    for i, w in enumerate(ws):
        w.register_post_accumulate_grad_hook(lambda t, i=i: log.append(i))
    y = weft.ones(1, dtype=weft.float64)
    for w in ws:
        y = (y * w).sin()
    y.sum().backward()
    assert log == [2, 1, 0]
    log.clear()
    (ws[0] * 2.0 + ws[0] * 3.0 + ws[0].exp()).sum().backward()
    assert log == [0]


def test_t_hooks_6_multi_grad_hooks(rng: Rng) -> None:
    a, b, c = leaf(rng, 1), leaf(rng, 1), leaf(rng, 1)
    log: list[Any] = []
    handle = register_multi_grad_hook((a, b, c), lambda gs: log.append([g is not None for g in gs]))
    (a * b * c).sum().backward()
    assert log == [[True, True, True]]
    handle.remove()
    (a * b * c).sum().backward()
    assert len(log) == 1
    first: list[Any] = []
    with register_multi_grad_hook((a, b), first.append, mode="any"):
        (a * 2.0 + b * 3.0).sum().backward()
        (a * 2.0 + b * 3.0).sum().backward()
    assert len(first) == 2
    with pytest.raises(ValueError, match="mode"):
        register_multi_grad_hook((a,), first.append, mode="some")


def test_t_hooks_6_multi_grad_hook_with_a_missing_gradient(rng: Rng) -> None:
    a, b = leaf(rng, 1), leaf(rng, 1)
    log: list[Any] = []
    with register_multi_grad_hook((a, b), lambda gs: log.append([g is None for g in gs])):
        (a * 2.0).sum().backward()
        assert log == [[False, True]]
        (a * b).sum().backward()
    assert log == [[False, True], [False, False]]


def test_t_hooks_6_copies_and_pickles_of_leaves(rng: Rng) -> None:
    x = leaf(rng, 2)
    handle = x.register_hook(lambda g: g * 2.0)
    y = copy.deepcopy(x)
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]  # the copy is another leaf
    again = pickle.loads(pickle.dumps(handle))
    again.remove()
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_t_hooks_6_closures_that_change_do_not_recompile() -> None:
    w = weft.tensor([1.0, 2.0], requires_grad=True)
    seen: list[Any] = []

    def step(x: weft.Tensor) -> None:
        (w * x).sum().backward()

    compiled = weft.compile(step)
    for i in range(3):
        with w.register_hook(lambda g, i=i: g * 2.0):
            compiled(weft.ones(2))
        seen.append(w.grad.tolist())
        w.grad = None
    assert seen == [[2.0, 2.0]] * 3


def test_t_hooks_7_a_hook_that_starts_another_backward(rng: Rng) -> None:
    x, z = leaf(rng, 2), leaf(rng, 2)

    def again(g: weft.Tensor) -> None:
        with weft.enable_grad():
            (z * z).sum().backward()

    y = x * 2.0
    y.register_hook(again)
    (y * y).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), 2 * z.detach().numpy())
    np.testing.assert_allclose(x.grad.numpy(), 8 * x.detach().numpy())
