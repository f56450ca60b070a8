"""Planned calls, composites and formulas give what the long way gives: values, dtypes, errors, aliasing,
the random stream."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import weft
from weft.ops import planned
from weft.ops.packet import aten
from weft.ops.tracing import Untraceable, trace_rule
from weft.support import limits

functional = weft.nn.functional
Call = Callable[[weft.Tensor, weft.Tensor], Any]
CALLS: dict[str, Call] = {
    "softmax": lambda x, y: functional.softmax(x, dim=-1),
    "log_softmax": lambda x, y: functional.log_softmax(x, dim=0),
    "layer_norm": lambda x, y: functional.layer_norm(x, tuple(x.shape[1:])),
    "mean": lambda x, y: x.mean(1, keepdim=True),
    "var": lambda x, y: x.var(0),
    "max": lambda x, y: x.max(1)[0],
    "argmax": lambda x, y: x.argmax(-1),
    "sum": lambda x, y: x.sum(),
    "any": lambda x, y: (x > 0).any(1),
    "matmul": lambda x, y: x @ y.t(),
    "vectors": lambda x, y: x[0] @ y[0],
    "linear": lambda x, y: functional.linear(x, y),
    "stack": lambda x, y: weft.stack([x, y], dim=1),
    "cat": lambda x, y: weft.cat([x, y, x], dim=-1),
    "index": lambda x, y: x[weft.tensor([1, 0, 1])],
    "norm": lambda x, y: x.norm(),
    "lerp": lambda x, y: weft.lerp(x, y, 0.3),
    "mse_loss": lambda x, y: functional.mse_loss(x, y),
    "gelu": lambda x, y: functional.gelu(x, approximate="tanh"),
}


@pytest.fixture
def random(rng: np.random.Generator) -> np.random.Generator:
    return rng


@contextmanager
def long_way() -> Iterator[None]:
    """No rule is traced within the block, nor are plans from before it used."""

    def refuse(*args: Any) -> Any:
        raise Untraceable

    traced = planned.trace_rule
    planned.trace_rule = refuse
    planned.forget()
    try:
        yield
    finally:
        planned.trace_rule = traced
        planned.forget()


def drawn(random: np.random.Generator, dims: tuple[int, ...], dtype: Any, requires_grad: bool = False) -> weft.Tensor:
    made = weft.tensor(random.standard_normal(dims)).to(dtype)
    return made.requires_grad_() if requires_grad else made


@pytest.mark.parametrize("dtype", [weft.float64, weft.float32, weft.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_the_long_way(name: str, dtype: Any, random: np.random.Generator) -> None:
    dims = tuple(int(d) for d in random.integers(2, 5, 2))
    for attempt in range(3):  # traced, planned, and planned on another layout
        x, y = drawn(random, dims, dtype), drawn(random, dims, dtype)
        if attempt == 2:
            x = drawn(random, dims[::-1], dtype).t()
        found = CALLS[name](x, y)
        with long_way():
            wanted = CALLS[name](x, y)
        assert found.dtype is wanted.dtype
        np.testing.assert_array_equal(found.float().numpy(), wanted.float().numpy())


@pytest.mark.parametrize("name", [n for n in CALLS if n not in ("argmax", "any")])
def test_gradients_are_those_of_the_long_way(name: str, random: np.random.Generator) -> None:
    dims = tuple(int(d) for d in random.integers(2, 5, 2))
    for _ in range(2):
        x, y = drawn(random, dims, weft.float64, True), drawn(random, dims, weft.float64, True)
        g = drawn(random, tuple(CALLS[name](x, y).shape), weft.float64)
        found = weft.autograd.grad(CALLS[name](x, y), [x, y], g, allow_unused=True)
        with long_way():
            wanted = weft.autograd.grad(CALLS[name](x, y), [x, y], g, allow_unused=True)
        for a, b in zip(found, wanted, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_results_own_their_memory_whatever_the_layout() -> None:
    for x in (weft.ones(3, 4), weft.ones(4, 3).t(), weft.ones(3, 4)):
        mean, top = x.mean(0), x.max(1)[0]
        stacked = weft.stack([x])
        mean.fill_(7.0), top.fill_(7.0), stacked.fill_(7.0)
        assert x.sum().item() == 12


def test_views_stay_views_of_their_argument() -> None:
    for _ in range(3):
        x = weft.zeros(2, 3)
        x.flatten()[1] = 5.0
        x.narrow(0, 1, 1).fill_(1.0)
        assert x.tolist() == [[0, 5, 0], [1, 1, 1]]


def test_reshaped_copies_and_views_of_one_shape_are_told_apart() -> None:
    wide = weft.zeros(3, 2)
    wide.t().flatten().fill_(1.0)  # strides cannot express it: a copy
    assert wide.sum().item() == 0
    whole = weft.zeros(2, 3)
    whole.flatten().fill_(1.0)  # the same dtype and shape, but a view
    assert whole.sum().item() == 6


def test_a_gradient_that_passes_through_is_the_same_object() -> None:
    seen: list[weft.Tensor] = []
    for _ in range(2):
        x = weft.ones(3, requires_grad=True)
        y = x + weft.ones(3)
        g = weft.ones(3)
        x.register_hook(lambda grad: seen.append(grad))
        y.backward(g)
        assert seen.pop() is g


def table(name: str, rule: Callable[..., Any], *args: Any) -> planned.Table:
    return planned.table_of_rule(name, rule, tuple(map(type, args)), planned.Wrap())


def test_signs_of_zero_and_nan_are_told_apart() -> None:
    run = table("zeros", lambda x, number: x * number, np.ones(2), 0.0).run
    for value in (0.0, -0.0, 0.0):
        assert math.copysign(1, run((np.ones(2), value))[0]) == math.copysign(1, value)
    assert math.isnan(run((np.ones(2), math.nan))[0]) and run((np.ones(2), 2.0))[0] == 2
    keys = [key_of(v) for v in (0.0, -0.0, 1, 1.0, True, "1", (1,), (True,), None)]
    assert len(set(keys)) == len(keys)
    assert key_of(math.nan) == key_of(math.nan)


def key_of(value: Any) -> tuple[Any, ...]:
    key: list[Any] = []
    planned.sign((value,), key, [])
    return tuple(map(str, key))  # types and values apart


def test_the_default_dtype_is_part_of_the_question() -> None:
    x = weft.tensor([1, 2, 3])
    before = weft.get_default_dtype()
    try:
        for dtype in (weft.float64, weft.float32, weft.float64):
            weft.set_default_dtype(dtype)
            assert functional.softmax(x.to(dtype), dim=0).dtype is dtype
            assert weft.stack([x, x]).dtype is weft.int64
            assert (x / 2).sum().dtype is dtype
    finally:
        weft.set_default_dtype(before)


def test_random_numbers_are_drawn_at_every_call() -> None:
    x = weft.ones(64)
    weft.manual_seed(3)
    found = [functional.dropout(x, 0.5) for _ in range(3)]
    weft.manual_seed(3)
    with long_way():
        wanted = [functional.dropout(x, 0.5) for _ in range(3)]
    assert [f.tolist() for f in found] == [w.tolist() for w in wanted]
    assert found[0].tolist() != found[1].tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda i: functional.embedding(weft.tensor([0, i]), weft.ones(3, 2)),
        lambda i: weft.ones(3)[weft.tensor([i])],
        lambda i: weft.gather(weft.ones(3), 0, weft.tensor([i])),
        lambda i: weft.ones(2, 3) @ weft.ones(3 + i // 9, 2),
        lambda i: functional.softmax(weft.ones(2, 3), dim=i),
    ],
)
def test_errors_are_those_of_the_long_way(call: Callable[[int], Any]) -> None:
    call(1)
    texts = []
    for _ in range(2):
        with pytest.raises(Exception) as found:
            call(9)
        texts.append((found.type, str(found.value)))
    with long_way(), pytest.raises(Exception) as wanted:
        call(9)
    assert texts == [(wanted.type, str(wanted.value))] * 2
    call(1)


def test_plans_are_bounded_and_start_anew() -> None:
    made = table("bounded", lambda x, number: aten.sum(x) * number, np.ones(2), 1)
    for i in range(limits.PLANS_OF_A_TABLE + 20):
        assert made.run((np.ones(2), i)) == 2 * i
    assert 0 < len(made.plans) <= limits.PLANS_OF_A_TABLE


def test_intermediate_values_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[weakref.ref[Any]] = []
    alive: list[int] = []

    class Noted(np.ndarray):  # type: ignore[type-arg]
        def __array_finalize__(self, other: Any) -> None:
            seen.append(weakref.ref(self))

    plan, _ = trace_rule(lambda x: aten.sum(aten.exp(aten.neg(x)) * 2.0), (np.ones(4),), [np.ones(4)])
    sums = np.add.reduce

    def count(x: Any, *args: Any) -> Any:
        gc.collect()
        alive.append(sum(r() is not None for r in seen) - 1)  # all but the one that is summed
        return sums(x, *args)

    monkeypatch.setattr("weft.ops.sums._add", count)
    given = np.zeros(4).view(Noted)
    seen.clear()
    plan.run(given)
    assert alive == [0]
