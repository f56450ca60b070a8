"""Writes in place in loops of Python that are recognised while they are recorded: a tensor as a whole, or its rows one
after the other. What the graph is, what whoever looks at the memory sees, and what is left to be recorded as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.unit.compile.test_recorded_loops import STEPS, captured, counted_nodes, loops, same

Step = Callable[..., Any]


def path(steps: int) -> Step:
    """Two memories of rows and one state, as simulations are written."""

    def step(w: Any, v: Any, x: Any) -> Any:
        places, speeds = weft.zeros(steps, 5, dtype=v.dtype), weft.zeros(5, steps, dtype=v.dtype)
        place = v.clone()
        for t in range(steps):
            speed = weft.tanh(place.clone() * w + x[t])
            place += 0.1 * speed
            places[t] = place
            speeds[:, steps - 1 - t] = speed
        loss = places.square().mean() + speeds.sum() + place.sum()
        loss.backward()
        return loss, places, speeds, place

    return step


def test_bits_are_those_of_the_unrolled_function() -> None:
    same(path(STEPS))


def test_the_graph_is_one_loop_and_its_way_back_whatever_the_length() -> None:
    lengths, nodes = [], []
    for steps in (30, 30, 300):
        given = weft.ones(5, requires_grad=True), weft.ones(5), weft.ones(steps, 5)
        with counted_nodes() as count:
            graph = captured(path(steps), *given)
        # (the first state has no history: its iteration is recorded as it is)
        assert [node.args[0] for node in loops(graph)] == [steps - 1, steps - 1]
        lengths.append(len(list(graph.walk())))
        nodes.append(count[0])
    assert lengths[1] == lengths[2] and nodes[1] == nodes[2]


WRITES = {
    "state": "s += weft.tanh(s.clone() * w)",
    "state of two writes": "s *= 0.9; s += (s.clone() * w).sin()",
    "copied": "s.copy_(weft.tanh(s.clone() * w + x[t]))",
    "read through a view": "a = s[1:3].clone().sum(); s += 0.01 * a * w",
    "read behind the write": "s += w * 0.1; v = v + s * 1.0",
    "two states": "s += 0.1 * r.clone() * w; r -= 0.1 * s.clone() * w",
    "rows": "v = weft.tanh(v * w); q[t] = v",
    "rows from the end": "v = weft.tanh(v * w); q[T - 1 - t] = v",
    "every second row": "v = weft.tanh(v * w); q[2 * t] = v",
    "rows and what they show": "row = q[t]; v = weft.tanh(v * w); row.copy_(v); v = v + row * 0.1",
    "rows of what has no history": "q[t] = x[t] * 2; v = v * w",
    "columns": "v = weft.tanh(v * w); c[:, t] = v",
    "rows by copy_": "v = weft.tanh(v * w); q[t].copy_(v)",
    "without a gradient": "v = v * w\n        with weft.no_grad(): n += 0.5 * n.cos()",
    "a tensor of the iteration": "u = v * w; u += x[t]; v = u.sin()",
    "two writes of one": "u = v * w; u += x[t]; u.mul_(0.5); out.append(u); v = u.sin()",
    "one that is handed on": "v = v * w; v += x[t]; v.clamp_(-1, 1)",
    "one whose result is kept": "u = v * w; u.tanh_(); v = u + x[t] * w",
    "one seen through a view": "u = v * w; u += x[t]; out.append(u[1:]); v = u.sin()",
    "one without a gradient": "u = x[t] * 2; u += 1; v = v * w + u",
    "rows and a list": "v = weft.tanh(v * w); q[t] = v; out.append(v)",
}  # fmt: skip
AS_THEY_ARE = {  # recorded call by call
    "rows read again": "v = weft.tanh(v * w); q[t] = v; v = v + q[t] * 0.1",
    "rows of before": "q[t + 1] = q[t].clone() * w + x[t]",
    "a part of a row": "q[t, 1:] = v[1:] * w[1:]",
    "one row": "q[0] = v * w; v = v * 0.9",
    "a view of what is written": "u = v * w; out.append(u[1:]); u += x[t]; v = u.sin()",
    "a view from before": "first += 1; v = v * w",
}  # fmt: skip
BEHIND = {
    "memory": "[s, q, c, v, n, r]",
    "versions": "[v, *[m._version for m in (s, q, c, n)]]",
    "views of it": "[s[1:], q[3], q[:, 1], c.t()[2], first]",
    "functions": "[v, s.grad_fn is None, q.grad_fn is None, s.requires_grad, q.requires_grad, n.requires_grad]",
    "a write behind it": "[s.mul_(2), q[4].add_(1), q, v]",
    "a hook behind it": "[s.register_hook(lambda g: g * 2) and s, s]",
}


@pytest.mark.parametrize("write", [*WRITES, *AS_THEY_ARE])
def test_every_kind_of_write(write: str, rng: Any) -> None:
    for seen in {"memory", str(rng.choice(list(BEHIND)))}:
        same(_function({**WRITES, **AS_THEY_ARE}[write], BEHIND[seen], rng))
    assert bool(loops(captured(_function(WRITES.get(write) or AS_THEY_ARE[write], "[v]")))) is (write in WRITES)


@pytest.mark.parametrize("seen", list(BEHIND))
def test_what_is_seen_behind_the_loop(seen: str) -> None:
    same(_function("s += weft.tanh(s.clone() * w); v = v * w; q[t] = v", BEHIND[seen]))


def _function(write: str, returned: str, rng: Any = None) -> Step:
    behind = "" if rng is None or rng.random() < 0.5 else "s = s * 1.0; "
    source = f"""
def step(w, v, x):
    T = len(x) - 1
    s, r, n = v * w, v.cos() * w, v.clone()
    q, c = weft.zeros(2 * T + 1, 5, dtype=v.dtype), weft.zeros(5, T, dtype=v.dtype)
    first, out = s[0], []
    for t in range({STEPS}):
        {write}
    {behind}loss = sum((m.clone() ** 2).sum() for m in (s, q, c, v, r))
    loss = loss + (weft.stack(out) ** 2).sum() if out else loss
    results = {returned}
    (loss + sum(m.sum() for m in results if isinstance(m, weft.Tensor))).backward()
    return [loss, *results]
"""
    names: dict[str, Any] = {"weft": weft}
    exec(compile(source, "<written>", "exec"), names)
    return names["step"]  # type: ignore[no-any-return]


LOOKS = {
    "a version": "seen.append(s._version)",
    "a number of rows written": "seen.append(q._version)",
    "a node": "seen.append(s.grad_fn is not None)",
    "a view": "if t == 15: seen.append(s[0])",
    "the memory": "if t == 15: seen.append(q.sum())",
    "a version of its own": "u = v * w; u += x[t]; seen.append(u._version); v = u.sin()",
    "a tensor of its own": "u = v * w; u += x[t]; seen.append(u); v = u.sin()",
    "a row": "if t == 15: seen.append(q[3])",
    "rows": "seen.append(q[t])",
    "a copy": "if t == 15: seen.append(weft.empty(5, dtype=v.dtype).copy_(s))",
    "without history": "if t == 15: seen.append(s.detach())",
    "a branch": "seen.append(weft.cond(v.sum() > 0, lambda: s * 1.0, lambda: s * 2.0)) if t == 15 else None",
    "a hook": "if t == 15: s.register_hook(lambda g: g * 3)",
    "a gradient": "if t == 15: seen.append(weft.autograd.grad(s.sum(), w, retain_graph=True)[0])",
}


@pytest.mark.parametrize("look", list(LOOKS))
def test_a_look_at_it_between_iterations(look: str) -> None:
    source = f"""
def step(w, v, x):
    s, q, seen = v * w, weft.zeros({STEPS}, 5, dtype=v.dtype), []
    for t in range({STEPS}):
        s += weft.tanh(s.clone() * w)
        v = v * w
        q[t] = v
        {LOOKS[look]}
    ((s * s).sum() + (q * q).sum()).backward()
    return [s, q, *seen]
"""
    names: dict[str, Any] = {"weft": weft}
    exec(compile(source, "<looking>", "exec"), names)
    same(names["step"])


def test_what_eager_mode_refuses_is_refused() -> None:
    """A value that is kept for the backward and written since is an error of the backward."""

    def step(w: Any, v: Any, x: Any) -> Any:
        state = v * w
        for _t in range(STEPS):
            state += weft.tanh(state * w)  # (the product keeps `state`)
        state.sum().backward()
        return state

    def written_behind(w: Any, v: Any, x: Any) -> Any:
        out = []
        for t in range(STEPS):
            v = weft.tanh(v * w + x[t])  # (which keeps its result)
            out.append(v)
        out[2].detach().mul_(2.0)
        weft.stack(out).sum().backward()
        return v

    for function in (step, written_behind):
        for run in (function, weft.compile(function)):
            with pytest.raises(weft.errors.VersionError):
                run(weft.ones(5, requires_grad=True), weft.ones(5), weft.ones(STEPS + 1, 5))


def test_a_result_seen_without_its_history_has_none_when_it_is_read() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        out = []
        for t in range(STEPS):
            v = v * 0.9 + w * x[t]
            out.append(v)
        shown = out[2].detach()
        (shown.exp() + (shown * w)).sum().backward()
        return shown, out[3]

    same(step)


def test_a_row_of_results_may_be_written() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        out = []
        for t in range(STEPS):
            v = v * 0.9 + w * x[t]
            out.append(v)
        out[2] = out[2].detach().mul_(2.0)
        out[4].add_(1.0)
        loss = weft.stack(out).square().sum()
        loss.backward()
        return loss, weft.stack(out)

    same(step)


@pytest.mark.parametrize("steps", [4, 5, 7])
@pytest.mark.parametrize("write", ["s.clamp_(-1, 1)", "s += w * 0.1", "s.mul_(w); q[t] = w * 2", "q[t] = w * x[t]"])
def test_few_iterations_are_recorded_one_by_one(write: str, steps: int) -> None:
    source = f"""
def step(w, v, x):
    s, q = v * w, weft.zeros({STEPS}, 5, dtype=v.dtype)
    for t in range({steps}):
        {write}
    (s.sum() + q.sum()).backward()
    return [s, q, s._version, q._version]
"""
    names: dict[str, Any] = {"weft": weft}
    exec(compile(source, "<few>", "exec"), names)
    same(names["step"])
