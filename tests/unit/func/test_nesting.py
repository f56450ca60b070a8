"""Random programs under random nestings of grad, vmap, jvp, jacrev and jacfwd, against loops and plain autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.width import times
from weft.autograd import grad as autograd_grad
from weft.func import grad, jacfwd, jacrev, jvp, vjp, vmap

N = 3
Program = Callable[[Any, Any], Any]  # (x [3], c [3]) -> a scalar; x is differentiated and mapped, c is shared


def sample(rng: np.random.Generator, shape: tuple[int, ...] = (N,)) -> weft.Tensor:
    return weft.from_numpy(rng.uniform(0.3, 1.4, shape))


# ---- programs


def through_views(x: Any, c: Any) -> Any:
    y = x.clone()
    tail = y[1:]
    tail.mul_(c[:2])
    y[0] = x[2] * 2
    return y.add_(1).log().sum()


def into_zeros(x: Any, c: Any) -> Any:
    y = x.new_zeros(5)
    y[1:4] = x * c
    y.exp_()
    return (y.cumsum(0) * 0.1).tanh().sum()


def products_in_place(x: Any, c: Any) -> Any:
    y = x.clone().mul_(x)
    half = y[::2]
    half.mul_(c[::2] * x[1:2]).div_(x[:2] + 1)
    return y.mul_(y.flip(0) + c).sqrt_().sum()


WRITES = (through_views, into_zeros, products_in_place)
# No step makes equal elements: where sort and amax meet ties, which of them has the gradient is free.
STEPS: list[Callable[[Any, Any], Any]] = [
    lambda x, c: x.sin() * c, lambda x, c: x * x + c, lambda x, c: weft.softmax(x * c, 0),
    lambda x, c: x.flip(0).cumsum(0), lambda x, c: weft.where(x > 0.6, x.exp(), x * c), lambda x, c: x.outer(c) @ x,
    lambda x, c: x[weft.tensor([2, 0, 0])] * c + x, lambda x, c: weft.stack([x, c]).prod(0),
    lambda x, c: x.sort().values * x.amax(), lambda x, c: x.expand(2, N).reshape(-1)[1:4] * x.norm(),
    lambda x, c: weft.nn.functional.layer_norm(x, (N,), c, None), lambda x, c: weft.einsum("i,j,j->i", x, x, c),
    lambda x, c: x.logsumexp(0) * x, lambda x, c: weft.cat([x[1:], c[:1]]).tanh(),
    lambda x, c: x.gather(0, weft.tensor([1, 1, 2])) * x.std() * c, lambda x, c: x.clone().mul_(c).add_(x),
]


def program(rng: np.random.Generator) -> Program:
    if rng.integers(6) == 0:
        return WRITES[rng.integers(len(WRITES))]
    steps = [STEPS[i] for i in rng.integers(len(STEPS), size=int(rng.integers(1, 4)))]

    def run(x: Any, c: Any) -> Any:
        for step in steps:
            x = step(x, c)
        return (x * x).sum()

    return run


# ---- each transform beside what it means


def rows(x: Any, c: Any) -> Any:
    return weft.stack([x, x * 0.5, x * c, c - x * 0.2])


def of_gradient(f: Program) -> Program:
    return lambda x, c: (grad(f)(x, c) * c).sum()


def of_gradient_plain(f: Program) -> Program:
    def run(x: Any, c: Any) -> Any:
        return (plain_gradient(lambda y: f(y, c), x, None) * c).sum()

    return run


def plain_gradient(f: Callable[[Any], Any], x: Any, seed: Any) -> Any:
    with weft.enable_grad():
        leaf = x if x.requires_grad else x.detach().requires_grad_()
        y = f(leaf)
        if not y.requires_grad:
            return weft.zeros_like(leaf)
        return autograd_grad(y, leaf, seed, create_graph=True, materialize_grads=True)[0]


def of_map(f: Program) -> Program:
    return lambda x, c: (vmap(f, in_dims=(0, None))(rows(x, c), c) * weft.arange(1.0, 5.0).double()).sum()


def of_map_plain(f: Program) -> Program:
    return lambda x, c: sum(f(row, c) * (i + 1) for i, row in enumerate(rows(x, c).unbind(0)))


def of_map_last(f: Program) -> Program:
    return lambda x, c: vmap(f, in_dims=(-1, 1))(rows(x, c).transpose(0, 1), weft.stack([c, x, c, c * 2], 1)).prod()


def of_map_last_plain(f: Program) -> Program:
    def run(x: Any, c: Any) -> Any:
        values = [f(row, d) for row, d in zip(rows(x, c).unbind(0), (c, x, c, c * 2), strict=True)]
        return values[0] * values[1] * values[2] * values[3]

    return run


def of_tangent(f: Program) -> Program:
    return lambda x, c: jvp(lambda y: f(y, c), (x,), (c,))[1]


def of_tangent_plain(f: Program) -> Program:
    def run(x: Any, c: Any) -> Any:
        def pulled(u: Any) -> Any:
            return plain_gradient(lambda y: f(y, c), x, u)

        return plain_gradient(pulled, weft.zeros((), dtype=weft.float64), c)

    return run


def of_jacobian(f: Program) -> Program:
    return lambda x, c: (jacrev(lambda y: weft.stack([f(y, c), f(y * y, c)]))(x) @ c).prod()


def of_forward_jacobian(f: Program) -> Program:
    return lambda x, c: (jacfwd(lambda y: weft.stack([f(y, c), f(y * y, c)]))(x) @ c).prod()


def of_jacobian_plain(f: Program) -> Program:
    def run(x: Any, c: Any) -> Any:
        return (plain_gradient(lambda y: f(y, c), x, None) @ c) * (plain_gradient(lambda y: f(y * y, c), x, None) @ c)

    return run


def of_pullback(f: Program) -> Program:
    return lambda x, c: (vjp(lambda y: f(y, c) * y, x)[1](c)[0] * c).sum()


def of_pullback_plain(f: Program) -> Program:
    return lambda x, c: (plain_gradient(lambda y: f(y, c) * y, x, c) * c).sum()


TRANSFORMS = {
    "grad": (of_gradient, of_gradient_plain), "vmap": (of_map, of_map_plain),
    "vmap -1": (of_map_last, of_map_last_plain), "jvp": (of_tangent, of_tangent_plain),
    "jacrev": (of_jacobian, of_jacobian_plain), "jacfwd": (of_forward_jacobian, of_jacobian_plain),
    "vjp": (of_pullback, of_pullback_plain),
}


def agree(f: Program, names: list[str], rng: np.random.Generator) -> None:
    got, want = f, f
    for name in names:
        got, want = TRANSFORMS[name][0](got), TRANSFORMS[name][1](want)
    x, c = sample(rng), sample(rng)
    a, b = float(got(x, c)), float(want(x, c).detach())
    scale = max(abs(b), 1.0)
    assert abs(a - b) <= 1e-7 * scale, (names, a, b)


@pytest.mark.parametrize("outer", list(TRANSFORMS))
@pytest.mark.parametrize("inner", list(TRANSFORMS))
def test_two_levels(inner, outer, rng):
    for _ in range(times(2)):
        agree(program(rng), [inner, outer], rng)


@pytest.mark.parametrize("number", range(12))
def test_three_levels(number, rng):
    del number
    agree(program(rng), list(rng.choice(list(TRANSFORMS), 3)), rng)


@pytest.mark.parametrize("step", range(len(STEPS)))
def test_every_step_under_every_transform(step, rng):
    for name in TRANSFORMS:
        agree(lambda x, c: STEPS[step](x, c).pow(2).sum(), [name], rng)


@pytest.mark.parametrize("f", WRITES)
@pytest.mark.parametrize("outer", list(TRANSFORMS))
@pytest.mark.parametrize("inner", list(TRANSFORMS))
def test_writes_under_two_levels(f, inner, outer, rng):
    agree(f, [inner, outer], rng)


@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_gradients_flow_through_the_results(name, rng):
    """Ordinary autograd outside of a transform: backward through it against central differences."""
    f = TRANSFORMS[name][0](program(rng))
    x, c, v = sample(rng), sample(rng), sample(rng)
    leaf = x.clone().requires_grad_()
    f(leaf, c).backward()
    step = 1e-6
    slope = (float(f(x + v * step, c)) - float(f(x - v * step, c))) / (2 * step)
    assert float((leaf.grad * v).sum()) == pytest.approx(slope, rel=1e-4, abs=1e-6)
