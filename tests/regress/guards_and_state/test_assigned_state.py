"""What a step assigns to older objects is state: written back after each call, and an input where the next call reads
it, without a capture for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import CaptureError

nn = weft.nn
Step = Callable[[Any], Any]
CASES: dict[str, tuple[Callable[[Any], Step], int]] = {}


class Holder:
    """An object older than the calls."""


@dataclass
class Pair:
    total: Any
    count: Any


def case(captures: int) -> Callable[[Callable[[Any], Step]], Callable[[Any], Step]]:
    """A maker of a step, with the number of captures that any number of its calls costs."""

    def take(make: Callable[[Any], Step]) -> Callable[[Any], Step]:
        CASES[make.__name__] = (make, captures)
        return make

    return take


@case(1)
def an_attribute(h: Any) -> Step:
    h.w = weft.zeros(3)

    def step(x: Any) -> Any:
        h.w = h.w * 0.5 + x
        return h.w * 2

    return step


@case(2)
def first_none(h: Any) -> Step:
    h.w, h.flag = None, False

    def step(x: Any) -> Any:
        h.w = x if h.w is None else h.w + x
        h.flag = True
        return h.w * 2

    return step


@case(1)
def a_tuple(h: Any) -> Step:
    h.s = (weft.zeros(3), weft.ones(3))

    def step(x: Any) -> Any:
        a, b = h.s
        h.s = (b + x, a)
        return a + b

    return step


@case(2)
def a_dataclass(h: Any) -> Step:
    h.s = Pair(weft.zeros(3), 0)

    def step(x: Any) -> Any:
        h.s = Pair(h.s.total + x, h.s.count + 1)
        return h.s.total * h.s.count

    return step


@case(1)
def an_item_and_a_log(h: Any) -> Step:
    h.d, h.log = {"q": weft.zeros(3), "n": 0}, []

    def step(x: Any) -> Any:
        h.d["q"] = h.d["q"] + x
        h.d["n"] += 1
        h.log.append(h.d["n"])
        return h.d["q"] * h.d["n"]

    return step


@case(4)
def the_last_three(h: Any) -> Step:
    h.q = deque(maxlen=3)

    def step(x: Any) -> Any:
        h.q.append(x * 2)
        return sum(h.q)

    return step


@case(4)
def a_window(h: Any) -> Step:
    h.q = []

    def step(x: Any) -> Any:
        h.q.append(x * 2)
        if len(h.q) > 3:
            h.q.pop(0)
        return sum(h.q)

    return step


@case(4)
def new_keys(h: Any) -> Step:
    h.s = {}

    def step(x: Any) -> Any:
        key = f"k{len(h.s) % 3}"
        h.s[key] = h.s.get(key, 0) + x
        return h.s[key] * 1

    return step


@case(2)
def words_and_flags(h: Any) -> Step:
    h.mode, h.k, h.flags = "a", None, (True, "x")

    def step(x: Any) -> Any:
        r = x * 2 if h.mode == "a" else x * 3
        h.mode = "b" if h.mode == "a" else "a"
        h.k = None if h.k is not None else x.sum()
        h.flags = (not h.flags[0], "x")
        return r + (0 if h.k is None else h.k)

    return step


@case(2)
def a_deleted_name(h: Any) -> Step:
    h.t = weft.zeros(3)

    def step(x: Any) -> Any:
        if hasattr(h, "t"):
            y = h.t + x
            del h.t
        else:
            y = x
            h.t = x * 2
        return y

    return step


@case(1)
def a_closure_cell(h: Any) -> Step:
    total, n = weft.zeros(3), 0

    def step(x: Any) -> Any:
        nonlocal total, n
        total, n = total + x, n + 1
        return total * n

    return step


@case(1)
def a_buffer(h: Any) -> Step:
    class Average(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ema", weft.zeros(3))
            self.linear = nn.Linear(3, 3)
            for p in self.parameters():
                nn.init.ones_(p)

        def forward(self, x: Any) -> Any:
            y = self.linear(x)
            self.ema = 0.9 * self.ema + 0.1 * y.detach()
            self.last = y.detach()
            return y + self.ema

    m = Average()

    def step(x: Any) -> Any:
        y = m(x)
        h.seen = m.ema
        return y

    return step


@case(1)
def what_hooks_saw(h: Any) -> Step:
    m, w = nn.Linear(3, 3), nn.Parameter(weft.ones(3))
    for p in m.parameters():
        nn.init.ones_(p)
    h.seen, h.g = {}, None

    def forward_hook(module: Any, args: Any, out: Any) -> None:
        h.seen["out"] = out.detach()

    def grad_hook(g: Any) -> None:
        h.g = g

    m.register_forward_hook(forward_hook)
    w.register_hook(grad_hook)

    def step(x: Any) -> Any:
        w.grad = None
        (m(x * w) * x).sum().backward()
        return w.grad.clone()

    return step


@case(1)
def aliases(h: Any) -> Step:
    w = nn.Parameter(weft.ones(3))
    h.p = weft.zeros(3)

    def step(x: Any) -> Any:
        y = x * 2
        h.a, h.b, h.v, h.arg, h.part = y, y, y[1:], x, x[:2]
        h.old, h.p = h.p, y
        h.w, h.tail = w, w.detach()[1:]
        return y

    return step


@case(2)
def one_list_in_two_places(h: Any) -> Step:
    h.a = h.b = []

    def step(x: Any) -> Any:
        h.a = [x]
        h.b, h.pair = h.a, (h.a, {"again": h.a})
        assert h.a is h.b
        h.b.append(x * 2)
        return h.a[1] * 1

    return step


@case(1)
def written_after_it_was_assigned(h: Any) -> Step:
    h.p = weft.zeros(3)

    def step(x: Any) -> Any:
        h.p = h.p + x
        h.p.mul_(2)
        h.q = h.p[1:]
        h.p.add_(1)
        return h.p * 1

    return step


@case(1)
def data_in_place(h: Any) -> Step:
    h.w = nn.Parameter(weft.ones(3))

    def step(x: Any) -> Any:
        h.w.grad = None
        (h.w * x).sum().backward()
        h.w.data -= 0.1 * h.w.grad
        return h.w.detach() * 1

    return step


@case(2)
def a_loss_that_was_used(h: Any) -> Step:
    w = nn.Parameter(weft.ones(3))

    def step(x: Any) -> Any:
        w.grad = None
        h.loss = (w * w * x).sum()
        h.loss.backward()
        return w.grad.clone()

    return step


@case(2)
def an_optimizer_of_the_users(h: Any) -> Step:
    class Momentum(weft.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})

        def step(self) -> None:  # type: ignore[override]
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state["step"], state["m"] = 0, weft.zeros_like(p)
                    state["step"] += 1
                    state["m"] = 0.5 * state["m"] + p.grad
                    p.data.add_(state["m"], alpha=-group["lr"])

    w = nn.Parameter(weft.ones(3))
    optimizer = Momentum([w])

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return w.detach() * 1

    return step


def plain(value: Any) -> Any:
    """What can be compared of a result or an object."""
    if isinstance(value, weft.Tensor):
        return value.detach().numpy().tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, deque)):
        return [plain(v) for v in value]
    return plain(vars(value)) if isinstance(value, (Holder, Pair)) else value


@pytest.mark.parametrize("name", CASES)
def test_a_hundred_calls_are_as_eager(name: str, rng: np.random.Generator) -> None:
    make, captures = CASES[name]
    inputs = [weft.from_numpy(rng.integers(-3, 4, size=3).astype(np.float32) / 4) for _ in range(100)]
    ends = []
    for compiled in (False, True):
        h = Holder()
        step = weft.compile(make(h)) if compiled else make(h)
        weft.counters.reset()
        results = [plain(step(x)) for x in inputs]
        ends.append(
            (results, plain(h), sorted(k for k, v in vars(h).items() if isinstance(v, weft.Tensor) and v.requires_grad))
        )
    assert weft.counters.captures == captures
    np.testing.assert_allclose(ends[1][0], ends[0][0], rtol=1e-5, atol=1e-5)
    assert ends[1][2] == ends[0][2] and _close(ends[1][1], ends[0][1])


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return list(a) == list(b) and all(_close(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_close, a, b))
    return bool(np.isclose(a, b, rtol=1e-5, atol=1e-5)) if isinstance(a, float) else bool(a == b)


def test_aliases_are_the_same_objects_and_memory() -> None:
    h = Holder()
    step, x = weft.compile(aliases(h)), weft.ones(3)
    for _ in range(3):
        before = h.p
        y = step(x)
        assert h.a is h.b is h.p is y and h.arg is x and h.old is before
    y.add_(1)
    h.w.detach().mul_(5)
    assert (
        h.v.tolist() == [3.0, 3.0] and h.tail.tolist() == [5.0, 5.0] and h.part.storage().address == x.storage().address
    )


def test_one_list_in_two_places_is_one_list() -> None:
    h = Holder()
    step = weft.compile(one_list_in_two_places(h))
    for _ in range(3):
        step(weft.ones(3))
        assert h.a is h.b is h.pair[0] is h.pair[1]["again"] and len(h.a) == 2


def test_an_exception_leaves_everything_as_before() -> None:
    h = Holder()
    h.a, h.n, h.log, h.d = weft.zeros(3), 0, [], {}

    @weft.compile
    def step(at: Any, x: Any) -> Any:
        h.a = h.a + x
        h.n += 1
        h.log.append(h.n)
        h.d["k"] = x
        return x[at] * h.a

    for i in range(4):
        step(weft.tensor([0, 1, 2]), weft.ones(3))
        before = (h.a, h.n, list(h.log), h.d["k"])
        with pytest.raises(IndexError):
            step(weft.tensor([0, 1, 7]), weft.ones(3))
        assert (
            h.a is before[0] and (h.n, h.log) == before[1:3] == (i + 1, list(range(1, i + 2))) and h.d["k"] is before[3]
        )
    assert h.a.tolist() == [4.0] * 3


def test_a_tensor_that_the_user_replaces_is_an_input(rng: np.random.Generator) -> None:
    h, m = Holder(), nn.Linear(3, 2)
    step = weft.compile(lambda x: m(x) * h.w)
    weft.counters.reset()
    for n in rng.integers(1, 9, size=10):
        h.w, m.weight = weft.rand(int(n), 2), nn.Parameter(weft.rand(2, 3))
        x = weft.rand(int(n), 3)
        out = step(x)
        np.testing.assert_allclose(out.detach().numpy(), (m(x) * h.w).detach().numpy(), rtol=1e-4, atol=1e-6)
        out.sum().backward()
        np.testing.assert_allclose(m.bias.grad.numpy(), h.w.sum(0).numpy(), rtol=1e-4)
        m.bias.grad = None
        assert m.weight.grad is not None
    assert weft.counters.captures == 2


def test_a_history_that_was_freed_is_refused_at_the_line_that_reads_it() -> None:
    h, w = Holder(), nn.Parameter(weft.ones(3))
    h.h = weft.zeros(3)

    def step(x: Any) -> Any:
        h.h = h.h * w + x
        h.h.sum().backward()
        return w.grad

    compiled = weft.compile(step)
    compiled(weft.ones(3))
    with pytest.raises(CaptureError, match=r"test_assigned_state\.py:\d+: backward\(\) reaches .*\.detach\(\)"):
        compiled(weft.ones(3))
    assert h.h.tolist() == [1.0] * 3


def test_an_older_tensor_with_a_history_is_refused() -> None:
    w = nn.Parameter(weft.ones(3))
    with pytest.raises(CaptureError, match=r"\.detach\(\)"):
        weft.compile(lambda x: x.sum().backward())(w * 2)
    assert w.grad is None


def test_what_a_program_cannot_make_anew_is_refused() -> None:
    h = Holder()
    h.list = []

    def an_object(x: Any) -> Any:
        h.c = Holder()
        return x

    def a_parameter(x: Any) -> Any:
        h.c = nn.Parameter(x * 2)
        return x

    def a_list_that_holds_itself(x: Any) -> Any:
        h.c = [x]
        h.c.append(h.c)
        return x

    for step in (an_object, a_parameter, a_list_that_holds_itself):
        with pytest.raises(CaptureError, match=r"test_assigned_state\.py:\d+: the compiled function assigns .* to h\."):
            weft.compile(step)(weft.ones(2))
    assert set(vars(h)) == {"list"}

    def grows(x: Any) -> Any:
        h.list.append(x)
        return x * len(h.list)

    compiled = weft.compile(grows, backend="interpret")
    with pytest.raises(
        CaptureError, match=r"test_assigned_state\.py:\d+: the compiled function adds to a list .*deque"
    ):
        for _ in range(100):
            compiled(weft.ones(2))
    assert 16 < len(h.list) < 64


def test_a_flag_that_was_set_already_is_set_again() -> None:
    h = Holder()
    h.flag = True

    @weft.compile
    def step(x: Any) -> Any:
        h.flag = True
        return x

    step(weft.ones(2))
    h.flag = False
    step(weft.ones(2))
    assert h.flag is True


def test_a_write_into_an_argument_is_made_in_each_call_s() -> None:
    def step(batch: Any) -> Any:
        batch["y"] = batch["x"] * 2
        return batch["x"]

    compiled = weft.compile(step)
    for k in range(3):
        batch = {"x": weft.ones(2) * k, "y": weft.ones(2)}
        assert compiled(batch) is batch["x"] and batch["y"].tolist() == [2.0 * k] * 2
    assert len(compiled.entries) == 1
