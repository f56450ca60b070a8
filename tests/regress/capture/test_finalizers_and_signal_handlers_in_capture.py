"""Finalizers, callbacks and handlers that run while a step is captured: they run as in eager mode, and are no part of
the program."""

from __future__ import annotations

import gc
import re
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from tests.deferred import deferred
from weft.ops.route import default_route

SEEN: list[str] = []
double = weft.compile(lambda x: x * 2)


class Plain:
    """What can be referred to weakly."""


class Held:
    """An object with a finalizer."""

    def __del__(self) -> None:
        work("finalizer")


def work(name: str) -> None:
    """What such code may do: compiled functions, gradients, draws, values."""
    try:
        w = weft.full((2,), 3.0, requires_grad=True)
        (w * w).sum().backward()
        weft.rand(2).tolist()
        right = double(w.detach()).tolist() == w.grad.tolist() == [6.0, 6.0]
        SEEN.append(name if right else f"{name}: wrong values")
    except Exception as error:
        SEEN.append(f"{name}: {error}")


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    SEEN.clear()
    gc.disable()
    yield
    gc.enable()


def finalizer_of_a_cycle() -> None:
    held: Any = Held()
    held.me = held
    del held
    gc.collect()


def finalizer_of_a_local() -> None:
    held = Held()
    del held


def callback() -> None:
    held = Plain()
    reference = weakref.ref(held, lambda dead: work("callback"))
    del held
    assert reference() is None


@pytest.mark.parametrize(
    "happens", [finalizer_of_a_cycle, finalizer_of_a_local, callback], ids=lambda function: function.__name__
)
def test_it_runs_with_real_tensors(happens: Callable[[], None]) -> None:
    def step(x: Any) -> Any:
        y = x + 1
        happens()
        return y * 2

    compiled = weft.compile(step)
    assert compiled(weft.ones(2)).tolist() == [4.0, 4.0]
    assert SEEN and all(name in ("finalizer", "callback") for name in SEEN), SEEN
    assert compiled(weft.zeros(3)).tolist() == [2.0] * 3


def test_a_callback_of_gc() -> None:
    def collected(phase: str, info: dict[str, int]) -> None:
        work(phase)

    def step(x: Any) -> Any:
        gc.collect()
        return x + 1

    gc.callbacks.append(collected)
    try:
        assert weft.compile(step)(weft.ones(1)).item() == 2.0
    finally:
        gc.callbacks.remove(collected)
    assert SEEN == ["start", "stop"]


def test_what_it_changes_was_there_before() -> None:
    counts = {"n": 0}

    class Counting:
        def __del__(self) -> None:
            counts["n"] += 10

    holder: Any = Plain()

    def step(x: Any) -> Any:
        y = x * (1 + len(counts))
        holder.part = None
        return y

    holder.part = Counting()
    assert weft.compile(step)(weft.ones(1)).item() == 2.0
    assert counts["n"] in (0, 10)


@pytest.mark.skipif(not hasattr(signal, "raise_signal") or sys.platform == "win32", reason="needs SIGUSR1")
def test_a_signal_handler() -> None:
    assert threading.current_thread() is threading.main_thread()

    def handler(number: int, frame: Any) -> None:
        work("signal")

    def step(x: Any) -> Any:
        y = x + 1
        signal.raise_signal(signal.SIGUSR1)
        return y

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert weft.compile(step)(weft.ones(1)).item() == 2.0
        assert signal.getsignal(signal.SIGUSR1) is handler
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert SEEN == ["signal"]


def test_a_trace_function() -> None:
    def step(x: Any) -> Any:
        return x * 3

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code is step.__code__:
            work("trace")
            return tracer
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        value = weft.compile(step)(weft.ones(1)).item()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert value == 3.0 and set(SEEN) == {"trace"}


HAPPENINGS = [finalizer_of_a_cycle, finalizer_of_a_local, callback]


def signalled() -> None:
    before = signal.signal(signal.SIGUSR1, lambda number, frame: work("signal"))
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def finalize() -> None:
    held = Plain()
    weakref.finalize(held, work, "finalize")
    del held


@pytest.mark.parametrize("happens", [*HAPPENINGS, finalize, signalled], ids=lambda function: function.__name__)
def test_a_trace_says_nothing_of_it(happens: Callable[[], None]) -> None:
    def step(x: Any) -> Any:
        y = x + 1
        happens()
        return y * 2

    traced = weft.jit.trace(step, (weft.ones(2),))
    assert SEEN and not [name for name in SEEN if ":" in name], SEEN
    assert re.findall(r" = (\S+)\(", str(traced.graph)) == ["aten::add.Tensor", "aten::mul.Tensor"]
    assert traced(weft.zeros(3)).tolist() == [2.0] * 3


@pytest.mark.parametrize("happens", [*HAPPENINGS, finalize], ids=lambda function: function.__name__)
def test_a_split_function_is_not_cut_by_it(happens: Callable[[], None]) -> None:
    def step(x: Any) -> Any:
        y = x + 1
        happens()
        return y * 2

    split = deferred(step)
    for n in (2, 2, 3, 4):
        assert split(weft.ones(n)).tolist() == [4.0] * n
    assert len(SEEN) == 4 and not [name for name in SEEN if ":" in name], SEEN
    assert split.cuts == {}


def test_a_split_function_and_a_signal() -> None:
    def step(x: Any) -> Any:
        y = x + 1
        signal.raise_signal(signal.SIGUSR1)
        return y * 2

    split = deferred(step)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: work("signal"))
    try:
        assert split(weft.ones(2)).tolist() == [4.0, 4.0]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert SEEN == ["signal"] and split.cuts == {}


class Cycle:
    """Garbage whose finalizer works, and leaves more of it."""

    busy = False

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        if not Cycle.busy:
            Cycle.busy = True
            work("finalizer")
            SEEN.append("on" if weft.is_grad_enabled() else "off: wrong")
            Cycle.busy = False


def steps_of(mode: str) -> list[float]:
    """The values of a few training steps in a mode, with garbage of that kind about."""
    generator = weft.Generator().manual_seed(0)
    device = "lazy" if mode == "lazy" else "cpu"
    weights = [weft.randn(3, 4, generator=generator), weft.randn(4, 2, generator=generator)]
    weights = [weight.to(device).requires_grad_() for weight in weights]

    def step(x: Any) -> Any:
        Cycle()
        loss = weft.tanh(weft.layer_norm(x @ weights[0], (4,)) @ weights[1]).square().sum()
        loss.backward()
        for weight in weights:
            weight.data.sub_(weight.grad, alpha=0.1)
            weight.grad = None
        return loss.detach()

    run: Callable[[Any], Any] = {"compile": weft.compile, "split": lambda f: weft.compile(f, split=True)}.get(
        mode, lambda f: f
    )(step)
    values = []
    for n in (4, 4, 5, 6):
        x = weft.arange(3.0 * n, device=device).reshape(n, 3) / 10
        if mode == "compiled autograd":
            with weft.compiled_autograd.enable():
                values.append(float(run(x)))
        else:
            values.append(float(run(x)))
    return values


@pytest.mark.parametrize("mode", ["eager", "compile", "split", "lazy", "compiled autograd"])
def test_garbage_is_collected_anywhere(mode: str) -> None:
    expected = steps_of("eager")
    SEEN.clear()
    before = gc.get_threshold()
    gc.enable()
    gc.set_threshold(15, 1, 1)
    try:
        values = steps_of(mode)
    finally:
        gc.set_threshold(*before)
        gc.disable()
    assert values == pytest.approx(expected, rel=1e-5)
    assert SEEN and not [name for name in SEEN if ":" in name], set(SEEN)


class Drawing:
    """Garbage whose finalizer draws, and ends a lazy step."""

    count = 0

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        weft.rand(2)
        weft.rand(3, device="lazy")
        weft.lazy.mark_step()
        Drawing.count += 1


@pytest.mark.parametrize("threshold", [7, 40, 50])
def test_finalizers_draw_while_lazy_calls_wait(threshold: int) -> None:
    """Their draws were taken back at the end of the call that they came into; an inline cache of a trace that they had
    cut was written."""

    def steps() -> list[float]:
        generator, values = weft.Generator().manual_seed(3), []
        w = weft.linspace(-1, 1, 4, device="lazy").requires_grad_()
        for n in (3, 3, 4, 5, 3, 4) * 2:
            Drawing()
            x = weft.arange(4.0 * n, device="lazy").reshape(n, 4) / 10
            h = (x * w * weft.rand((n, 4), generator=generator, device="lazy")).tanh()
            kept = weft.bernoulli(weft.full((), 0.9, device="lazy"), generator=generator)
            h = h[h > 0.01].sum() + weft.layer_norm(h, (4,)).square().sum() * kept
            (gradient,) = weft.autograd.grad(h, w)
            w = (w - 0.1 * gradient).detach().requires_grad_()
            weft.lazy.mark_step()
            values.append(h.item())
        return values

    expected = steps()
    gc.collect()
    weft.lazy.reset()
    weft.manual_seed(1)
    Drawing.count, before = 0, gc.get_threshold()
    gc.enable()
    gc.set_threshold(threshold, 1, 1)
    try:
        values = steps()
    finally:
        gc.set_threshold(*before)
        gc.disable()
    assert values == pytest.approx(expected, rel=1e-4)
    assert Drawing.count and weft.default_generator.place()[::2] == (1, 5 * Drawing.count)


@pytest.mark.skipif(not hasattr(signal, "raise_signal") or sys.platform == "win32", reason="needs SIGUSR1")
def test_a_signal_handler_draws_while_weft_is_at_work() -> None:
    """Within a draw (it waited for itself), and within a rule (its tensor was the rule's)."""
    drawn = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: drawn.append(weft.rand(2)))
    try:
        with weft.default_generator._lock:
            signal.raise_signal(signal.SIGUSR1)
        with default_route(lambda op, args: None):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [x.device.type for x in drawn] == ["cpu", "cpu"] and drawn[0].tolist() != drawn[1].tolist()


def test_callbacks_of_gc_that_were_put_around_ours() -> None:
    seen: list[bool] = []

    def first(phase: str, info: dict[str, int]) -> None:
        seen.append(weft.is_grad_enabled())

    gc.callbacks.append(first)
    try:
        with weft.no_grad():
            gc.collect()
        assert seen == [False, False]  # the user's own mode
        gc.collect()
        assert seen[2:] == [True, True]
    finally:
        gc.callbacks.remove(first)
