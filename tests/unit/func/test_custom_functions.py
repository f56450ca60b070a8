"""Custom Functions under grad, vmap and jvp: their own rules, generated ones, and what is refused."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import weft
from weft.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


class Cube(weft.autograd.Function):
    """x ** 3 with a slope that is 10 times too large, so that a test sees whose derivative was used."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x * x, x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])
        ctx.factor = 10

    @staticmethod
    def backward(ctx, g, h):
        x, double = ctx.saved_tensors
        return g * 3 * x * double / 2 * ctx.factor + h * 2


class WithRules(Cube):
    """The same, with a jvp and a vmap of its own."""

    generate_vmap_rule = False
    batches: ClassVar[list[Any]] = []

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])
        ctx.save_for_forward(inputs[0])
        ctx.factor = 10

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return t * 3 * x * x * 100, t * 2

    @staticmethod
    def vmap(info, in_dims, x):
        WithRules.batches.append((info.batch_size, in_dims))
        return WithRules.apply(x), (in_dims[0], in_dims[0])


class Old(weft.autograd.Function):
    """forward takes the context."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


def point(rng, *shape):
    return weft.from_numpy(rng.uniform(0.5, 1.5, shape))


@pytest.mark.parametrize("function", [Cube, WithRules])
def test_gradients_to_third_order(function, rng):
    x = point(rng)

    def f(x: Any) -> Any:
        return function.apply(x)[0]

    first = grad(f)
    assert float(first(x)) == pytest.approx(30 * float(x) ** 2)
    # 3 x * double / 2 * 10, where double is an output of the Function: its slope is 2
    assert float(grad(first)(x)) == pytest.approx(60 * float(x))
    assert float(grad(grad(first))(x)) == pytest.approx(60)


@pytest.mark.parametrize("function", [Cube, WithRules])
def test_batches(function, rng):
    x = point(rng, 4, 3)
    value, double = vmap(function.apply)(x)
    np.testing.assert_allclose(value.numpy(), x.numpy() ** 3)
    np.testing.assert_allclose(double.numpy(), x.numpy() * 2)
    np.testing.assert_allclose(
        vmap(lambda row: function.apply(row)[0], in_dims=1, out_dims=1)(x).numpy(), x.numpy() ** 3
    )
    slopes = vmap(grad(lambda row: function.apply(row)[0].sum()))(x)
    np.testing.assert_allclose(slopes.numpy(), 30 * x.numpy() ** 2)
    outer = grad(lambda x: vmap(lambda row: function.apply(row)[0].sum())(x).sum())(x)
    np.testing.assert_allclose(outer.numpy(), 30 * x.numpy() ** 2)
    twice = vmap(vmap(lambda e: function.apply(e)[0]))(x)
    np.testing.assert_allclose(twice.numpy(), x.numpy() ** 3)


def test_its_own_vmap_is_told_size_and_dims(rng):
    WithRules.batches.clear()
    vmap(lambda row: WithRules.apply(row)[0])(point(rng, 5, 2))
    assert WithRules.batches == [(5, (0,))]


def test_tangents_by_its_jvp_or_by_its_backward(rng):
    x, t = point(rng, 3), point(rng, 3)
    _, (pushed, double) = jvp(Cube.apply, (x,), (t,))
    np.testing.assert_allclose(pushed.numpy(), 30 * x.numpy() ** 2 * t.numpy())
    np.testing.assert_allclose(double.numpy(), 2 * t.numpy())
    _, (pushed, _) = jvp(WithRules.apply, (x,), (t,))
    np.testing.assert_allclose(pushed.numpy(), 300 * x.numpy() ** 2 * t.numpy())
    rows = jacfwd(lambda x: WithRules.apply(x)[0])(x)
    np.testing.assert_allclose(rows.numpy(), np.diag(300 * x.numpy() ** 2))
    np.testing.assert_allclose(jacrev(lambda x: Cube.apply(x)[0])(x).numpy(), np.diag(30 * x.numpy() ** 2))


def test_second_derivatives_mix_modes(rng):
    x = point(rng, 3)
    found = hessian(lambda x: Cube.apply(x)[0].sum())(x)
    np.testing.assert_allclose(found.numpy(), np.diag(60 * x.numpy()))


def test_a_function_of_several_arguments_shared_and_mapped(rng):
    class Scale(weft.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w, power):
            return (x * w) ** power

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, w, ctx.power = inputs
            ctx.save_for_backward(x, w)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            common = g * ctx.power * (x * w) ** (ctx.power - 1)
            return common * w, common * x, None

    x, w = point(rng, 4, 3), point(rng, 3)
    value, pull = vjp(lambda x, w: vmap(lambda row: Scale.apply(row, w, 2))(x), x, w)
    np.testing.assert_allclose(value.numpy(), (x.numpy() * w.numpy()) ** 2)
    of_x, of_w = pull(weft.ones_like(value))
    np.testing.assert_allclose(of_x.numpy(), 2 * x.numpy() * w.numpy() ** 2)
    np.testing.assert_allclose(of_w.numpy(), (2 * x.numpy() ** 2 * w.numpy()).sum(0))
    per_row = vmap(grad(lambda w, row: Scale.apply(row, w, 3).sum()), in_dims=(None, 0))(w, x)
    np.testing.assert_allclose(per_row.numpy(), 3 * x.numpy() ** 3 * w.numpy() ** 2)


def test_ordinary_autograd_sees_the_batched_function(rng):
    x = point(rng, 4, 3).requires_grad_()
    vmap(lambda row: Cube.apply(row)[0])(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 30 * x.detach().numpy() ** 2)


@pytest.mark.parametrize(
    "transform", [lambda f: grad(lambda x: f(x).sum()), vmap, lambda f: lambda x: jvp(f, (x,), (x,))]
)
def test_the_old_style_is_refused(transform, rng):
    with pytest.raises(RuntimeError, match=r"setup_context|does not have vmap support"):
        transform(Old.apply)(point(rng, 3))


def test_no_vmap_support_is_said(rng):
    class Plain(Cube):
        generate_vmap_rule = False

    with pytest.raises(RuntimeError, match="does not have vmap support"):
        vmap(Plain.apply)(point(rng, 3))

    class Both(WithRules):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overriden vmap"):
        vmap(Both.apply)(point(rng, 3))


def test_backward_may_differentiate_inside(rng):
    """A backward that calls autograd.grad (as a checkpoint does) records while the transform's own
    backward does not."""

    class Again(weft.autograd.Function):
        @staticmethod
        def forward(x):
            return (x.exp() * x).sum()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with weft.enable_grad():
                y = x.detach().requires_grad_()
                (found,) = weft.autograd.grad((y.exp() * y).sum(), y)
            return g * found

    x = point(rng, 3)
    np.testing.assert_allclose(grad(Again.apply)(x).numpy(), np.exp(x.numpy()) * (1 + x.numpy()))


class WrittenExp(weft.autograd.Function):
    """exp in place, by NumPy."""

    @staticmethod
    def forward(x):
        np.exp(x.numpy(), x.numpy())
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t.mul_(ctx.saved_tensors[0])

    @staticmethod
    def vmap(info, in_dims, x):
        WrittenExp.apply(x)
        return x, in_dims[0]


def test_an_argument_that_is_written_is_returned_itself_at_every_level(rng):
    x, v = point(rng, 3), point(rng, 3)
    seen: list[bool] = []

    def f(x: Any) -> Any:
        y = x * 1
        z = WrittenExp.apply(y)
        seen.append(z is y)
        return z

    e = np.exp(x.numpy())
    np.testing.assert_allclose(grad(lambda x: f(x).sum())(x).numpy(), e)
    np.testing.assert_allclose(jvp(f, (x,), (v,))[1].numpy(), e * v.numpy())
    np.testing.assert_allclose(hessian(lambda x: f(x).sum())(x).numpy(), np.diag(e))
    rows = weft.stack([x, x * 0.5])
    np.testing.assert_allclose(vmap(grad(lambda x: f(x).sum()))(rows).numpy(), np.exp(rows.numpy()))
    np.testing.assert_allclose(grad(lambda r: vmap(f)(r).sum())(rows).numpy(), np.exp(rows.numpy()))
    assert seen and all(seen)


def test_forward_mode_through_a_backward_that_hides_what_it_does(rng):
    class Hidden(weft.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @weft.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return weft.from_numpy(2 * g.numpy() * x.numpy())

    class Constant(weft.autograd.Function):
        @staticmethod
        def forward(x):
            return x.sign()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return weft.zeros(g.shape, dtype=g.dtype)

    x = point(rng, 3)
    np.testing.assert_allclose(grad(lambda x: Hidden.apply(x).sum())(x).numpy(), 2 * x.numpy())
    with pytest.raises(RuntimeError, match="forward mode needs a jvp"):
        jvp(Hidden.apply, (x,), (x,))
    with pytest.raises(RuntimeError, match="forward mode needs a jvp"):
        vmap(lambda v: jvp(Hidden.apply, (x,), (v,))[1])(weft.stack([x, x]))
    np.testing.assert_array_equal(jvp(Constant.apply, (x,), (x,))[1].numpy(), np.zeros(3))
