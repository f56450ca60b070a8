"""Hooks that a program calls on its way: everything before a call is real when it comes, everything that the call
changes is seen behind it, as in eager mode."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn
from weft.compile.program.calling_entry import CallingEntry


def total(g):
    """The sum of a gradient, or of the first one that is there."""
    g = next((t for t in g if t is not None), None) if isinstance(g, tuple) else g
    return None if g is None else round(float(g.sum()), 3)


def doubled(env, g):
    env.log.append(total(g))
    return g * 2 if g.sum() > 0 else g


def in_place(env, g):
    env.log.append(total(g))
    with weft.no_grad():
        g.mul_(1.5)


def looks_around(env, g):
    env.log.append([None if p.grad is None else total(p.grad) for p in env.params])
    env.log.append([total(p) for p in env.params])


def draws(env, g):
    env.log.append((total(g), weft.rand(1).item()))


def sets_a_flag(env, g):
    env.skips = bool(g.sum() > 0)
    print("skips", env.skips)


def counts(env, g):
    env.table[len(env.table)] = total(g)


def by_numpy(env, g):
    env.log.append(np.tanh(np.asarray(g.detach())).sum().round(3))


CHANGING, LOOKING = [doubled, in_place], [looks_around, draws, sets_a_flag, counts, by_numpy]


def on_a_tensor(p, hook, _):
    p.register_hook(hook)


def after_accumulation(p, hook, _):
    p.register_post_accumulate_grad_hook(lambda q: hook(q.grad) and None)


def before_its_node(p, hook, _):
    p.expand_as(p).grad_fn.next_functions[0][0].register_prehook(lambda grads: hook(grads[0]) and None)


def after_its_node(p, hook, _):
    p.expand_as(p).grad_fn.next_functions[0][0].register_hook(lambda out, grads: hook(grads[0]) and None)


def within_the_step(p, hook, env):
    env.inner = hook


PLACES = [on_a_tensor, after_accumulation, before_its_node, after_its_node, within_the_step]


def drawn_step(seed):
    """A training step with drawn hooks, and what it leaves behind."""
    rng = np.random.default_rng(seed)
    weft.manual_seed(int(seed))
    middle = [nn.Tanh(), nn.Dropout(0.3)][: int(rng.integers(1, 3))]
    model = nn.Sequential(nn.Linear(4, 6), *middle, nn.Linear(6, 3))
    params = list(model.parameters())
    env = SimpleNamespace(log=[], table={}, skips=False, inner=None, params=params)
    optimizer = [weft.optim.SGD, weft.optim.Adam][int(rng.integers(2))](params, lr=0.05)
    for _ in range(int(rng.integers(1, 4))):
        place = PLACES[int(rng.integers(len(PLACES)))]
        deeds = [*CHANGING, *LOOKING] if place in (on_a_tensor, within_the_step) else LOOKING
        deed = deeds[int(rng.integers(len(deeds)))]
        place(params[int(rng.integers(len(params)))], lambda g, deed=deed: deed(env, g), env)
    zeroes, clips, looks = rng.integers(3), rng.integers(2), rng.integers(2)

    def step(x, y):
        if zeroes:
            optimizer.zero_grad(set_to_none=bool(zeroes == 1))
        out = model(x)
        if env.inner is not None:
            out.register_hook(env.inner)
        loss = F.mse_loss(out, y)
        loss.backward()
        if looks and env.skips:
            return loss.detach() * 2
        if clips:
            nn.utils.clip_grad_norm_(params, 0.5)
        optimizer.step()
        return loss.detach() + weft.rand(())

    return step, env


def outcome(seed, compiles, capsys):
    step, env = drawn_step(seed)
    step = weft.compile(step) if compiles else step
    rng = np.random.default_rng(seed)
    seen = []
    for n in rng.integers(1, 7, 4):
        x, y = (weft.tensor(rng.standard_normal((n, k)).astype(np.float32)) for k in (4, 3))
        seen.append(step(x, y).item())
        seen += [float(p.sum()) for p in env.params]
        seen += [-1.0 if p.grad is None else float(p.grad.sum()) for p in env.params]
    return seen, env, capsys.readouterr().out, step


@pytest.mark.parametrize("_", range(5))
def test_a_drawn_step_is_as_in_eager_mode(rng, _, capsys):
    seed = int(rng.integers(1 << 30))
    want, plain, text, _ = outcome(seed, False, capsys)
    got, env, printed, step = outcome(seed, True, capsys)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-3, err_msg=f"seed {seed}")
    assert printed == text and str(env.skips) == str(plain.skips), seed
    flat = [np.hstack([np.nan if v is None else v for v in np.hstack(e.log)]) if e.log else [] for e in (env, plain)]
    np.testing.assert_allclose(np.asarray(flat[0], float), np.asarray(flat[1], float), rtol=1e-2, atol=5e-3)
    np.testing.assert_allclose(list(env.table.values()), list(plain.table.values()), rtol=1e-2, atol=5e-3)
    assert any(isinstance(entry, CallingEntry) for entry in step.entries) and not step.stepwise


# ---- what a hook changes
def accumulating(hook):
    """A step of two leaves, the first of which has a hook."""
    w, v = (weft.tensor([1.0, 2.0, 3.0]) * k for k in (1, 0.5))
    w, v = w.requires_grad_(), v.requires_grad_()
    env = SimpleNamespace(w=w, v=v, log=[], n=1, handles=[], seen=[], table={"large": False})
    hook(env)

    def step(x):
        before = env.n + len(env.seen) + 3 * env.table["large"]
        (w * x * v).sum().backward()
        with weft.no_grad():
            for p in (w, v):
                if p.grad is not None:
                    p.sub_(p.grad * 0.1)
        return (w.sum() * before + env.n + 5 * len(env.seen) + 7 * env.table["large"]).detach()

    return step, env


def takes_gradients_away(env):
    def hook(p):
        env.log.append(p.grad.sum().item())
        if len(env.log) % 2 == 0:
            p.grad = None

    env.w.register_post_accumulate_grad_hook(hook)


def replaces_gradients(env):
    def hook(p):
        env.log.append(p.grad.sum().item())
        p.grad = p.grad * 2

    env.w.register_post_accumulate_grad_hook(hook)


def gives_another_its_gradient(env):
    def hook(g):
        env.log.append(g.sum().item())
        env.v.grad = weft.ones(3)

    env.w.register_hook(hook)


def changes_weights(env):
    def hook(g):
        env.log.append(g.sum().item())
        with weft.no_grad():
            env.v.mul_(1.5)

    env.w.register_hook(hook)


def changes_a_number(env):
    def hook(g):
        env.log.append(g.sum().item())
        env.n += 1

    env.w.register_hook(hook)


def changes_containers(env):
    env.seen, env.table = [], {"large": False}

    def hook(g):
        env.log.append(g.sum().item())
        env.table["large"] = g.sum().item() > 0.4
        if len(env.seen) < 2:
            env.seen.append(1)

    env.w.register_hook(hook)


def gives_other_memory(env):
    def hook(g):
        env.log.append(g.sum().item())
        env.w.data = env.w.data * 0.5

    env.v.register_hook(hook)


def removes_itself_and_another(env):
    def first(g):
        env.log.append(g.sum().item())
        for handle in env.handles:
            handle.remove()

    second = env.w.register_hook(lambda g: env.log.append(("second", g.sum().item())))
    env.handles = [second, env.w.register_hook(first), env.v.register_hook(lambda g: env.log.append(g.max().item()))]


def adds_one(env):
    def hook(g):
        env.log.append(g.sum().item())
        if len(env.log) == 2:
            env.v.register_hook(lambda g: env.log.append(("added", g.sum().item())))

    env.w.register_hook(hook)


def raises(env):
    def hook(g):
        env.log.append(g.sum().item())
        if len(env.log) == 3:
            raise ValueError("three")

    env.v.register_hook(hook)


def runs_backward(env):
    inner = weft.compile(lambda t: (t * 2).sum())

    def hook(g):
        with weft.enable_grad():
            a = weft.ones(3, requires_grad=True)
            (a * g).sum().backward()
        env.log.append((a.grad.tolist(), inner(g).item()))

    env.w.register_hook(hook)


@pytest.mark.parametrize("hook", [
    takes_gradients_away, replaces_gradients, gives_another_its_gradient, changes_weights, changes_a_number,
    changes_containers, gives_other_memory, removes_itself_and_another, adds_one, raises, runs_backward,
], ids=lambda f: f.__name__)
def test_what_a_hook_changes_is_seen_behind_it(hook):
    found = []
    for compiles in (False, True):
        step, env = accumulating(hook)
        step, seen = weft.compile(step) if compiles else step, []
        for i in range(6):
            try:
                seen.append(step(weft.full((3,), 0.1 * i)).item())
            except ValueError as error:
                seen.append(str(error))
            seen += [p.tolist() for p in (env.w, env.v, env.w.grad, env.v.grad) if p is not None]
        found.append((seen, env.log, env.n))
    assert str(found[1]) == str(found[0]) or _close(found[1], found[0])


def _close(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_close, a, b))
    return abs(a - b) < 1e-4 * (1 + abs(b)) if isinstance(a, float) and isinstance(b, float) else a == b


# ---- hooks of modules and of several tensors
def sums(grads):
    return [None if g is None else round(float(g.sum()), 3) for g in grads]


def of_a_module(model, log):
    model[1].register_full_backward_pre_hook(lambda _, go: log.append(sums(go)))
    model[1].register_full_backward_hook(lambda _, gi, go: (log.append(sums(gi + go)), (gi[0] * 2,))[1])


def of_the_first_module(model, log):
    model[0].register_full_backward_hook(lambda _, gi, go: log.append(sums(gi + go)))


def of_several(model, log):
    weft.autograd.graph.register_multi_grad_hook(list(model.parameters()), lambda grads: log.append(sums(grads)))
    weft.autograd.graph.register_multi_grad_hook(
        list(model.parameters()), lambda g: log.append(sums([g])), mode="any"
    )


def before_forward(model, log):
    model[1].register_forward_pre_hook(lambda _, args: log.append(sums(args)))


def behind_forward(model, log):
    model[1].register_forward_hook(lambda _, args, out: (log.append(sums([out])), out * 2)[1])


def of_saved_tensors(model, log):
    forward = model.forward

    def with_hooks(x):
        with weft.autograd.graph.saved_tensors_hooks(
            lambda t: (log.append(sums([t])), t.numpy().copy())[1], lambda a: weft.from_numpy(a)
        ):
            return forward(x)

    model.forward = with_hooks


KINDS = [of_a_module, of_the_first_module, of_several, before_forward, behind_forward, of_saved_tensors]


@pytest.mark.parametrize("kind", KINDS, ids=lambda f: f.__name__)
def test_hooks_of_modules_and_of_several_tensors(kind, rng):
    batches = [rng.standard_normal((int(n), 3)).astype(np.float32) for n in rng.integers(1, 6, 3)]
    found = []
    for compiles in (False, True):
        weft.manual_seed(2)
        model, log = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), []
        optimizer = weft.optim.SGD(model.parameters(), lr=0.05)
        kind(model, log)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = weft.compile(step) if compiles else step
        found.append(([step(weft.tensor(x)).item() for x in batches], log))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-4, atol=1e-6)
    assert len(found[1][1]) == len(found[0][1])
    for a, b in zip(found[1][1], found[0][1], strict=True):
        np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), atol=5e-3)
    assert bool(step.entries) is (kind in KINDS[:3])


# ---- programs
def test_fresh_and_removed_hooks_cost_no_capture(rng):
    w, log = weft.ones(3, requires_grad=True), []

    @weft.compile
    def step(x):
        w.grad = None
        (w * x).square().sum().backward()

    before = None
    for i, n in enumerate(rng.integers(1, 50, 6)):
        handle = w.register_hook(lambda g, i=i: log.append((i, g.shape[0] if g.sum().item() >= 0 else 0)))
        step(weft.ones(int(n), 3))
        handle.remove()
        before = before or weft.counters.captures
    assert log == [(i, 3) for i in range(6)] and weft.counters.captures == before


def test_parts_are_native_and_one_more_than_calls(rng):
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1))
    optimizer = weft.optim.Adam(model.parameters(), lr=0.01)
    norms = []
    for p in model.parameters():
        p.register_hook(lambda g: norms.append(g.norm().item()))

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(weft.ones(2, 4))
    weft.counters.reset()
    for n in rng.integers(1, 40, 3):
        step(weft.ones(int(n), 4))
    counters = weft.counters
    assert (counters.native_calls, counters.foreign_segments, counters.captures) == (15, 0, 0)
    assert len(norms) == 16 and len(step.entries) == 1


def test_threads_have_calls_of_their_own():
    log = []

    @weft.compile
    def step(x, u):
        (u * x).sum().backward()

    leaves = [weft.ones(3, requires_grad=True) for _ in range(3)]
    for leaf in leaves:
        leaf.register_hook(lambda g: log.append(g.sum().item()))
    threads = [
        threading.Thread(target=lambda leaf=leaf: [step(weft.full((3,), float(i)), leaf) for i in range(5)])
        for leaf in leaves
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [leaf.grad.tolist() for leaf in leaves] == [[10.0] * 3] * 3 and sorted(log) == sorted([0.0, 3, 6, 9, 12] * 3)


def test_a_hook_sees_what_was_written_to_arguments(rng):
    """Arguments that the step has written are as they are by then, versions too; what the hook writes is read after."""
    seen, shown = [], {}

    def hook(g):
        x, b = shown["arguments"]
        seen.append((g.tolist(), x.tolist(), x._version, b.tolist(), b._version))
        with weft.no_grad():
            b.mul_(3.0)

    def step(x, b, w):
        x.mul_(2.0)
        b.add_(1.0)
        (x * w).sum().backward()
        x.add_(b)
        return x * b

    def run(function, n, permuted):
        w = weft.ones(n, n, requires_grad=True)
        w.register_hook(hook)
        seen.clear()
        for k in range(3):
            x, b = (weft.arange(float(n * n)).view(n, n) + i + k for i in (0, 1))
            shown["arguments"] = x, b = (x.t() if permuted else x), b
            out = function(x, b, w)
            seen.append([t.tolist() for t in (out, x, b, w.grad)] + [x._version, b._version])
        return list(seen)

    compiled, n = weft.compile(step), int(rng.integers(2, 5))
    for permuted in (False, True):
        assert run(compiled, n, permuted) == run(step, n, permuted)
    assert not compiled.stepwise and all(isinstance(e, CallingEntry) for e in compiled.entries)


def test_a_hook_holds_tensors_of_its_call(rng):
    """Tensors of the step, arguments and numbers in the cells of a hook that the step makes."""
    seen = []

    def step(x, w, factor=2.0):
        mask = (x > 0).to(weft.float32)
        h = x * w

        def hook(g, scale=1.5):
            seen.append(((g * mask).sum().item(), x.tolist(), factor))
            return g * mask * scale

        h.register_hook(hook)
        h.sum().backward()
        return h.detach()

    compiled = weft.compile(step)
    data = [rng.standard_normal(int(rng.integers(1, 6))).astype(np.float32) for _ in range(4)]
    outcomes = []
    for function in (step, compiled):
        seen.clear()
        for row in data:
            w = weft.ones(len(row), requires_grad=True)
            seen.append(function(weft.tensor(row), w).tolist() + w.grad.tolist())
        outcomes.append(list(seen))
    assert outcomes[0] == outcomes[1] and not compiled.stepwise


def test_a_hook_that_writes_what_it_holds_is_an_error():
    def step(x, w):
        h = x * w
        mask = (x > 0).to(weft.float32)
        h.register_hook(lambda g: print(float(mask.add_(1.0).sum())))
        (h * mask.sum()).sum().backward()

    with pytest.raises(RuntimeError, match="a hook in a compiled function writes a tensor that it holds"):
        weft.compile(step)(weft.ones(3), weft.ones(3, requires_grad=True))
