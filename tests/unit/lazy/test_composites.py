"""Composites that are replayed with their history: the nodes, what they saved, and the gradients of every order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from weft import lazy
from weft.nn import functional as F

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cross_entropy": lambda x, w, y: F.cross_entropy(x, y),
    "weighted": lambda x, w, y: F.cross_entropy(x, y, w.detach()[0].square(), label_smoothing=0.25, reduction="sum"),
    "nll_loss": lambda x, w, y: F.nll_loss(x, y, ignore_index=1),
    "layer_norm": lambda x, w, y: F.layer_norm(x, (x.shape[1],), w[0], w[1]),
    "batch_norm": lambda x, w, y: F.batch_norm(x, None, None, w[0], training=True),
    "mse_loss": lambda x, w, y: F.mse_loss(x, w),
    "softmax": lambda x, w, y: F.softmax(x, -1) * F.log_softmax(w, 0),
    "attention": lambda x, w, y: F.scaled_dot_product_attention(x[None], w[None], x.tanh()[None]),
    "matmul": lambda x, w, y: weft.matmul(x[None, :, None], w.t()),
    "smooth": lambda x, w, y: F.smooth_l1_loss(x, w) + F.kl_div(x, w.softmax(0), reduction="batchmean"),
    "norms": lambda x, w, y: F.normalize(x) @ F.cosine_similarity(x, w, 0),
    "two": lambda x, w, y: sum(t.sum() * (i + 2) for i, t in enumerate(weft.var_mean(x * w, 1))),
}


def _names(node: Any) -> list[Any]:
    return [None if node is None else node.name(), *[_names(n) for n, _ in (node.next_functions if node else ())]]


def _once(device: str, call: Any, arrays: list[np.ndarray]) -> Any:
    x, w = (weft.tensor(a, device=device, requires_grad=True) for a in arrays[:2])
    y = weft.tensor(arrays[2], device=device)
    out = call(x, w, y)
    names = _names(out.grad_fn)
    first = weft.autograd.grad(out.sum(), (x, w), create_graph=True, allow_unused=True)
    again = sum((g * g).sum() for g in first if g is not None and g.requires_grad)
    second = weft.autograd.grad(again, (x, w), allow_unused=True) if isinstance(again, weft.Tensor) else ()
    call(x, w, y).sum().backward()
    found = [out, *first, *second, x.grad, w.grad]
    return names, [None if t is None else (t.detach().cpu().tolist(), t.stride()) for t in found]


def _same(found: Any, wanted: Any) -> None:
    assert found[0] == wanted[0]
    for f, w in zip(found[1], wanted[1], strict=True):
        assert (f is None) == (w is None)
        if f is not None:
            np.testing.assert_allclose(f[0], w[0], rtol=1e-3, atol=1e-4)
            assert f[1] == w[1]


@pytest.mark.parametrize("name", CALLS)
def test_values_histories_and_gradients_are_those_of_eager_mode(name: str, rng: Any) -> None:
    with weft.knobs(backend="interpret"):
        _compared(name, rng)


def _compared(name: str, rng: Any) -> None:
    for _ in range(2):  # two sizes
        n, m = (int(v) for v in rng.integers(2, 6, 2))
        arrays = [rng.standard_normal((n, m)).astype(np.float32) for _ in range(2)] + [rng.integers(0, m, n)]
        wanted = _once("cpu", CALLS[name], arrays)
        for _ in range(2):
            _same(_once("lazy", CALLS[name], arrays), wanted)
            lazy.mark_step()
        step = deferred(lambda given: _once("cpu", CALLS[name], given))
        for _ in range(2):
            _same(step(arrays), wanted)


def test_a_composite_is_one_entry_and_counts_its_calls(rng: Any) -> None:
    from weft.lazy.backend import lazy_at

    x = weft.tensor(rng.standard_normal((4, 3)), device="lazy", requires_grad=True)
    y = weft.tensor([0, 2, 1, 1], device="lazy")
    counts = []
    for _ in range(3):
        lazy.mark_step()
        lazy.metrics.reset()
        F.cross_entropy(x, y)
        assert len(lazy_at(0).where.trace.nodes) == 1
        counts.append({n: lazy.metrics.counter_value(n) for n in lazy.metrics.counter_names() if "::" in n})
    assert counts[0] == counts[1] == counts[2] and counts[0]["lazy::cross_entropy"] == 1


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_saved_tensors_know_of_writes_and_hooks(device: str) -> None:
    for _ in range(3):
        _heard(device)


def _heard(device: str) -> None:
    q = weft.ones(2, 3, device=device, requires_grad=True)
    k = (q * 2).detach()
    out = F.scaled_dot_product_attention(q[None], k[None], k[None])
    k.add_(1)
    with pytest.raises(RuntimeError, match="inplace operation"):
        out.sum().backward()
    seen: list[Any] = []

    def heard(*given: Any) -> None:
        seen.append("heard")

    def packed(t: Any) -> Any:
        seen.append(t.shape)
        return t

    with weft.autograd.graph.saved_tensors_hooks(packed, lambda t: t):
        F.cross_entropy(q, weft.tensor([0, 2], device=device)).backward()
    assert seen
    loss = F.cross_entropy(q, weft.tensor([0, 2], device=device))
    loss.grad_fn.next_functions[0][0].register_hook(heard)
    loss.backward()
    assert seen[-1] == "heard"


def test_streams_of_numbers_are_those_of_eager_mode(rng: Any) -> None:
    found, seed = [], int(rng.integers(100))
    for device in ("cpu", "lazy"):
        weft.manual_seed(seed)
        x = weft.ones(5, device=device, requires_grad=True)
        found.append([(F.dropout(x, 0.5) * weft.rand(5, device=device)).tolist() for _ in range(4)])
    assert found[0] == found[1]


def test_running_averages_are_written_each_time(rng: Any) -> None:
    array = rng.standard_normal((6, 3)).astype(np.float32)
    found = []
    for device in ("cpu", "lazy"):
        norm = weft.nn.BatchNorm1d(3).to(device)
        for _ in range(4):
            norm(weft.tensor(array, device=device)).sum().backward()
        found.append([norm.running_mean.tolist(), norm.running_var.tolist(), norm.weight.grad.tolist()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
