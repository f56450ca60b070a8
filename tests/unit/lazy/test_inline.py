"""Inline caches: a step that comes as it came before asks little, and one that comes otherwise is seen to."""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
import weft.lazy.inline.writer as writer
from tests.agree.width import times
from weft import lazy, nn
from weft.autograd.graph import saved_tensors_hooks
from weft.lazy import backend
from weft.lazy.backend import Lazy
from weft.lazy.rules import Rules
from weft.nn import functional as F
from weft.ops.op import Op

Step = Callable[["World"], Any]


class World:
    """What the steps of one run share. Two runs of the same numbers, on two devices."""

    def __init__(self, device: str, seed: int) -> None:
        self.device, self.rng = device, np.random.default_rng(seed)
        weft.manual_seed(seed)
        self.n, self.m = (int(k) for k in self.rng.integers(3, 7, 2))
        layers = nn.Linear(self.m, self.n), nn.Tanh(), nn.LayerNorm(self.n), nn.Linear(self.n, self.m)
        self.model = nn.Sequential(*layers).double().to(device)
        self.other = nn.Linear(self.m, self.n).double().to(device)
        self.optimizer = weft.optim.Adam(self.model.parameters(), lr=0.05)
        self.kept = self.tensor(self.n, self.m)
        self.heard: list[Any] = []

    def tensor(self, *dims: int) -> Any:
        return weft.tensor(self.rng.standard_normal(dims).astype("f8"), device=self.device)


def _train(w: World, x: Any = None, clear: bool = True, loss: Callable[[Any], Any] | None = None) -> Any:
    x = w.tensor(5, w.m) if x is None else x
    if clear:
        w.optimizer.zero_grad()
    out = w.model(x)
    value = (out.square().mean() if loss is None else loss(out)) + F.relu(out).sum() * 0.1
    value.backward()
    grads = [None if p.grad is None else p.grad.clone() for p in w.model.parameters()]
    w.optimizer.step()
    return [value.detach(), *grads]


def _hooked(w: World) -> Any:
    x = w.tensor(5, w.m)
    w.optimizer.zero_grad()
    h = w.model[0](x)
    h.register_hook(lambda g: g * 2)
    w.model[3](F.layer_norm(w.model[1](h), (w.n,))).sum().backward()
    w.optimizer.step()
    return [None if p.grad is None else p.grad for p in w.model.parameters()]


def _packed(w: World) -> Any:
    def pack(t: Any) -> Any:
        w.heard.append(tuple(t.shape))
        return t

    with saved_tensors_hooks(pack, lambda t: t * 1.5):
        return _train(w)


def _listening(w: World) -> Any:
    handle = next(w.model.parameters()).register_post_accumulate_grad_hook(lambda p: w.heard.append(p.grad.sum()))
    try:
        return [*_train(w), w.heard.pop()]
    finally:
        handle.remove()


def _frozen(w: World) -> Any:
    w.model[0].requires_grad_(False)
    try:
        return _train(w)
    finally:
        w.model[0].requires_grad_(True)


def _written_between(w: World) -> Any:
    x = w.tensor(5, w.m)
    w.optimizer.zero_grad()
    out = w.model[0](x)
    y = out.exp()
    try:
        with weft.no_grad():
            y.mul_(2)
        y.sum().backward()
    except RuntimeError as problem:
        return str(problem)[:70]
    return "no error"


def _replaced(w: World) -> Any:
    p = w.model[0].weight
    p.data = p.detach() * 0.5
    return _train(w)


def _kept_graph(w: World) -> Any:
    x = w.tensor(5, w.m).requires_grad_()
    value = w.model(x).sum()
    value.backward(retain_graph=True)
    first = x.grad.clone()
    value.backward()
    return [first, x.grad]


def _second_order(w: World) -> Any:
    x = w.tensor(5, w.m).requires_grad_()
    (g,) = weft.autograd.grad(w.model(x).square().sum(), x, create_graph=True)
    w.optimizer.zero_grad()
    g.square().sum().backward()
    return [x.grad, *[p.grad for p in w.model.parameters()]]


def _other_step(w: World) -> Any:
    before = w.optimizer.param_groups[0]["lr"]
    w.optimizer.param_groups[0]["lr"] = 0.0 if before else 0.3
    found = _train(w)
    w.optimizer.param_groups[0]["lr"] = before
    return found


def _without_some(w: World) -> Any:
    w.optimizer.zero_grad()
    w.model[3](w.tensor(5, w.n)).sum().backward()
    w.optimizer.step()
    return [p.detach().clone() for p in w.model.parameters()]


def _views(w: World, flip: bool = False) -> Any:
    x = w.kept.t() if flip else w.kept.reshape(w.m, w.n)
    a = x[1:]
    with weft.no_grad():
        w.kept.add_(0.25)
    return [a * a, F.relu(x) + x, weft.cat([x, a]), a.sum(0) - x[:1], weft.stack([x, x])]


def _operands(w: World, other: bool) -> Any:
    x, y = w.tensor(w.n, w.m), w.tensor(w.n, w.m)
    return [x * (x if other else y), weft.maximum(y, x) if other else weft.maximum(x, y), F.relu(y if other else x)]


def _numbers(w: World, k: float, dim: int) -> Any:
    x = w.tensor(w.n, w.m)
    return [x * k, weft.add(x, x, alpha=k), F.softmax(x, dim), x.clamp(min=k), F.leaky_relu(x, k), x.sum(dim)]


def _several(w: World, keep: bool) -> Any:
    x = w.tensor(w.n, w.m).requires_grad_(keep)
    values, places = x.max(1)
    found = x.sort(-1)
    return [values, places, found.values, found.indices, x.max(1).values]


def _anomaly(w: World) -> Any:
    with weft.autograd.detect_anomaly():
        return _train(w)


def _forced(w: World) -> Any:
    lazy.config.set_force_fallback("aten::relu,aten::tanh")
    try:
        return _train(w)
    finally:
        lazy.config.set_force_fallback("")


def _written(w: World, at: int = 1, k: float = 0.9) -> Any:
    x, y = w.kept, w.tensor(w.n, w.m)
    with weft.no_grad():
        x.mul_(k).add_(y, alpha=1 - k)
        w.model[0].weight.lerp_(w.model[0].weight * 0.5, 0.25)
    x[at] = y[0]
    x[:, 1:].add_(y[:, 1:])
    row = x[at]
    row.mul_(0.5)
    row.add_(1)
    shown = [row.sum(), x.t()[0] * 2]
    x.t()[0].copy_(y.float()[:, 0])
    y.masked_fill_(y > 0, k)
    y[1:, :2].zero_()
    return [*shown, x.clone(), y, x.view(-1)[2:5].fill_(k), w.model[0].weight.detach().clone()]


def _written_as_others_read(w: World) -> Any:
    x = w.kept.clone()
    x[1:].copy_(x[:-1].clone())
    x.add_(x)
    x[0].add_(x[1])
    return [x, x.detach().mul_(0.5), x * 1]


def _refused(w: World) -> Any:
    p = w.model[0].weight
    with weft.no_grad():
        row = p[0]
    found = []
    for write in (lambda: row.add_(1), lambda: p.add_(1), lambda: w.kept[0].add_(p[0].sum() * 0)):
        try:
            found.append(write().detach().clone())
        except RuntimeError as problem:
            found.append(str(problem)[:60])
    w.kept = w.kept.detach().clone()
    return [*found, w.kept]


STEPS: dict[str, Step] = {
    "writes": _written,
    "writes elsewhere": lambda w: _written(w, 0, 0.5),
    "writes of what others read": _written_as_others_read,
    "refused": _refused,
    "train": _train,
    "more rows": lambda w: _train(w, w.tensor(9, w.m)),
    "one row": lambda w: _train(w, w.tensor(1, w.m)),
    "transposed": lambda w: _train(w, w.tensor(w.m, 5).t()),
    "part": lambda w: _train(w, w.tensor(8, w.m)[2:7]),
    "wants a gradient": lambda w: _train(w, w.tensor(5, w.m).requires_grad_()),
    "adds up": lambda w: _train(w, clear=False),
    "another loss": lambda w: _train(w, loss=lambda out: out.exp().mean()),
    "without history": lambda w: weft.no_grad()(lambda: w.model(w.tensor(5, w.m)))(),
    "inference": lambda w: weft.inference_mode()(lambda: w.model(w.tensor(5, w.m)).clone())(),
    "hooked": _hooked,
    "packed": _packed,
    "listening": _listening,
    "frozen": _frozen,
    "written between": _written_between,
    "replaced": _replaced,
    "kept graph": _kept_graph,
    "second order": _second_order,
    "another rate": _other_step,
    "without some": _without_some,
    "views": _views,
    "views of a transposed one": lambda w: _views(w, True),
    "operands": lambda w: _operands(w, False),
    "other operands": lambda w: _operands(w, True),
    "numbers": lambda w: _numbers(w, 0.75, 0),
    "other numbers": lambda w: _numbers(w, -0.5, 1),
    "zero": lambda w: _numbers(w, 0.0, -1),
    "minus zero": lambda w: [weft.div(1.0, w.tensor(3).abs() * -0.0), *_numbers(w, -0.0, 1)],
    "several": lambda w: _several(w, True),
    "several without history": lambda w: _several(w, False),
    "watched": _anomaly,
    "forced": _forced,
    "other dtype": lambda w: [(w.tensor(w.n, w.m).float() * 0.75).sum(0), F.relu(w.tensor(w.n, w.m).float())],
}


def _told(found: Any) -> Any:
    if isinstance(found, (list, tuple)):
        return [_told(f) for f in found]
    if isinstance(found, weft.Tensor):
        return found.detach().cpu().numpy().copy(), str(found.dtype), tuple(found.stride())
    return found


def _agree(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(itertools.starmap(_agree, zip(a, b, strict=True)))
    if isinstance(a, tuple):
        return a[1:] == b[1:] and np.allclose(a[0], b[0], rtol=1e-5, atol=1e-6, equal_nan=True)
    return bool(a == b)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches are written the first time that a call comes."""
    monkeypatch.setattr(writer, "SEEN", 1)


def _run(device: str, seed: int, names: list[str]) -> list[Any]:
    world, found = World(device, seed), []
    for name in names:
        out = STEPS[name](world)
        if device == "lazy":
            lazy.mark_step()
        found.append(_told(out))
    return found


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("first", STEPS)
def test_steps_in_any_order_are_those_of_eager_mode(first: str, rng: np.random.Generator) -> None:
    others = [str(name) for name in rng.permutation(list(STEPS))[: times(8)]]
    names = [first, first, first]
    for other in others:
        names += [other, first, other, other, first]
    seed = int(rng.integers(1 << 30))
    for i, (wanted, found) in enumerate(zip(_run("cpu", seed, names), _run("lazy", seed, names), strict=True)):
        assert _agree(wanted, found), f"seed {seed}, step {i} of {names}: {found}, should be {wanted}"


# ---- how much is asked
@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The operators that went the long way to an entry of the trace."""
    plain, found = Lazy.walked, Counter[str]()

    def walked(self: Lazy, below: Any, op: Op, args: Any) -> Any:
        def counted(op: Op, args: Any) -> Any:
            before = self.where.trace.state
            out = below(op, args)
            found[op.base] += self.where.trace.state is not before
            return out

        return plain(self, counted, op, args)

    monkeypatch.setattr(Lazy, "walked", walked)
    yield found


def test_a_repeated_step_goes_no_long_way(
    long_ways: Counter[str], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World("lazy", int(rng.integers(1 << 30)))
    searched: list[Any] = []
    plain = Rules.record
    monkeypatch.setattr(Rules, "record", lambda self, *args: (searched.append(args), plain(self, *args))[1])
    for i in range(5):
        if i == 3:
            long_ways.clear()
            searched.clear()
        _train(world)
        lazy.mark_step()
    assert not +long_ways
    assert not searched


def test_what_was_recorded_is_found_behind_the_state_of_the_trace(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update of another step looks alike: it is found among all that was recorded, once for each place."""
    worlds = [World("lazy", seed) for seed in [int(rng.integers(1 << 30))] * 2]
    recorded: list[Any] = []
    plain = Rules.record
    monkeypatch.setattr(Rules, "record", lambda self, *args: (recorded.append(args), plain(self, *args))[1])
    for world in worlds:
        for _ in range(4):
            _train(world)
            lazy.mark_step()
        recorded.append(None)
    first = recorded.index(None)
    assert first > 0 and recorded[first:] == [None, None]


def test_views_and_lists_of_operands_go_no_long_way(long_ways: Counter[str], rng: np.random.Generator) -> None:
    world = World("lazy", int(rng.integers(1 << 30)))
    for i in range(5):
        if i == 3:
            long_ways.clear()
        x = world.tensor(world.n, 2 * world.m)
        y = x.t()[:, 1:].reshape(-1, 1)
        weft.stack([weft.cat([x, x[:1]]).sum(0), x.view(2, -1).sum() * y[: x.shape[1], 0]])
        lazy.mark_step()
    assert not +long_ways


def test_counters_do_not_tell_the_ways_apart(rng: np.random.Generator) -> None:
    world = World("lazy", int(rng.integers(1 << 30)))
    counts = []
    for _ in range(5):
        lazy.metrics.reset()
        _train(world)
        lazy.mark_step()
        counts.append({n: lazy.metrics.counter_value(n) for n in lazy.metrics.counter_names() if "Compile" not in n})
    assert counts[1:] == [counts[1]] * 4


def test_writes_go_no_long_way_and_are_counted(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    world, counts, long = World("lazy", int(rng.integers(1 << 30))), [], []
    plain = Lazy.written

    def written(self: Lazy, below: Any, op: Op, args: Any) -> Any:
        return plain(self, lambda op, args: (long.append(op.base), below(op, args))[1], op, args)

    monkeypatch.setattr(Lazy, "written", written)
    for i in range(5):
        if i == 3:
            long.clear()
        lazy.metrics.reset()
        _written(world)
        lazy.mark_step()
        counts.append({n: lazy.metrics.counter_value(n) for n in lazy.metrics.counter_names() if "Compile" not in n})
    assert not long
    assert counts[1:] == [counts[1]] * 4


def test_a_place_where_calls_keep_changing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[Op] = []
    plain = backend.learn
    monkeypatch.setattr(backend, "learn", lambda *args: (learnt.append(args[2]), plain(*args))[1])
    x = weft.ones(3, device="lazy")
    for i in range(40):
        (x * (i + 0.5)).sum()
        lazy.mark_step()
    assert 0 < [op.base for op in learnt].count("mul") <= writer.TRIES
    assert [op.base for op in learnt].count("sum") == 1


def test_threads_that_trace_on_one_device(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SEEN", 1)
    monkeypatch.setattr(writer, "TRIES", 1000)
    seeds = [int(s) for s in rng.integers(1 << 30, size=3)]
    found: dict[tuple[str, int], Any] = {}

    def work(device: str, seed: int) -> None:
        x = weft.tensor(np.random.default_rng(seed).standard_normal((4, 4)), device=device)
        w = x.t().clone().requires_grad_()
        for i in range(25):
            y = F.relu(x @ w) * 0.5 + x
            (g,) = weft.autograd.grad((y * y).sum(), w)
            with weft.no_grad():
                w.copy_(w - 0.001 * g)
            if i % (3 + seed % 3) == 0 and device == "lazy":
                lazy.mark_step()
        found[device, seed] = w.detach().cpu().numpy().copy()

    for seed in seeds:
        work("cpu", seed)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=("lazy", seed)) for seed in seeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for seed in seeds:
        assert np.allclose(found["cpu", seed], found["lazy", seed])
