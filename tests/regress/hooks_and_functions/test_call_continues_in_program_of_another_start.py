"""A call whose hook changed something went on in any program of the function that holds after the hook, also in one
whose Python had run otherwise before it: with another flag, another argument, or what only a later hook puts there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import weft


def reads_a_flag_first(compiles):
    env = SimpleNamespace(flag=True, sets=False)
    w = weft.tensor([1.0, 2.0, 3.0]).requires_grad_()

    def hook(g):
        print(g.sum().item())
        if env.sets:
            env.flag = True

    def step(x):
        factor = 5 if env.flag else 3
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return (loss.detach() + w.grad.sum()) * factor

    w.register_hook(hook)
    step = weft.compile(step) if compiles else step
    for env.flag, env.sets in ((True, False), (False, False), (False, True), (False, True), (True, False)):
        yield step(weft.ones(3)).item(), env.flag


def takes_an_argument(compiles):
    env = SimpleNamespace(takes=False)
    w = weft.tensor([1.0, 2.0, 3.0]).requires_grad_()

    def hook(p):
        print(p.grad.sum().item())
        if env.takes:
            p.grad = None

    def step(x, mode):
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        out = loss.detach() * (2 if mode == "double" else 3)
        return out if w.grad is None else out + w.grad.sum()

    w.register_post_accumulate_grad_hook(hook)
    step = weft.compile(step) if compiles else step
    for mode, env.takes in (("double", False), ("", False), ("double", True), ("", True), ("double", False)):
        yield step(weft.ones(3), mode).item(), mode


def two_hooks_change_state(compiles):
    env = SimpleNamespace(mode="a", flag=False, changes=())
    v, w = (weft.tensor([1.0, 2.0, 3.0]).requires_grad_() for _ in range(2))

    def hook(g):
        change = next(env.changes)
        print(g.sum().item(), change)
        if change == "mode":
            env.mode = "b" if env.mode == "a" else "a"
        if change == "flag":
            env.flag = not env.flag

    def step(x):
        factor = 5 if env.mode == "a" else 3
        loss = ((w * x).sin() * v).sum()
        loss.backward()
        return loss.detach() * factor + (1 if env.flag else 0)

    v.register_hook(hook)
    w.register_hook(hook)
    step = weft.compile(step) if compiles else step
    for changes in ((None, "mode"), (None, "mode"), ("flag", None), ("mode", None), (None, None), ("mode", "flag")):
        env.changes = iter(changes)
        yield step(weft.ones(3)).item(), env.mode, env.flag


@pytest.mark.parametrize("case", [reads_a_flag_first, takes_an_argument, two_hooks_change_state])
def test_what_was_read_before_the_hook_counts(case, capsys):
    want = list(case(False))
    printed = capsys.readouterr().out
    got = list(case(True))
    assert capsys.readouterr().out == printed
    for a, b in zip(got, want, strict=True):
        assert a == (pytest.approx(b[0], rel=1e-5), *b[1:])
