"""A compiled function that reads Python's state, called from many places of another function (compiled, split or as it
is written), over calls between which that state changes: what it reads counts wherever it is called from."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn

Body = Callable[[Any], Any]
CALLS = 9


class State:
    """What a function reads, and how it changes before each call."""

    def __init__(self) -> None:
        self.n, self.flag, self.b, self.d, self.l = 1.0, True, weft.ones(3), {"a": 1.0}, [1.0]
        self.m = self._layer(0.5)

    @staticmethod
    def _layer(weight: float) -> Any:
        layer = nn.Linear(3, 3, bias=False)
        nn.init.constant_(layer.weight, weight)
        return layer

    def change(self, number: int) -> None:
        match number:
            case 1:
                self.n = 2.0
            case 2:
                self.flag = False
            case 3:
                self.b = weft.full((3,), 2.0)
            case 4:
                self.d["a"] = 3.0
            case 5:
                self.l.append(0.25)
                self.n = 1.5
            case 6:
                nn.init.constant_(self.m.weight, 0.1)
                self.flag = True
            case 7:
                self.m = self._layer(1.0)

    def function(self, x: Any) -> Any:
        y = x * self.n if self.flag else x - self.n
        return y * self.b * self.d["a"] + self.l[-1] * self.m(x)


class Owner:
    def __init__(self, state: State) -> None:
        self.state = state

    def run(self, x: Any) -> Any:
        return self.state.function(x)


class Called(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, g: Body) -> Any:
        ctx.save_for_backward(x)
        return g(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * x, None


class Layer(nn.Module):
    def __init__(self, g: Body) -> None:
        super().__init__()
        self.g = g

    def forward(self, x: Any) -> Any:
        return self.g(x)


class Block:
    def __init__(self, g: Body) -> None:
        self.g = g

    def __enter__(self) -> Body:
        return self.g

    def __exit__(self, *error: object) -> None:
        pass


def _with(members: dict[str, Any]) -> Any:
    return type("Holder", (), members)()


def _in_block(g: Body, x: Any) -> Any:
    with Block(g) as h:
        return h(x)


def _heard(g: Body, x: Any) -> Any:
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient + g(gradient).detach())
    return y * g(x)


def _recursive(g: Body, x: Any, n: int) -> Any:
    return x if n == 0 else _recursive(g, g(x) * 0.1, n - 1)


def _behind_a_layer(g: Body) -> Body:
    layer = nn.Identity()
    layer.register_forward_hook(lambda module, args, out: g(out))
    return lambda x: layer(x)


PLACES: dict[str, Callable[[Body], Body]] = {
    "itself": lambda g: g,
    "a call": lambda g: lambda x: g(x) + 1,
    "two calls": lambda g: lambda x: g(g(x) * 0.1),
    "a dict": lambda g: (lambda d: lambda x: d["g"](x) * 2)({"g": g}),
    "a list": lambda g: (lambda d: lambda x: sum(h(x) for h in d))([g, g]),
    "a partial": functools.partial,
    "a partial with arguments": lambda g: (lambda p: lambda x: p() + x)(functools.partial(g, weft.ones(3))),
    "map": lambda g: lambda x: sum(map(g, [x, x * 2])),
    "reduce": lambda g: lambda x: functools.reduce(lambda a, b: g(a) * b, [x, x * 2]),
    "a static method": lambda g: (lambda o: lambda x: o.h(x))(_with({"h": staticmethod(g)})),
    "a method": lambda g: (lambda o: lambda x: o.h(x) * 2)(_with({"h": lambda self, x: g(x)})),
    "a property": lambda g: (lambda o: lambda x: o.h(x))(_with({"h": property(lambda self: g)})),
    "a called object": lambda g: (lambda o: lambda x: o(x))(_with({"__call__": lambda self, x: g(x)})),
    "__getattr__": lambda g: (lambda o: lambda x: o.h(x))(_with({"__getattr__": lambda self, name: g})),
    "an attrgetter": lambda g: lambda x: operator.attrgetter("h")(_with({"h": staticmethod(g)}))(x),
    "a default": lambda g: lambda x, h=g: h(x),
    "no_grad": lambda g: weft.no_grad()(g),
    "wraps": lambda g: functools.wraps(g)(lambda x: g(x) * 1),
    "a module": Layer,
    "modules": lambda g: nn.Sequential(Layer(g), Layer(g)),
    "a hook of a module": _behind_a_layer,
    "a hook of a tensor": lambda g: lambda x: _heard(g, x),
    "a Function": lambda g: lambda x: Called.apply(x, g),
    "vmap": lambda g: lambda x: weft.func.vmap(g)(weft.stack([x, x * 2])).sum(0),
    "grad": lambda g: lambda x: weft.func.grad(lambda v: g(v).square().sum())(x),
    "jvp": lambda g: lambda x: weft.func.jvp(g, (x,), (x,))[1],
    "a checkpoint": lambda g: lambda x: weft.utils.checkpoint.checkpoint(g, x, use_reentrant=False),
    "cond": lambda g: lambda x: weft.cond(x.sum() > 0, g, lambda v: v * 1, (x,)),
    "a generator": lambda g: lambda x: sum(v for v in (g(x * i) for i in range(2))),
    "recursion": lambda g: lambda x: _recursive(g, x, 2),
    "one compiled inside": lambda g: lambda x: weft.compile(lambda v: g(v) + 1, backend="interpret")(x),
    "a with block": lambda g: lambda x: _in_block(g, x),
}  # fmt: skip
INNER: dict[str, Callable[[State], Body]] = {
    "compiled": lambda s: weft.compile(lambda x: s.function(x), backend="interpret"),
    "split": lambda s: weft.compile(lambda x: s.function(x), backend="interpret", split=True),
    "method": lambda s: weft.compile(Owner(s).run, backend="interpret"),
    "a mapped module": lambda s: (lambda f: lambda x: f(x[None])[0])(weft.func.vmap(Layer(s.function))),
    "out of a cache": lambda s: (lambda f: lambda x: f()(x))(
        functools.lru_cache(None)(lambda: weft.compile(Owner(s).run, backend="interpret"))
    ),
    "twice": lambda s: weft.compile(weft.compile(s.function, backend="interpret"), backend="interpret"),
}
OUTER: dict[str, Callable[[Body], Body]] = {
    "plain": lambda f: f, "compiled": lambda f: weft.compile(f, backend="interpret"),
    "split": lambda f: weft.compile(f, backend="interpret", split=True),
}


def seen(place: Callable[[Body], Body], inner: Callable[[State], Body], outer: Callable[[Body], Body]) -> list[Any]:
    """What each call gives, with its gradient at every other one."""
    state = State()
    function, values = outer(place(inner(state))), []
    for number in range(CALLS):
        state.change(number)
        x = weft.tensor([0.5, -1.0, 2.0], requires_grad=number % 2 == 1 or number == 8)
        y = function(x)
        values.append(y.tolist())
        if x.requires_grad and y.requires_grad:
            values.append(weft.autograd.grad(y.sum(), x)[0].tolist())
    return values


@pytest.mark.parametrize("name", list(PLACES))
def test_what_it_reads_may_change(name: str) -> None:
    place = PLACES[name]
    expected = seen(place, lambda state: state.function, lambda f: f)
    for inner_name, inner in INNER.items():
        for outer_name, outer in OUTER.items():
            actual = seen(place, inner, outer)
            assert len(actual) == len(expected)
            for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
                np.testing.assert_allclose(one, other, 1e-4, 1e-4, err_msg=f"{inner_name} in {outer_name}, {number}")
