"""Transforms inside weft.compile: the same values, one program for every size, native code without loops;
and compiled functions inside transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


def point(rng, *shape):
    return weft.from_numpy(rng.uniform(0.5, 1.5, shape))


def scalar(x: Any) -> Any:
    return ((x * x).cumsum(0).sin() * x.flip(0)).sum()


def written(x: Any) -> Any:
    y = x.clone()
    y[1:].mul_(x[:-1])
    return y.exp().sum()


TRANSFORMED = {
    "grad": lambda x: grad(scalar)(x), "grad of a write": lambda x: grad(written)(x),
    "hessian": lambda x: hessian(scalar)(x),
    "jacrev of jacrev": lambda x: jacrev(jacrev(scalar))(x),
    "jvp": lambda x: jvp(lambda y: y.tanh() * y.sum(), (x,), (x * 2,))[1],
    "vjp": lambda x: vjp(lambda y: y.outer(y), x)[1](weft.ones(x.shape[0], x.shape[0], dtype=x.dtype))[0],
    "jacfwd of a write": lambda x: jacfwd(written)(x), "vmap": lambda x: vmap(lambda a: (a * x).softmax(0))(x),
    "vmap of a grad": lambda x: vmap(grad(scalar))(x.outer(x)),
    "grad of a vmap": lambda x: grad(lambda y: vmap(scalar)(y.outer(y)).sum())(x),
}


@pytest.mark.parametrize("name", list(TRANSFORMED))
def test_one_program_for_every_size(name, rng):
    function = TRANSFORMED[name]
    compiled = weft.compile(function)
    for n in rng.choice(np.arange(3, 9), 3, replace=False):
        x = point(rng, int(n))
        np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-9, atol=1e-9)
    assert len(compiled.entries) == 1


def test_per_example_gradients_compiled(rng):
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(p: Any, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(functional_call(model, p, (x.unsqueeze(0),)), y.unsqueeze(0))

    def norms(p: Any, x: Any, y: Any) -> Any:
        found = vmap(grad(loss), in_dims=(None, 0, 0))(p, x, y)
        return weft.stack([g.flatten(1).norm(dim=1) for g in found.values()])

    compiled = weft.compile(norms)
    for n in (3, 5):
        x, y = weft.randn(n, 3), weft.randint(0, 4, (n,))
        np.testing.assert_allclose(
            compiled(parameters, x, y).numpy(), norms(parameters, x, y).numpy(), rtol=1e-4, atol=1e-6
        )
    assert len(compiled.entries) == 1


def test_gradients_through_a_compiled_transform(rng):
    x = point(rng, 4).requires_grad_()
    weft.compile(lambda x: (grad(scalar)(x) * x.detach()).sum())(x).backward()
    plain = x.detach().clone().requires_grad_()
    (grad(scalar)(plain) * plain.detach()).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), plain.grad.numpy(), rtol=1e-9)


def test_a_step_with_a_transform_inside(rng):
    """A penalty on input gradients, in a whole training step."""
    torn = []
    for wrap in (lambda f: f, weft.compile):
        weft.manual_seed(3)
        model = nn.Linear(3, 1).double()
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

        @wrap
        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            slopes = vmap(grad(lambda row: model(row).tanh().sum()))(x)
            loss = slopes.pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        data = weft.from_numpy(np.random.default_rng(5).normal(size=(6, 3)))
        torn.append([float(step(data).detach()) for _ in range(3)])
    np.testing.assert_allclose(torn[0], torn[1], rtol=1e-9)


def test_a_compiled_function_inside_a_transform(rng):
    compiled = weft.compile(scalar)
    x = point(rng, 4)
    np.testing.assert_allclose(grad(compiled)(x).numpy(), grad(scalar)(x).numpy())
    np.testing.assert_allclose(vmap(compiled)(x.outer(x)).numpy(), vmap(scalar)(x.outer(x)).numpy())


def test_choices_by_value_under_a_transform(rng):
    """Eager: Python's. In a compiled function the levels stand above the capture,
    whose branches know nothing of them."""

    def f(x: Any) -> Any:
        return weft.cond(x.sum() > 0, lambda y: y.pow(2).sum(), lambda y: y.sum(), (x,))

    x = point(rng, 3)
    np.testing.assert_allclose(grad(f)(x).numpy(), 2 * x.numpy())
    with pytest.raises(RuntimeError, match="inside of a transform"):
        weft.compile(lambda x: grad(f)(x))(x)


OF_EXAMPLES = {
    "ravel": lambda a: a.reshape(2, 2).ravel() * 2,
    "gcd": lambda a: weft.gcd(a.int(), (a * 3).int()),
    "nextafter": lambda a: weft.nextafter(a, a + 1),
    "frexp": lambda a: weft.frexp(a)[0],
    "cholesky_ex": lambda a: weft.linalg.cholesky_ex(a.outer(a) + 2 * weft.eye(4))[0],
    "eigenvalues": lambda a: weft.linalg.eigvals(a.reshape(2, 2)).abs().sum(),
    "histc": lambda a: weft.histc(a, 5, 0, 2),  # has no batch rule: how many examples there are is guarded
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", OF_EXAMPLES)
def test_every_operator_is_mapped_in_compiled_functions(rng, name):
    mapped = vmap(OF_EXAMPLES[name])
    compiled = weft.compile(lambda x: mapped(x), backend="interpret")
    for rows in (3, 5):
        x = weft.from_numpy(rng.normal(size=(rows, 4)) * 5)
        np.testing.assert_allclose(compiled(x).numpy(), mapped(x).numpy())


def test_tangents_by_hand_compiled(rng):
    def f(x: Any, t: Any) -> Any:
        with weft.autograd.forward_ad.dual_level():
            dual = weft.autograd.forward_ad.make_dual(x, t)
            return weft.autograd.forward_ad.unpack_dual(dual.exp() * dual).tangent

    x, t = point(rng, 3), point(rng, 3)
    np.testing.assert_allclose(weft.compile(f)(x, t).numpy(), np.exp(x.numpy()) * (1 + x.numpy()) * t.numpy())


def test_random_numbers_of_a_compiled_batch(rng):
    compiled = weft.compile(lambda x: vmap(lambda a: a + weft.rand(2), randomness="different")(x))
    for n in (3, 5):
        weft.manual_seed(n)
        found = compiled(weft.zeros(n, 2))
        weft.manual_seed(n)
        np.testing.assert_array_equal(found.numpy(), weft.rand(n, 2).numpy())
