"""Objects of weft's that a step uses compute by their attributes, and by those of the objects that they hold: a
distribution's parameters, a transform's parts, a block's flags. They were constants of the program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import weft
from weft import distributions as ds
from weft.distributions import transforms as ts

Step = Callable[[Any], Any]
Case = tuple[Step, list[Callable[[], object]]]  # a function, and what changes before each call but the first


def vector(*values: float) -> Any:
    return weft.tensor(values)


def sets(owner: Any, name: str, value: Any) -> Callable[[], object]:
    return partial(setattr, owner, name, value)


def normal() -> Any:
    return ds.Normal(vector(0.0, 0.0), vector(1.0, 1.0))


def parameters() -> Case:
    d = normal()
    return d.log_prob, [sets(d, "loc", vector(1.0, 2.0)), sets(d, "scale", vector(2.0, 3.0)), lambda: d.loc.add_(1.0)]


def properties() -> Case:
    d, g = normal(), ds.Independent(ds.Gamma(vector(1.0, 1.0), vector(1.0, 1.0)), 1)
    return lambda x: x * (d.mean + d.variance + g.mean), [
        sets(d, "loc", vector(1.0, 2.0)), sets(d, "scale", vector(2.0, 3.0)),
        sets(g.base_dist, "rate", vector(2.0, 3.0)),
    ]


def held() -> Case:
    d, t = normal(), ts.AffineTransform(1.0, 2.0)
    outer = ds.TransformedDistribution(d, [t])
    return outer.log_prob, [
        sets(d, "loc", vector(1.0, 2.0)), sets(t, "scale", 3.0),
        lambda: outer.transforms.append(ts.AffineTransform(0.0, 2.0)),
        sets(outer, "base_dist", ds.Normal(vector(3.0, 4.0), vector(1.0, 1.0))),
    ]


def mixed() -> Case:
    d = normal()
    m = ds.MixtureSameFamily(ds.Categorical(vector(0.25, 0.75)), d)
    return m.log_prob, [sets(d, "loc", vector(1.0, 2.0)), sets(d, "scale", vector(2.0, 3.0))]


def divergence() -> Case:
    p, q = normal(), normal()
    outer = ds.Independent(p, 1), ds.Independent(q, 1)
    changes = [sets(p, "loc", vector(1.0, 2.0)), sets(q, "scale", vector(2.0, 3.0))]
    return lambda x: x * ds.kl_divergence(*outer), changes


def composed() -> Case:
    t = ts.AffineTransform(1.0, 2.0)
    c = ts.ComposeTransform([t])
    return lambda x: c(x) + c.inv(x), [
        sets(t, "loc", 3.0), lambda: c.parts.append(ts.AffineTransform(0.0, 4.0)), sets(t, "scale", 5.0),
    ]


def kept() -> Case:
    t = ts.AffineTransform(1.0, 2.0, cache_size=1)

    def step(x: Any) -> Any:
        y = t(x)
        assert t.inv(y) is x
        return y + t.inv(x)

    return step, [sets(t, "loc", 3.0), lambda: t(weft.ones(2)), sets(t, "scale", 5.0)]


def constraint() -> Case:
    inside = ds.constraints.interval(0.0, 1.5)
    outer = ds.constraints.independent(inside, 0)
    return lambda x: x * outer.check(x), [sets(inside, "upper_bound", 3.0), sets(inside, "lower_bound", 1.5)]


def low_precision(x: Any, w: Any) -> Any:
    y = x @ w
    return y.float() * (2.0 if y.dtype == weft.bfloat16 else 1.0)


def autocast() -> Case:
    block, w = weft.autocast("cpu", dtype=weft.bfloat16), weft.ones(2, 2)

    def step(x: Any) -> Any:
        with block:
            return low_precision(x, w)

    return step, [sets(block, "_enabled", False), sets(block, "_enabled", True)]


def decorated() -> Case:
    block, w = weft.autocast("cpu", dtype=weft.bfloat16), weft.ones(2, 2)
    inner = block(low_precision)
    return lambda x: inner(x, w), [sets(block, "_enabled", False), sets(block, "_enabled", True)]


def grad_mode() -> Case:
    block = weft.set_grad_enabled(True)
    names = [name for name, value in vars(block).items() if type(value) is bool]

    def step(x: Any) -> Any:
        with block:
            y = x * 2
        return y.detach() * (2.0 if y.requires_grad else 1.0)

    return step, [lambda: [setattr(block, name, False) for name in names]]


def scheduler() -> Case:
    optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=0.1)
    plateau = weft.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    return lambda x: x * (1.0 + plateau.in_cooldown), [sets(plateau, "cooldown_counter", 2)]


CASES = [
    parameters, properties, held, mixed, divergence, composed, kept, constraint, autocast, decorated, grad_mode,
    scheduler,
]


@pytest.mark.parametrize("way", ["whole", "split", "within"])
@pytest.mark.parametrize("make", CASES)
def test_what_they_hold_may_change(make: Callable[[], Case], way: str) -> None:
    results = []
    for is_compiled in (False, True):
        step, changes = make()
        if is_compiled:
            inner = weft.compile(step, split=way == "split")
            step = inner if way != "within" else weft.compile(lambda x, inner=inner: inner(x))
        rows = []
        for change in (lambda: None, *changes, lambda: None):
            change()
            rows += step(weft.tensor([1.0, 2.0], requires_grad=True)).flatten().tolist()
        results.append(rows)
    assert results[1] == pytest.approx(results[0], rel=1e-5)


def test_inverses_live_as_long_as_somebody_uses_them() -> None:
    c = ts.ComposeTransform([ts.AffineTransform(1.0, 2.0)])
    inverse = c.inv
    assert c.inv is inverse and inverse.inv is c
    del inverse
    c.parts.append(ts.ExpTransform())
    x = vector(0.5, 1.5)
    assert c.inv(c(x)).tolist() == pytest.approx(x.tolist())


def test_an_operator_is_asked_for_by_name_for_the_first_time() -> None:
    source = "import weft; print(weft.compile(lambda x: weft.ops.aten.asinh(x))(weft.zeros(1)).item())"
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert run.stdout == "0.0\n"


def test_loaders_within_a_step_need_no_values() -> None:
    loader = weft.utils.data.DataLoader([weft.ones(2) * i for i in range(4)], batch_size=2)
    step = weft.compile(lambda x: sum((x * rows.sum() for rows in loader), x))
    weft.manual_seed(3)
    assert step(weft.ones(1)).item() == 13.0
    after = weft.rand(1).item()
    weft.manual_seed(3)
    list(loader)
    assert weft.rand(1).item() == after
