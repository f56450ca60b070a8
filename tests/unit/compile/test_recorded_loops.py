"""Loops of Python that are recognised while they are recorded: what the graph is, what its results are to whoever looks
at them, and what ends a prediction."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import weft
from weft.guards.frame_watcher import FrameWatcher
from weft.ir.graph import Graph, Node
from weft.runtime.profile_filter import can_filter

STEPS = 24
Body = Callable[..., Any]


def arguments(dtype: Any = weft.float64) -> tuple[Any, ...]:
    weft.manual_seed(3)
    w = (weft.randn(5, dtype=dtype) * 0.3).requires_grad_()
    return w, weft.randn(5, dtype=dtype), weft.randn(STEPS + 1, 5, dtype=dtype).requires_grad_()


def values(function: Body, fold: str, compiled: bool = True, calls: int = 2) -> list[Any]:
    """Results and gradients of several calls."""
    seen: list[Any] = []
    with weft.knobs(fold=fold):
        step = weft.compile(function) if compiled else function
        for _ in range(calls):
            given = arguments()
            out = step(*given)
            out = list(out) if isinstance(out, (tuple, list)) else [out]
            seen += [o.detach().numpy().copy() if isinstance(o, weft.Tensor) else o for o in out]
            seen += [None if g.grad is None else g.grad.numpy().copy() for g in given]
    return seen


def same(function: Body) -> None:
    """Recorded as a loop, unrolled, and eager: the bits of the first two, and all to rounding."""
    loop, unrolled, eager = values(function, "on"), values(function, "off"), values(function, "on", compiled=False)
    assert len(loop) == len(unrolled) == len(eager)
    for a, b, c in zip(loop, unrolled, eager, strict=True):
        if isinstance(a, np.ndarray):
            assert isinstance(b, np.ndarray)
            assert (a == b).all()
            np.testing.assert_allclose(a, c, rtol=1e-9, atol=1e-12)
        else:
            assert a == b == c


def captured(function: Body, *given: Any) -> Graph:
    graph: Graph = weft.compile(function).stages(*(given or arguments()))["captured"]
    return graph


def loops(graph: Graph) -> list[Any]:
    return [node for node in graph.nodes if node.op.name == "prim::Loop"]


def recurrence(steps: int) -> Body:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(steps):
            v = weft.tanh(v * w + x[t])
        loss = (v * v).sum()
        loss.backward()
        return loss

    return step


@contextmanager
def counted_nodes() -> Iterator[list[int]]:
    """How many nodes builders make within the block."""
    count, plain = [0], Node.__init__
    names: dict[str, Any] = {"count": count, "plain": plain}
    code = "def counting(*args, **kwargs):\n    count[0] += 1\n    plain(*args, **kwargs)"
    exec(compile(code, "<weft counting>", "exec"), names)  # (code of weft's own to the capture, which watches others')
    Node.__init__ = names["counting"]  # type: ignore[method-assign]
    try:
        yield count
    finally:
        Node.__init__ = plain  # type: ignore[method-assign]


# ---- the graph
def test_the_graph_is_one_loop_and_its_way_back_whatever_the_length() -> None:
    w, v, _ = arguments()
    counts = []
    captured(recurrence(30), w, v, weft.zeros(30, 5, dtype=v.dtype))  # (CPython 3.12 marks the code it runs first)
    for steps in (30, 300):
        x = weft.zeros(steps, 5, dtype=v.dtype)
        graph = captured(recurrence(steps), w, v, x)
        forward, backward = loops(graph)
        assert forward.args[0] == backward.args[0] == steps
        counts.append(len(list(graph.walk())))
    assert counts[0] == counts[1]


def test_predicted_calls_are_not_recorded() -> None:
    """The graph's nodes are made for the first iterations alone: as many for 300 iterations as for 30."""
    made: list[int] = []
    for steps in (30, 30, 300):  # (the first call makes what all have in common)
        with counted_nodes() as count:
            captured(recurrence(steps), *arguments()[:2], weft.zeros(steps, 5, dtype=weft.float64))
        made.append(count[0])
    assert made[1] == made[2]


@pytest.mark.skipif(not can_filter(), reason="events come to Python")
def test_predicted_calls_bring_no_event_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a capture's profile function is called for does not grow with the iterations."""
    events, plain = [0], FrameWatcher._watch

    def counting(watcher: Any) -> Any:
        watch = plain(watcher)

        def hook(frame: Any, event: str, arg: Any) -> None:
            events[0] += 1
            watch(frame, event, arg)

        return hook

    def step(w: Any, v: Any, steps: int) -> Any:
        for _ in range(steps):
            v = 0.5 * weft.tanh(v * w + 0.1) - weft.sin(v)
        return v.sum()

    monkeypatch.setattr(FrameWatcher, "_watch", counting)
    counts = []
    for steps in (30, 30, 300):
        events[0] = 0
        captured(step, *arguments()[:2], steps)
        counts.append(events[0])
    assert counts[2] - counts[1] < 100


def test_few_iterations_stay_nodes() -> None:
    w, v, _ = arguments()
    assert not loops(captured(recurrence(5), w, v, weft.zeros(5, 5, dtype=v.dtype)))


def test_the_knob_records_iterations_one_by_one() -> None:
    with weft.knobs(fold="off"):
        assert not loops(captured(recurrence(STEPS)))


def test_explain_names_the_loop() -> None:
    text = str(weft.explain(recurrence(STEPS), *arguments()))
    assert f"{STEPS} iterations" in text
    assert "one loop" in text


# ---- what is recorded
def test_states_rows_and_a_sum() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        u, loss = v * 2, 0.0
        for t in range(STEPS):
            a = v * w + x[t]
            v = weft.tanh(a) - 0.1 * u
            u = u * 0.9 + a * 0.1
            loss = loss + (v * u).mean()
        loss.backward()
        return loss, v, u

    same(step)


def test_a_list_of_what_iterations_gave() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        path, others = [], []
        for t in range(STEPS):
            v = weft.sin(v * w + x[t])
            path.append(v)
            others.append(v * 2 + 1)
        loss = (weft.stack(path) * weft.stack(others)).sum() + path[3].sum() * path[-2].sum()
        loss.backward()
        return loss, path[5], others[-1]

    same(step)


def test_views_within_an_iteration() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        kept = []
        for t in range(STEPS):
            row = x[t]
            m = (row.reshape(5, 1) * w).t()
            v = v * 0.5 + (m @ v.reshape(5, 1)).reshape(5)
            kept.append(m[0])
            kept.append(row)
        loss = v.sum() + weft.stack(kept).square().sum()
        loss.backward()
        return loss

    same(step)


def test_rows_from_the_second_on_and_two_reads_of_one_row() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = v * w + x[t + 1] * x[t] + x[t]
        loss = v.sum()
        loss.backward()
        return loss

    same(step)


def rows_back(w: Any, v: Any, x: Any) -> Any:
    for t in range(STEPS):
        v = weft.tanh(v * w + x[STEPS - 1 - t])
    loss = v.sum()
    loss.backward()
    return loss


def rows_both_ways(w: Any, v: Any, x: Any) -> Any:
    for t in range(STEPS):
        v = weft.sin(v * w + x[t]) * x[STEPS - t]
    loss = v.sum()
    loss.backward()
    return loss


def every_second_row(w: Any, v: Any, x: Any) -> Any:
    for t in range(STEPS // 2):
        v = weft.sin(v * w + x[2 * t]) * x[2 * t + 1]
    loss = v.sum()
    loss.backward()
    return loss


@pytest.mark.parametrize("function", [rows_back, rows_both_ways, every_second_row])
def test_rows_that_move_evenly(function: Body) -> None:
    same(function)
    assert len(loops(captured(function))) == 2


def test_rows_that_are_counted_on_from_the_last_one() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = weft.tanh(v * w + x[STEPS - 9 - t])
        loss = v.sum()
        loss.backward()
        return loss

    same(step)


def test_a_loop_of_integers() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        count, total = weft.zeros((), dtype=weft.int64), v
        for t in range(STEPS):
            count = count + (x[t] > 0).sum()
            total = total + w * count
        loss = total.sum()
        loss.backward()
        return loss, count

    same(step)


def test_without_gradients() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        with weft.no_grad():
            for t in range(STEPS):
                v = weft.tanh(v * w + x[t])
        return v

    same(step)


def test_two_loops_one_after_the_other() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
        u = v * 2
        for t in range(STEPS):
            u = weft.sin(u + w * v) * 0.5 + x[t]
        loss = (u * v).sum()
        loss.backward()
        return loss

    same(step)
    assert len(loops(captured(step))) == 4


def cells(w: Any, v: Any, x: Any) -> Any:
    """Calls with several results, of which some are handed on and some are kept."""
    c, kept, places = v * 0, [], []
    for t in range(STEPS):
        i, f, g = (v * w + x[t]).repeat(3).chunk(3)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        v, place = weft.sort(c * 0.9)
        mean, spread = weft.var_mean(v, 0)
        v = v - mean * 0.1
        kept.append(spread)
        places.append(place)
    loss = (v * c).sum() + weft.stack(kept).square().sum()
    loss.backward()
    return loss, weft.stack(places), kept[7], places[-1]


def two_steps_ago(w: Any, v: Any, x: Any) -> Any:
    before = x[0] * 2
    path = [x[1] * w, v]
    for t in range(STEPS):
        v, before = 1.9 * v - 0.9 * before - 0.01 * (v * w + weft.tanh(before * v)), v
        path.append(path[-1] * w + path[-2].sin() * 0.3 + x[t])
    loss = (v - before).sum() + (weft.stack(path) * v).square().mean()
    loss.backward()
    return loss, before, path[4], path[-2]


def numbers_of_the_index(w: Any, v: Any, x: Any) -> Any:
    for t in range(STEPS):
        v = v + 0.01 * (w * weft.sin(v * (0.1 * t)) - v / (1 + t)) + (2.0**-t) * x[t]
        v = v - 0.5 ** (t / 4) * w
    loss = v.square().sum()
    loss.backward()
    return loss, v


@pytest.mark.parametrize("function", [cells, two_steps_ago, numbers_of_the_index])
def test_forms_of_bodies(function: Body) -> None:
    same(function)
    assert len(loops(captured(function))) == 2


def test_few_iterations_that_read_two_steps_ago() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        before = v * 2
        for _ in range(5):
            v, before = v * w - before, v
        loss = v.sum()
        loss.backward()
        return loss, before

    same(step)


# ---- what does not go on
def test_an_iteration_that_does_something_else() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
            v = v * 0.99 - 0.01
            if t == 16:
                v = v * 2
            if t == 22:
                break
        loss = v.sum()
        loss.backward()
        return loss

    same(step)


def test_another_grad_mode_ends_it() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(STEPS):
            with weft.set_grad_enabled(t < 19):
                v = weft.tanh(v * w + x[t])
                v = v * 0.9 + 0.1
        return v.requires_grad, (v * w).sum()

    same(step)


def test_a_number_that_changes() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t]) * (0.5 if t < 20 else 0.25)
            v = v + 0.0 if t < 22 else v + -0.0
        loss = v.sum()
        loss.backward()
        return loss

    same(step)


def test_a_write_between_iterations() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        bias = weft.zeros(5, dtype=v.dtype)
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t] + bias)
            v = v * 0.9
            if t == 19:
                bias.add_(1.0)
        loss = v.sum()
        loss.backward()
        return loss

    same(step)


def test_a_hook_in_the_middle() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
            v = v * 0.9
            if t == 19:
                v.register_hook(lambda g: g * 3)
        loss = v.sum()
        loss.backward()
        return loss

    same(step)


def test_a_second_gradient_records_iterations_one_by_one() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
        (first,) = weft.autograd.grad((v * v).sum(), w, create_graph=True)
        loss = first.square().sum()
        loss.backward()
        return loss

    same(step)


# ---- results that are looked at
@pytest.mark.parametrize("number", [0, 1, 2, 14, STEPS - 2, STEPS - 1])
def test_a_write_to_what_an_iteration_gave(number: int) -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        path = []
        for t in range(STEPS):
            v = weft.tanh(v * w.detach() + x[t].detach())
            path.append(v)
        path[number].add_(1.0)
        path[number][1:3].mul_(2.0)
        return weft.stack(path), v

    same(step)


def test_a_write_through_a_view_of_an_iteration() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        bases, views = [], []
        y = x.detach().clone()
        rows = []
        for t in range(STEPS):
            rows.append(y[t])
            base = v * (t * 0 + 1.5) + rows[-1]
            bases.append(base)
            views.append(base.reshape(1, 5))
            v = base * 0.5
        views[14].mul_(10.0)
        rows[15].zero_()
        return weft.stack(bases), y, weft.cat(views)

    same(step)


def test_questions_of_what_an_iteration_gave() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        answers: list[Any] = []
        path = []
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
            path.append(v)
            answers.append((tuple(v.shape), v.dtype is weft.float64, v.ndim, type(v) is weft.Tensor))
        answers.append((path[3].requires_grad, path[3].is_leaf, path[7].grad_fn is not None, v.stride()))
        answers.append((path[4] is path[5], path[-1] is v, path[8].is_contiguous(), path[9].numel()))
        return [v.sum(), str(answers)]

    same(step)


def test_copies_of_what_iterations_gave() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        path = []
        with weft.no_grad():
            for t in range(STEPS):
                v = weft.tanh(v * w + x[t])
                path.append(v)
        first, second = copy.deepcopy((path[5], path[5]))
        first.add_(1.0)
        return second, path[5], path[6].clone(), path[6].detach()

    same(step)


def test_retained_gradients_of_what_iterations_gave() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        path = []
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
            path.append(v)
        path[10].retain_grad()
        (v.sum() + path[10].sum()).backward()
        return path[10].grad

    same(step)


def test_gradients_by_what_iterations_gave() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        path = []
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
            path.append(v)
        return weft.autograd.grad(v.square().sum(), [path[-1], path[19], w])

    same(step)


def test_a_branch_that_reads_what_an_iteration_gave() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        path = []
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
            path.append(v)
        out = weft.cond(v.sum() > 0, lambda: path[3] * 2 + path[4], lambda: path[5] - path[3])
        loss = (out * path[3]).sum()
        loss.backward()
        return loss

    same(step)


class Doubled(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g


def test_a_custom_function_in_the_body_and_behind() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        u = v
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t]) * 0.5 + 0.01
        for t in range(STEPS):
            u = Doubled.apply(u * w + x[t]) * 0.1
        loss = (Doubled.apply(v) + u).sum()
        loss.backward()
        return loss

    same(step)


def test_a_checkpoint_in_the_body() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        def block(v: Any, row: Any) -> Any:
            return weft.tanh(v * w + row) * 0.9

        for t in range(STEPS):
            v = weft.utils.checkpoint.checkpoint(block, v, x[t], use_reentrant=False)
        loss = v.sum()
        loss.backward()
        return loss

    same(step)


def test_results_keep_their_history_behind_the_call() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        path = []
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
            path.append(v)
        return v, path[3], path[13]

    def run(function: Body) -> list[Any]:
        given = arguments()
        a, b, c = function(*given)
        ((a * b).sum() + c.square().sum()).backward()
        return [g.grad.numpy().copy() for g in given if g.grad is not None]

    for mine, eager in zip(run(weft.compile(step)), run(step), strict=True):
        np.testing.assert_allclose(mine, eager, rtol=1e-9)


def test_an_error_within_an_iteration_leaves_nothing() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])
            if t == 19:
                raise ValueError("no further")
        return v

    for _ in range(2):
        with pytest.raises(ValueError, match="no further"):
            weft.compile(step)(*arguments())


SCALES = {"late": 2.0}


def late_scale() -> float:
    return SCALES["late"]


def test_what_python_reads_in_a_late_iteration_is_guarded() -> None:
    """The native filter of events drops those of weft's own code alone."""

    @weft.compile
    def step(v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = weft.tanh(v + x[t])
            if t == 19:
                v = v * late_scale()
        return v

    v, x = weft.ones(3), weft.zeros(STEPS, 3)
    first = step(v, x).numpy().copy()
    SCALES["late"] = 3.0
    try:
        second = step(v, x).numpy().copy()
    finally:
        SCALES["late"] = 2.0
    assert not np.allclose(first, second)


def test_what_python_does_in_a_late_iteration_is_refused() -> None:
    seen: list[int] = []

    def step(v: Any, x: Any) -> Any:
        for t in range(STEPS):
            v = weft.tanh(v + x[t])
            if t == 19:
                print(len(seen))
        return v

    with pytest.raises(weft.WeftError, match="prints"):
        weft.compile(step)(weft.ones(3), weft.zeros(STEPS, 3))
