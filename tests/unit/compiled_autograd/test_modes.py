"""Compiled autograd under anomaly mode and function transforms, callbacks, nested calls, and the bound on programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft.autograd import anomaly
from weft.compiled_autograd.cache import cache
from weft.compiled_autograd.specialize import NativePart
from weft.support import limits
from weft.support.counters import counters

Rng = np.random.Generator


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    ca.reset()


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


class Fails(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        raise ValueError("zz")


class Spoils(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        return x + y

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        return g, g * float("nan")


def _root(x: weft.Tensor) -> weft.Tensor:
    return (x - 1e9).sqrt().sum()  # NaN


def _written(x: weft.Tensor) -> weft.Tensor:
    y = x * 1.0
    y[1:].mul_((x[1:] - 1e9).sqrt())
    return y.sum()


def _spoiled(x: weft.Tensor) -> weft.Tensor:
    return Spoils.apply(x * 2, x.sin()).sum()


def _outcome(loss: Any, x: weft.Tensor, compiled: bool) -> tuple[Any, ...]:
    calls = cache.calls
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with weft.autograd.detect_anomaly(), (ca.enable() if compiled else ca.disable()):
            try:
                loss(x).backward()
                error: tuple[Any, ...] = (None, "")
            except Exception as found:
                error = (type(found), str(found))
    assert (cache.calls > calls) is compiled  # the engine did not walk itself
    return (*error, [str(w.message) for w in caught if "forward call" in str(w.message)])


@pytest.mark.parametrize("loss", [_root, _written, _spoiled, lambda x: Fails.apply(x).sum(), lambda x: x.exp().sum()])
def test_anomaly_mode_names_node_and_line(rng: Rng, loss: Any) -> None:
    """The same error, the same node, the same edge and the same line of the forward as the engine."""
    x = leaf(rng, 4)
    eager, compiled = (_outcome(loss, x, c) for c in (False, True))
    assert eager == compiled
    if loss is _root:
        assert "SqrtBackward0" in compiled[1] and "0th output" in compiled[1] and "test_modes.py" in compiled[1]
    if loss is _spoiled:
        assert "SpoilsBackward" in compiled[1] and "1th output" in compiled[1]


def test_anomaly_mode_shares_captures_and_says_that_it_is_on(rng: Rng) -> None:
    x = leaf(rng, 4)
    before = counters.captures
    for on in (False, True, False, True):
        x.grad = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with weft.autograd.set_detect_anomaly(on), ca.enable():
                assert weft.is_anomaly_enabled() is on
                (x * x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    assert counters.captures - before == 1 and not anomaly.anomaly.enabled


def test_transforms_inside(rng: Rng) -> None:
    """grad, vmap, jvp and their nests take gradients by the captured graph, and give what they give without."""
    x, w = weft.from_numpy(rng.standard_normal((3, 4))), weft.from_numpy(rng.standard_normal(4))

    def f(v: weft.Tensor, u: weft.Tensor) -> weft.Tensor:
        return (v.sin() * u).sum() ** 2

    cases: list[Any] = [
        lambda: weft.func.grad(f)(x[0], w), lambda: weft.func.vmap(weft.func.grad(f), (0, None))(x, w),
        lambda: weft.func.grad(lambda v: weft.func.grad(f)(v, w).sum())(x[1]),
        lambda: weft.func.vmap(weft.func.hessian(f), (0, None))(x, w),
        lambda: weft.func.jvp(weft.func.grad(lambda v: f(v, w)), (x[2],), (w,))[1],
    ]
    expected = [case().numpy() for case in cases]
    for case, e in zip(cases, expected, strict=True):
        for _ in range(2):
            calls = cache.calls
            with ca.enable():
                np.testing.assert_allclose(case().numpy(), e, rtol=1e-9)
            assert cache.calls > calls


def test_callbacks_come_last_and_queue_callbacks(rng: Rng) -> None:
    x = leaf(rng, 3)
    queue = weft.autograd.Variable._execution_engine.queue_callback
    for compiled in (False, True):
        log: list[Any] = []
        x.grad = None

        def second(log: list[Any] = log) -> None:
            log.append("second")

        def first(log: list[Any] = log, second: Any = second) -> None:
            log.append(("first", x.grad is not None))
            queue(second)

        y = x * 2
        y.register_hook(lambda g, first=first: queue(first))  # type: ignore[misc]
        with ca.enable() if compiled else ca.disable():
            y.sum().backward()
        assert log == [("first", True), "second"]
    with ca.enable(), pytest.raises(RuntimeError, match="during backward pass"):
        queue(lambda: None)


def test_backward_calls_within_backward_calls(rng: Rng) -> None:
    """As deep as one likes, in hooks and in custom Functions."""
    x = leaf(rng, 3)

    class Inner(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, v: weft.Tensor, depth: int) -> weft.Tensor:
            ctx.save_for_backward(v)
            ctx.depth = depth
            return v.detach() ** 2

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            (v,) = ctx.saved_tensors
            with weft.enable_grad():
                u = v.detach().requires_grad_()
                y = (Inner.apply(u, ctx.depth - 1) if ctx.depth else u * u).sum()
            (found,) = weft.autograd.grad(y, u)
            return g * found, None

    calls = cache.calls
    with ca.enable():
        Inner.apply(x, 60).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    assert cache.calls - calls == 62


def test_integers_do_not_pile_up_programs(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index is an input of the program. Answers about an integer make another one, up to a bound; what comes then is
    right all the same."""

    def most(values: range, value_of: Callable[[weft.Tensor, int], weft.Tensor]) -> int:
        ca.reset()
        table = leaf(rng, len(values), 2)
        for value in values:
            table.grad = None
            with ca.enable():
                value_of(table, value).sum().backward()
            ours = table.grad.numpy().copy()
            table.grad = None
            value_of(table, value).sum().backward()
            np.testing.assert_array_equal(ours, table.grad.numpy())
        return max(len(variants) for part in _parts() for variants in part.programs)

    rows = 22
    assert most(range(rows), lambda t, k: weft.nn.functional.embedding(weft.arange(rows), t, padding_idx=k)) <= 2
    assert most(range(-8, 14), lambda t, k: t.diagonal(k)) == 4
    monkeypatch.setattr(limits, "PROGRAMS_OF_A_PART", 3)
    assert most(range(-8, 14), lambda t, k: t.diagonal(k)) == 3


def test_parts_of_one_structure_have_one_program(rng: Rng) -> None:
    """A part ends at each hook: layers that are alike are compiled once, however many there are, in other calls too."""
    layers = int(rng.integers(8, 16))
    for _ in range(2):
        x = leaf(rng, int(rng.integers(2, 9)))
        h, factors = x, rng.uniform(0.5, 1.5, layers)
        for factor in factors:
            h = (h * float(factor)).sin().exp()
            h.register_hook(lambda g: g * 2)
        with ca.enable():
            h.sum().backward()
        value, expected = x.detach().numpy(), 1.0
        for factor in factors:
            slope, value = factor * np.cos(value * factor), np.exp(np.sin(value * factor))
            expected = expected * 2 * slope * value
        np.testing.assert_allclose(x.grad.numpy(), expected)
        layers += 1
    parts = [part for part in _parts() if part.has_run]
    assert len(parts) == 2 * layers - 3 and len({id(part.programs) for part in parts}) <= 4


def _parts() -> list[NativePart]:
    programs = [p for captured in cache.graphs() for p in captured.compiled.values()]
    return [run for p in programs for run in getattr(p, "runs", ()) if isinstance(run, NativePart)]
