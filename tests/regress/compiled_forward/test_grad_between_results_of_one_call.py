"""Results of one compiled call that others of its results are computed from: gradients of one by the other, hooks and
retained gradients are those of eager mode, over several calls with other sizes."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

SIZES = (3, 5, 2)


def base(x: Any) -> Any:
    y = x * 2
    return y * y, y


def of_view(x: Any) -> Any:
    whole = x * 2
    y = whole[1:]
    return (y * y).sum() + whole[0], y, whole


def chain(x: Any) -> Any:
    h = x.sin()
    y = h.exp()
    return (y * h).sum(), y, h, y


def heard_inside(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return y * y, y


def written_inside(x: Any) -> Any:
    y = x * 2
    y[1:].mul_(3)
    return y * y, y


FUNCTIONS = [base, of_view, chain, heard_inside, written_inside]
MODES = {
    "interpret": lambda f: weft.compile(f, backend="interpret"), "native": weft.compile,
    "split": lambda f: weft.compile(f, split=True), "lazy": lambda f: f,
}


@pytest.fixture(params=[*MODES, "compiled autograd"])
def seen(request: Any) -> Callable[[Callable[[Any], Any], Callable[[Any, Any], Any]], None]:
    """Whether what `look(x, results)` gives is the same for a function as eager mode and as this one runs it."""
    mode = request.param
    block = weft.compiled_autograd.enable if mode == "compiled autograd" else contextlib.nullcontext

    def numbers(value: Any) -> Any:
        if isinstance(value, weft.Tensor):
            return value.tolist()
        return [numbers(v) for v in value] if isinstance(value, (list, tuple)) else value

    def check(function: Any, look: Any) -> None:
        run = MODES.get(mode, weft.compile)(function)
        for n in SIZES:
            found = []
            for f, device in ((function, None), (run, "lazy" if mode == "lazy" else None)):
                x = weft.linspace(0.5, 1.5, n, dtype=weft.float64).to(device or "cpu").detach().requires_grad_()
                with block() if f is run else contextlib.nullcontext():
                    found.append(numbers(look(x, f(x))))
            np.testing.assert_equal(str(np.array(_flat(found[0])).round(9)), str(np.array(_flat(found[1])).round(9)))

    return check


def _flat(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return [float("nan") if value is None else value]
    return [x for v in value for x in _flat(v)]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_by_results(function: Any, seen: Any) -> None:
    def look(x: Any, results: Any) -> Any:
        return [
            weft.autograd.grad(a.sum(), b, retain_graph=True, allow_unused=True)[0] for a in results for b in results
        ] + list(weft.autograd.grad(sum(r.sum() for r in results), [x, results[1]]))

    seen(function, look)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_hooks_and_retained_gradients(function: Any, seen: Any) -> None:
    def look(x: Any, results: Any) -> Any:
        heard: list[Any] = []
        for i, r in enumerate(results):
            r.register_hook(lambda g, i=i: heard.append((i, g.tolist())))
            r.register_hook(lambda g: g * 2)
            r.retain_grad()
        results[0].sum().backward(retain_graph=True)
        sum(r.sum() for r in results).backward()
        return heard, [r.grad for r in results], x.grad

    seen(function, look)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_orders_of_gradients(function: Any, seen: Any) -> None:
    def look(x: Any, results: Any) -> Any:
        y, by_y = results[1], []
        of = results[0].sum()
        for _ in range(3):
            (gradient,) = weft.autograd.grad(of, y, create_graph=True, allow_unused=True)
            if gradient is None or not gradient.requires_grad:
                break
            by_y.append(gradient)
            of = (gradient**2).sum()
        (by_x,) = weft.autograd.grad(sum(g.sum() for g in by_y) + (y * y).sum(), x)
        return by_y, by_x

    seen(function, look)


def test_a_write_behind_the_call(seen: Any) -> None:
    def look(x: Any, results: Any) -> Any:
        z, y = results
        heard: list[Any] = []
        y.register_hook(lambda g: heard.append(g.tolist()))
        z.sum().backward(retain_graph=True)
        y.retain_grad()
        y.mul_(3)
        y.sum().backward()
        return heard, y.grad, x.grad

    seen(lambda x: (lambda y: (y + 1, y))(x * 2), look)


def test_runs_that_free(seen: Any) -> None:
    def look(x: Any, results: Any) -> Any:
        z, y = results
        (first,) = weft.autograd.grad(z.sum(), y)  # frees what lies between
        with pytest.raises(RuntimeError, match="second time"):
            z.sum().backward()
        x.grad = None
        y.sum().backward()
        return first, x.grad

    seen(lambda x: (lambda y: (y.exp(), y))(x.sin()), look)


def test_a_run_that_only_hands_on_frees_nothing(seen: Any) -> None:
    def look(x: Any, results: Any) -> Any:
        z, y = results
        (first,) = weft.autograd.grad(z.sum(), y, retain_graph=True)
        weft.autograd.grad(y.sum(), y)
        z.sum().backward()
        return first, x.grad

    seen(lambda x: (lambda y: (y.exp(), y))(x.sin()), look)


def test_state_and_another_function(seen: Any) -> None:
    class Cell:
        h: Any = None

        def step(self, x: Any) -> Any:
            h = x.sin() if self.h is None else (self.h.sum() * x).sin()
            self.h = h
            return (h * h).sum()

    def look(x: Any, results: Any) -> Any:
        cell = Cell()
        step = weft.compile(cell.step)
        first = step(x)
        h = cell.h
        second = step(x * 2)
        z, y = base(h) if isinstance(results, int) else weft.compile(base)(h)
        return [weft.autograd.grad(v.sum(), h, retain_graph=True)[0] for v in (first, second, z, y)]

    seen(lambda x: x * 1, look)


def test_hooks_on_several_results(seen: Any) -> None:
    def look(x: Any, results: Any) -> Any:
        heard: list[Any] = []
        z, y = results
        weft.autograd.graph.register_multi_grad_hook([z, y], lambda gs: heard.append([g and g.tolist() for g in gs]))
        y.sum().backward(retain_graph=True)
        z.sum().backward()
        return [[len(h), *[v for v in h if v is not None]] for h in heard]

    seen(lambda x: (lambda y: ((y * y).sum(), y.sum()))(x * 2), look)


def test_a_hook_that_is_added_on_the_way(seen: Any) -> None:
    def look(x: Any, results: Any) -> Any:
        heard: list[Any] = []
        z, y = results
        z.register_hook(lambda g: y.register_hook(lambda g: heard.append(g.tolist())) and None)
        z.sum().backward(retain_graph=True)
        return heard, x.grad

    seen(base, look)


def test_programs_are_compiled_once_for_all_calls() -> None:
    f = weft.compile(base)
    counts = []
    for n in SIZES:
        x = weft.ones(n, requires_grad=True)
        z, y = f(x)
        weft.autograd.grad(z.sum(), y, retain_graph=True)
        z.sum().backward()
        counts.append((weft.counters.captures, weft.counters.llvm_compiles))
    assert counts[0] == counts[-1]


def test_calls_are_let_go() -> None:
    f = weft.compile(base)
    gc.collect()
    gc.disable()
    try:
        for hears in (False, True):
            z, y = f(weft.ones(3, requires_grad=True))
            if hears:
                y.register_hook(lambda g: None)
            kept = [weakref.ref(z._node), weakref.ref(z), weakref.ref(y)]
            z.sum().backward()
            del z, y
            assert [ref() for ref in kept] == [None] * 3
    finally:
        gc.enable()


@pytest.mark.parametrize("split", [False, True])
def test_hooks_hear_nothing_where_only_other_results_of_an_earlier_call_lead_to_what_is_asked_for(split: bool) -> None:
    def step(x: Any, h: Any, w: Any) -> Any:
        y = x * h
        return y * h * w, y, y * h, h * 2

    def run(function: Any) -> list[Any]:
        heard: list[Any] = []
        w = weft.ones(1, requires_grad=True)
        fed: Any = None
        for n in (3, 3, 4, 4):
            x = weft.linspace(0.5, 1, n, requires_grad=True)
            h = x * 2 if fed is None or len(fed) != n else fed
            z, y, by_h, fed = function(x, h, w)
            y.register_hook(lambda g: heard.append(g.tolist()))
            for result in (by_h, z):
                (g,) = weft.autograd.grad(result.sum(), w, retain_graph=True, allow_unused=True)
                heard.append(None if g is None else g.tolist())
        return heard

    expected = run(step)
    found = run(weft.compile(step, split=split))
    assert [g is None for g in found] == [g is None for g in expected]
    for a, b in zip(found, expected, strict=True):
        assert a is None or a == pytest.approx(b, rel=1e-5)


def _relu_between(x: Any, h: Any) -> Any:
    y = x * h.detach()
    z = y.relu() + h
    return z, y


def _written_through_a_view(x: Any, h: Any) -> Any:
    y = x * 1
    y[1:].add_(h[1:])
    return x * 0.5 - y, y


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("function", [_relu_between, _written_through_a_view])
def test_what_saved_nothing_is_not_freed(function: Any, recorded: bool) -> None:
    def run(step: Any) -> list[Any]:
        log = []
        with weft.compiled_autograd.enable() if recorded else contextlib.nullcontext():
            for n in SIZES:
                x, h = (weft.linspace(-1, 2, n, requires_grad=True) for _ in range(2))
                z, y = step(x, h)
                log.append(weft.autograd.grad(z.sum(), y if function is _relu_between else h)[0].tolist())
                (z if function is _relu_between else y).sum().backward(inputs=[h])
                log.append(h.grad.tolist())
        return log

    assert run(weft.compile(function)) == run(function)
