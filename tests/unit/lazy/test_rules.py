"""Rules that are replayed: formulas of gradients and updates of optimizers are recorded once for operands of the same
types. Values, layouts, aliases and counts are those of rules that run."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from weft import lazy, nn
from weft.lazy.backend import lazy_at
from weft.nn import functional as F


def _entries() -> int:
    return len(lazy_at(0).where.trace.nodes)


def _counts() -> dict[str, int]:
    return {n: lazy.metrics.counter_value(n) or 0 for n in lazy.metrics.counter_names() if n.startswith("lazy::")}


def _loss(x: Any, w: Any, b: Any) -> Any:
    rows = F.linear(x, w, b).view(x.shape[0], 2, -1).transpose(0, 1)
    return (F.softmax(rows, -1) * rows.permute(1, 0, 2).transpose(0, 1)).square().sum(-1).mean()


def _drawn(rng: np.random.Generator) -> tuple[Any, ...]:
    n, k, m = (int(v) for v in rng.integers(2, 7, 3))
    return tuple(rng.standard_normal(s).astype(np.float32) for s in ((n, k), (2 * m, k), (2 * m,)))


@pytest.mark.parametrize("case", range(3))
def test_gradients_are_those_of_eager_mode_when_formulas_are_replayed(case: int, rng: np.random.Generator) -> None:
    arrays = _drawn(rng)
    grads, strides = [], []
    for device in ("cpu", "lazy", "lazy", "lazy"):
        given = [weft.tensor(a, device=device, requires_grad=True) for a in arrays]
        found = weft.autograd.grad(_loss(*given), given)
        strides.append([g.stride() for g in found])
        grads.append([g.cpu().numpy() for g in found])
    for again, lie in zip(grads[1:], strides[1:], strict=True):
        assert lie == strides[0]
        for g, expected in zip(again, grads[0], strict=True):
            np.testing.assert_allclose(g, expected, rtol=2e-4, atol=1e-6)


def test_a_replayed_backward_is_fewer_entries_and_counts_the_same_calls(rng: np.random.Generator) -> None:
    arrays = _drawn(rng)
    entries, counts = [], []
    for _ in range(3):
        given = [weft.tensor(a, device="lazy", requires_grad=True) for a in arrays]
        lazy.metrics.reset()
        _loss(*given).backward()
        entries.append(_entries())
        counts.append(_counts())
        lazy.mark_step()
    assert counts[0] == counts[1] == counts[2]
    assert entries[1] < 0.8 * sum(counts[1].values())
    assert lazy.metrics.counter_value("UncachedCompile") in (None, 0, 1)


def test_views_among_gradients_stay_views(rng: np.random.Generator) -> None:
    a = rng.standard_normal((3, 4)).astype(np.float32)
    shown = []
    for device in ("cpu", "lazy", "lazy"):
        x = weft.tensor(a, device=device, requires_grad=True)
        y = (x * 2).t()
        z = y.view(4, 3)
        for t in (y, z):
            t.retain_grad()
        (z * z).sum().backward()
        z.grad[0, 0] = 5  # y's gradient is a view of z's
        shown.append((y.grad.cpu().numpy(), y.grad.stride(), y.grad._is_view(), x.grad.stride()))
    for found in shown[1:]:
        np.testing.assert_allclose(found[0], shown[0][0], rtol=1e-5)
        assert found[1:] == shown[0][1:]


def _trained(device: str, make: Any, steps: int = 6) -> tuple[list[np.ndarray], list[int]]:
    weft.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).to(device)
    optimizer = make(model.parameters())
    compiles = []
    for i in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * (i + 1)
        x = weft.tensor(np.random.default_rng(i).standard_normal((6, 4)).astype(np.float32), device=device)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        before = _entries()
        optimizer.step()
        if device == "lazy":
            assert not i or _entries() == before + 1  # all parameters together
            lazy.mark_step()
            compiles.append(lazy.metrics.counter_value("UncachedCompile") or 0)
    return [p.detach().cpu().numpy() for p in model.parameters()], compiles


OPTIMIZERS = {
    "adam": lambda p: weft.optim.Adam(p, weight_decay=0.01, amsgrad=True),
    "adam without decay": lambda p: weft.optim.Adam(p, weight_decay=0.0, eps=1.0),
    "adamw": lambda p: weft.optim.AdamW(p, maximize=True),
    "sgd": lambda p: weft.optim.SGD(p, weight_decay=0.1),
    "nesterov": lambda p: weft.optim.SGD(p, momentum=0.9, nesterov=True),
    "dampened": lambda p: weft.optim.SGD(p, momentum=0.5, dampening=0.3, weight_decay=0.0),
    "rmsprop": lambda p: weft.optim.RMSprop(p, momentum=0.9, centered=True),
    "nadam": lambda p: weft.optim.NAdam(p, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda p: weft.optim.RAdam(p, weight_decay=0.1),
    "adadelta": lambda p: weft.optim.Adadelta(p, weight_decay=0.1),
    "adagrad": lambda p: weft.optim.Adagrad(p, lr_decay=0.1),
    "adamax": lambda p: weft.optim.Adamax(p),
    "rprop": lambda p: weft.optim.Rprop(p),
    "asgd": lambda p: weft.optim.ASGD(p, t0=0, weight_decay=0.1),
    "adafactor": lambda p: weft.optim.Adafactor(p, weight_decay=0.1),
    "muon": lambda p: weft.optim.Muon([q for q in p if q.ndim == 2]),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_replayed_updates_train_as_eager_ones_and_compile_nothing_for_another_rate(name: str) -> None:
    expected, _ = _trained("cpu", OPTIMIZERS[name])
    found, compiles = _trained("lazy", OPTIMIZERS[name])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert compiles[-1] - compiles[2] <= (name == "radam")  # which begins to adapt at its sixth step


@pytest.mark.parametrize("name", ["nadam", "asgd"])
def test_numbers_of_an_optimizers_own_do_not_wait_in_a_split_step(name: str) -> None:
    """Those of the first step among them, which makes them: nothing is cut for them."""
    p = weft.ones(3, requires_grad=True)
    optimizer = OPTIMIZERS[name]([p])

    @deferred
    def step() -> None:
        optimizer.zero_grad()
        p.square().sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    assert not step.cuts


def test_an_update_of_tensors_that_share_memory_is_not_replayed() -> None:
    results = []
    for device in ("cpu", "lazy"):
        p = weft.ones(3, device=device, requires_grad=True)
        optimizer = weft.optim.SGD([p], lr=0.5)
        for _ in range(3):
            p.grad = p.detach()  # the gradient shows the parameter itself
            optimizer.step()
        results.append(p.detach().cpu().tolist())
    assert results[0] == results[1]


def test_what_a_rule_does_is_recorded_again_where_an_operator_is_forced(rng: np.random.Generator) -> None:
    arrays = _drawn(rng)

    def backward() -> dict[str, int]:
        given = [weft.tensor(a, device="lazy", requires_grad=True) for a in arrays]
        _loss(*given).backward()
        return {n: lazy.metrics.counter_value(n) or 0 for n in lazy.metrics.counter_names() if n.startswith("aten::")}

    backward()
    assert not backward()
    lazy.config.set_force_fallback("aten::mul")
    assert backward()["aten::mul"] > 0


def test_versions_and_lines_are_those_of_updates_that_run() -> None:
    p = weft.ones(3, device="lazy", requires_grad=True)
    q = weft.ones(3, requires_grad=True)
    for t in (p, q):
        optimizer = weft.optim.Adam([t])
        for _ in range(3):
            (t * t).sum().backward()
            optimizer.step()
    assert p._version == q._version
    loss = (p * p).sum()
    with weft.no_grad():
        p.add_(1)
    with pytest.raises(RuntimeError, match=r"test_rules\.py"):
        loss.backward()


def test_rules_for_ever_new_sizes_run_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.support import limits

    monkeypatch.setattr(limits, "KINDS_OF_A_RULE", 3)
    for n in range(2, 9):
        x = weft.arange(float(n), device="lazy", requires_grad=True)
        (x.exp() * x).sum().backward()
        assert np.allclose(x.grad.cpu().numpy(), [np.exp(v) * (v + 1) for v in range(n)], rtol=1e-4)


def test_sizes_of_replayed_formulas_are_inputs_of_one_program() -> None:
    for n in range(3, 12):
        v = np.arange(n, dtype=np.float32)
        x = weft.tensor(v, device="lazy", requires_grad=True)
        (x.sin().view(1, -1) * x).mean().backward()
        lazy.mark_step()
        np.testing.assert_allclose(x.grad.cpu().numpy(), (np.cos(v) * v + np.sin(v)) / n, rtol=1e-4, atol=1e-6)
    assert lazy.metrics.counter_value("UncachedCompile") == 1


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "sgd", "nesterov", "adadelta"])
def test_the_first_step_of_an_optimizer_is_the_program_of_those_that_follow(name: str) -> None:
    _, compiles = _trained("lazy", OPTIMIZERS[name])
    assert compiles == [1] * len(compiles)


def test_many_steps_leave_memory_as_it_was() -> None:
    weft.manual_seed(0)
    model = nn.Linear(4, 3).to("lazy")
    optimizer = weft.optim.Adam(model.parameters())

    def objects(steps: int) -> int:
        for i in range(steps):
            optimizer.zero_grad()
            model(weft.randn(2 + i % 5, 4, device="lazy")).square().mean().backward()
            optimizer.step()
            lazy.mark_step()
        lazy.wait_device_ops()
        gc.collect()
        return len(gc.get_objects()) + lazy_at(0).where.trace.made

    before = objects(int(os.environ.get("WEFT_LAZY_STEPS", "40")))
    assert objects(int(os.environ.get("WEFT_LAZY_STEPS", "120"))) - before < 40


def test_rules_are_recorded_anew_for_another_default_dtype() -> None:
    def kinds() -> int:
        x = weft.ones(3, device="lazy", dtype=weft.float32, requires_grad=True)
        (x.exp() * x).sum().backward()
        assert x.grad.cpu().tolist() == pytest.approx([2 * np.e] * 3)
        rules = lazy_at(0).where.rules
        assert rules is not None
        return len(rules._known)

    kinds()
    assert (known := kinds()) == kinds() > 0
    weft.set_default_dtype(weft.float64)
    try:
        assert kinds() == kinds() > known
    finally:
        weft.set_default_dtype(weft.float32)
