"""T-SAVE-*: saved tensors, version counters, saved-tensor hooks."""

from __future__ import annotations

import gc
import linecache
import re
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import graph

Rng = np.random.Generator
MODIFIED = "modified by an inplace operation"


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


def test_t_save_1_detach_shares_the_counter_and_data_does_not() -> None:
    x = weft.tensor([2.0], requires_grad=True)
    y = x * 3.0
    z = y * y
    y.detach().add_(1.0)
    with pytest.raises(RuntimeError, match=MODIFIED):
        z.backward()
    y = x * 1.0
    z = y * y
    y.data.add_(1.0)
    assert y._version == 0
    z.backward()
    assert x.grad.item() == 6.0  # 2 * (2 + 1): wrong for the z that was computed, and silent, as in PyTorch


def test_t_save_2_writes_under_no_grad_count(rng: Rng) -> None:
    x = leaf(rng, 2)
    y = (x * x).sum()
    with weft.no_grad():
        x.add_(1.0)
    assert x._version == 1
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "sqrt"])
def test_t_save_3_saved_results(rng: Rng, name: str) -> None:
    x = leaf(rng, 3)
    y = getattr(x.abs() + 1.0, name)()
    y.add_(1.0)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_t_save_3_softmax_and_what_saves_inputs_or_nothing(rng: Rng) -> None:
    x = leaf(rng, 3)
    y = x.softmax(0)
    y.mul_(2.0)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()
    z = x.sin()
    z.add_(1.0)
    z.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.detach().numpy()))
    x.grad = None
    a = x * 1.0
    b = a + 1.0
    a.mul_(2.0)
    b.mul_(3.0)
    (a + b).sum().backward()
    assert x.grad.tolist() == [5.0] * 3


def test_t_save_4_no_cycles_through_saved_outputs(rng: Rng) -> None:
    x = leaf(rng, 3)
    gc.collect()
    gc.disable()
    try:
        def step() -> None:
            (x.exp().tanh().sigmoid().softmax(0) ** 2).sum().backward()
            x.grad = None

        for _ in range(20):
            step()
        before = len(gc.get_objects())
        y = x.exp()
        watched = weakref.ref(y.grad_fn)
        del y
        assert watched() is None
        for _ in range(1000):
            step()
        assert len(gc.get_objects()) - before < 100
    finally:
        gc.enable()


def test_t_save_5_backward_twice(rng: Rng) -> None:
    x = leaf(rng, 2)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    x.grad = None
    z = (x + 1.0).sum()
    z.backward()
    z.backward()
    assert x.grad.tolist() == [2.0, 2.0]
    x.grad = None
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * x.detach().numpy())


def test_t_save_5_only_what_ran_is_freed(rng: Rng) -> None:
    x, w = leaf(rng, 2), leaf(rng, 2)
    shared = x.exp()
    a, b = (shared * w).sum(), (shared * shared).sum()
    weft.autograd.grad(a, w)  # the branch to x did not run
    (g,) = weft.autograd.grad(b, x)
    np.testing.assert_allclose(g.numpy(), 2 * np.exp(2 * x.detach().numpy()))


def test_t_save_6_freed_tensors_and_the_words_of_errors(rng: Rng) -> None:
    x = leaf(rng, 2)
    y = x * x
    node = y.grad_fn
    assert node._saved_self is x
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        node._saved_self  # noqa: B018


def test_t_save_6_the_version_error_names_both_lines(rng: Rng) -> None:
    x = leaf(rng, 2, 3)
    y = x.exp()  # saved here
    y.add_(1.0)  # written here
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    text = str(caught.value)
    for part in ("ExpBackward0", "[2, 3]", "output 0", "is at version 1; expected version 0"):
        assert part in text
    found = [linecache.getline(__file__, int(n)) for n in re.findall(r"test_traps_saved\.py:(\d+)", text)]
    assert "saved here" in found[0] and "written here" in found[1]


def test_t_save_7_hooks_counts_and_order(rng: Rng) -> None:
    x, log = leaf(rng, 2), []
    with weft.autograd.saved_tensors_hooks(
        lambda t: (log.append("pack"), t)[1], lambda t: (log.append("unpack"), t)[1]
    ):
        y = x * x
    assert log == ["pack", "pack"]
    y.sum().backward()
    assert log == ["pack", "pack", "unpack", "unpack"]
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())


def test_t_save_7_hooks_do_not_see_numbers_or_histories(rng: Rng) -> None:
    x, seen = leaf(rng, 2), []
    with weft.autograd.saved_tensors_hooks(lambda t: (seen.append(t), t.numpy(force=True).tobytes())[1],
                                           lambda b: weft.from_numpy(np.frombuffer(b).copy())):
        y = (x * 2.0) * 3.0  # numbers: nothing is packed
        assert seen == []
        z = y.exp()  # a result
        w = (x * y).sum()
    assert seen[0].grad_fn is None and [t for t in seen if t is x]
    (z.sum() + w).backward()
    v = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), 6 * np.exp(6 * v) + 12 * v)


def test_t_save_7_hooks_at_order_two(rng: Rng) -> None:
    x = leaf(rng, 3)
    with weft.autograd.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t * 1.0):
        y = (x.exp() * x).sum()
        (g,) = weft.autograd.grad(y, x, create_graph=True)
        (h,) = weft.autograd.grad(g.sum(), x)
    v = x.detach().numpy()
    np.testing.assert_allclose(h.numpy(), np.exp(v) * (v + 2))


def test_t_save_7_bad_hooks_and_switches(rng: Rng) -> None:
    x = leaf(rng, 2)
    with weft.autograd.saved_tensors_hooks(lambda t: 5, lambda t: t):
        y = x * x
    with pytest.raises((RuntimeError, TypeError), match="unpack_hook expected to be a Tensor"):
        y.sum().backward()
    changing = weft.autograd.saved_tensors_hooks(lambda t: t.detach().add_(1.0), lambda t: t)
    with pytest.raises(RuntimeError, match="modifying its input in place"), changing:
        x.exp()
    plain = weft.autograd.saved_tensors_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="not today"), graph.disable_saved_tensors_hooks("not today"), plain:
        pass
    with weft.autograd.save_on_cpu():
        y = x * x
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())


def test_mutation_may_be_allowed_and_versions_raised_by_hand(rng: Rng) -> None:
    x = leaf(rng, 2)
    with graph.allow_mutation_on_saved_tensors():
        a = x * 1.0
        y = (a * a).sum()
        a.mul_(5.0)
        y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    a = x * 1.0
    y = (a * a).sum()
    graph.increment_version(a)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


def test_t_save_8_a_cached_program_checks_versions_at_every_call() -> None:
    w = weft.tensor([2.0, 3.0], requires_grad=True)
    forward = weft.compile(lambda x: (w * x * w).sum())
    for _ in range(2):
        x = weft.tensor([1.0, 1.0])
        y = forward(x)
        y.backward()
        assert w.grad.tolist() == [4.0, 6.0]
        w.grad = None
    y = forward(weft.ones(2))
    with weft.no_grad():
        w.add_(0.0)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


def test_saved_tensors_are_freed_as_each_node_has_run(rng: Rng) -> None:
    x = leaf(rng, 3)
    alive: list[Any] = []
    y = x * 1.0
    for _ in range(4):
        y = y.exp()
        y.register_hook(lambda g: alive.append(sum(r() is not None for r in watched)))
        y = y * 1e-3
    watched: list[Any] = []
    node = y.grad_fn
    while node is not None and node.next_functions:
        if node.name() == "ExpBackward0":
            watched.append(weakref.ref(node._raw_saved_result))
        node = node.next_functions[0][0]
    y.sum().backward()
    assert alive == [4, 3, 2, 1] and sys.getrefcount(watched) >= 1


def test_what_a_node_saved_is_listed(rng: Rng) -> None:
    x = weft.from_numpy(rng.uniform(0.5, 1.5, 3)).requires_grad_()
    for y, names in ((x.exp(), ["result"]), (x * x, ["other", "self"]), (x.max(0)[0], ["dim", "keepdim", "result1"])):
        listed = [name for name in dir(y.grad_fn) if name.startswith("_saved_")]
        assert listed == [f"_saved_{name}" for name in names]
        assert all(getattr(y.grad_fn, name) is not None and f"_raw{name}" in dir(y.grad_fn) for name in listed)
