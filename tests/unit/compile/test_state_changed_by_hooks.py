"""Steps whose hooks change Python's state at some calls and leave it alone at others, whatever is read before them and
after them: as in eager mode."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import weft
import weft.nn.functional as F
from weft import nn


def drawn_step(seed):
    """A training step with drawn hooks, and the state that they change by plan."""
    rng = np.random.default_rng(seed)
    weft.manual_seed(int(seed))
    env = SimpleNamespace(flag=False, mode="a", n=0, takes=False, log=[], plan=iter(()))
    params = list((model := nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))).parameters())
    optimizer = weft.optim.SGD(params, lr=0.05)

    def change(g):
        env.log.append(round(float(g.sum()), 3))
        what = next(env.plan)
        if what == "flag":
            env.flag = not env.flag
        elif what == "mode":
            env.mode = "b" if env.mode == "a" else "a"
        elif what == "n":
            env.n += 1

    def change_after(p):
        change(p.grad)
        if env.takes:
            p.grad = None

    for _ in range(int(rng.integers(1, 3))):
        p = params[int(rng.integers(len(params)))]
        if rng.integers(2):
            p.register_hook(lambda g: change(g))
        else:
            p.register_post_accumulate_grad_hook(change_after)
    before, after, zeroes, takes_argument = rng.integers((3, 3, 3, 2))

    def step(x, y, argument):
        factor = {0: 1.0, 1: 2.0 if env.flag else 3.0, 2: 1.5 if env.mode == "a" else 0.5}[int(before)]
        if zeroes:
            optimizer.zero_grad(set_to_none=bool(zeroes == 1))
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if after == 1 and env.flag:
            factor = factor + 10
        if after == 2:
            factor = factor + env.n
        for p in params:
            if p.grad is not None:
                with weft.no_grad():
                    p.sub_(p.grad * 0.01)
        return loss.detach() * factor + (100 if takes_argument and argument == "u" else 0)

    return step, env, params


def outcome(seed, compiles):
    step, env, params = drawn_step(seed)
    step = weft.compile(step) if compiles else step
    rng = np.random.default_rng(seed)
    numbers, states = [], []
    for n in rng.integers(1, 4, 6):
        env.takes = bool(rng.integers(4) == 0)
        env.plan = iter([[None, None, "flag", "mode", "n"][i] for i in rng.integers(5, size=2)])
        x, y = (weft.tensor(rng.standard_normal((n, k)).astype(np.float32)) for k in (3, 2))
        numbers += [step(x, y, "tu"[rng.integers(2)]).item(), *[float(p.sum()) for p in params]]
        numbers += [-1.0 if p.grad is None else float(p.grad.sum()) for p in params]
        states.append((env.flag, env.mode, env.n))
    return numbers, states, env.log


def test_what_hooks_change_now_and_then(rng):
    for seed in rng.integers(1 << 30, size=6):
        numbers, states, log = outcome(seed, False)
        got, got_states, got_log = outcome(seed, True)
        assert got_states == states, seed
        np.testing.assert_allclose(got, numbers, rtol=1e-3, atol=2e-3, err_msg=f"seed {seed}")
        np.testing.assert_allclose(got_log, log, atol=5e-3)


# ---- programs in which a call goes on
def hooked_step(hook):
    w = weft.tensor([1.0, 2.0, 3.0]).requires_grad_()
    env = SimpleNamespace(w=w, word="", ways=iter(()))
    w.register_post_accumulate_grad_hook(lambda p: hook(env, p))

    @weft.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return x * len(env.word) if w.grad is None else x * len(env.word) + w.grad

    return step, env


def takes_gradient(env, p):
    print(end="")
    if next(env.ways):
        p.grad = None


def changes_word(env, p):
    print(end="")
    env.word = next(env.ways)


def test_each_way_to_go_on_is_captured_once(rng):
    step, env = hooked_step(takes_gradient)
    ways = [False, True, *(bool(way) for way in rng.integers(2, size=20))]
    env.ways, first = iter(ways), weft.counters.captures
    sums = [step(weft.ones(3)).sum().item() for _ in ways]
    assert sums == [0.0 if way else 3.0 for way in ways]
    assert len(step.entries) == 2 and not step.stepwise
    before = weft.counters.captures
    assert before - first <= 4  # (the hook is found at the first)
    env.ways = iter(ways)
    assert [step(weft.ones(3)).sum().item() for _ in ways] == sums and weft.counters.captures == before


def test_a_step_with_too_many_ways_runs_as_written():
    step, env = hooked_step(changes_word)
    for n in range(12):
        env.word, env.ways = "", iter(["x" * n])
        assert step(weft.ones(3)).tolist() == [n + 1.0] * 3
    assert step.stepwise and not len(step.entries)
    assert "this hook changes something that the compiled step has read" in step.stepwise[0].why
