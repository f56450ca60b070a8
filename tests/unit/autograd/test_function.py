"""Custom Functions: both styles, every switch, errors, double backward, capture."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function, gradcheck, gradgradcheck

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


class Power(Function):
    """x ** n by the older style; the exponent is a plain number."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor, n: int) -> weft.Tensor:
        ctx.save_for_backward(x, None)
        ctx.n = n
        return x**n

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return g * ctx.n * x ** (ctx.n - 1), None


class Product(Function):
    """x * y with setup_context; also returns their sum, which backward may get no gradient for."""

    @staticmethod
    def forward(x: weft.Tensor, y: weft.Tensor) -> Any:
        return x * y, x + y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor, h: weft.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return (g * y + h if ctx.needs_input_grad[0] else None), (g * x + h if ctx.needs_input_grad[1] else None)


class Exponential(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        return g * ctx.saved_tensors[0]


def test_both_styles_at_order_one_and_two(rng: Rng) -> None:
    x, y = leaf(rng, 3), leaf(rng, 3)
    for function, inputs in ((lambda a: Power.apply(a, 3), (x,)), (Product.apply, (x, y)), (Exponential.apply, (x,))):
        assert gradcheck(function, inputs) and gradgradcheck(function, inputs, fast_mode=True)


def test_third_order_through_a_saved_output(rng: Rng) -> None:
    x = leaf(rng, 2)
    y = Exponential.apply(x)
    for _ in range(3):
        (y,) = weft.autograd.grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(y.detach().numpy(), np.exp(x.detach().numpy()))


def test_needs_input_grad_and_the_node(rng: Rng) -> None:
    x, y = leaf(rng, 2), leaf(rng, 2).detach()
    p, s = Product.apply(x, y)
    node = p.grad_fn
    assert node is s.grad_fn and (p.output_nr, s.output_nr) == (0, 1)
    assert node.name() == "ProductBackward" and node.needs_input_grad == (True, False)
    assert [n is None for n, _ in node.next_functions] == [False, True]
    assert node.saved_tensors[0] is x
    p.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.numpy())
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        node.saved_tensors  # noqa: B018
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        s.sum().backward()


def test_nothing_is_recorded_without_need(rng: Rng) -> None:
    x = leaf(rng, 2)
    with weft.no_grad():
        assert not Power.apply(x, 2).requires_grad
    assert Power.apply(x.detach(), 2).grad_fn is None


def test_a_version_is_checked(rng: Rng) -> None:
    x = leaf(rng, 2)
    a = x * 1.0
    y = Power.apply(a, 2)
    a.add_(1.0)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*PowerBackward"):
        y.sum().backward()
    y = Exponential.apply(x)
    y.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_saved_tensor_hooks_see_what_functions_save(rng: Rng) -> None:
    x, log = leaf(rng, 2), []
    with weft.autograd.saved_tensors_hooks(
        lambda t: (log.append("pack"), t.detach())[1], lambda t: (log.append("unpack"), t)[1]
    ):
        y = Power.apply(x, 2) + Exponential.apply(x)
    y.sum().backward()
    assert log == ["pack", "pack", "unpack", "unpack"]
    v = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), 2 * v + np.exp(v))


def test_outputs_that_carry_no_gradient(rng: Rng) -> None:
    class Sorted(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> Any:
            values, order = x.sort()
            rounded = x.round()
            ctx.mark_non_differentiable(order, rounded)
            ctx.save_for_backward(order)
            return values, order, rounded, "text"

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor, h: Any, r: Any, t: Any) -> weft.Tensor:
            assert t is None and r.tolist() == [0.0] * 4
            (order,) = ctx.saved_tensors
            return weft.zeros_like(g).index_put((order,), g)

    x = leaf(rng, 4)
    values, order, rounded, text = Sorted.apply(x)
    assert values.requires_grad and not order.requires_grad and not rounded.requires_grad and text == "text"
    w = weft.arange(4.0, dtype=weft.float64)
    (values * w).sum().backward()
    np.testing.assert_allclose(x.grad.numpy()[order.numpy()], w.numpy())


def test_an_input_that_is_returned_and_marked(rng: Rng) -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.mark_non_differentiable(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g

    x = leaf(rng, 2)
    y = Same.apply(x)
    assert not y.requires_grad and y.data_ptr() == x.data_ptr() and x.requires_grad


def dirty(*marked: int, count: int = 1) -> type[Function]:
    class Dirty(Function):
        @staticmethod
        def forward(ctx: Any, *tensors: weft.Tensor) -> Any:
            ctx.mark_dirty(*[tensors[i] for i in marked])
            for i in marked:
                tensors[i].mul_(2.0)
            return tensors[:count] if count > 1 else tensors[0]

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return (
                tuple(g * 2.0 for g in grads) if count > 1
                else (grads[0] * 2.0, *[None] * (len(ctx.needs_input_grad) - 1))
            )

    return Dirty


def test_mark_dirty(rng: Rng) -> None:
    x, y = leaf(rng, 2), leaf(rng, 2)
    a, b = x * 1.0, y * 1.0
    p, q = dirty(0, 1, count=2).apply(a, b)
    assert p is a and q is b and a.output_nr == 0 and b.output_nr == 1
    (p * 3.0 + q * 5.0).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and y.grad.tolist() == [10.0, 10.0]
    assert gradgradcheck(lambda t: dirty(0).apply(t * 1.0) ** 2, (leaf(rng, 2),))
    assert gradgradcheck(lambda t: (lambda b: (dirty(0).apply(b[1:]), b)[1])(t * 1.0) ** 2, (leaf(rng, 3),))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        dirty(0).apply(leaf(rng, 2))
    with pytest.raises(RuntimeError, match="must all be outputs of the Function"):
        dirty(1).apply(x * 1.0, y * 1.0)
    with pytest.raises(RuntimeError, match="your Function cannot return more than one Tensor"):
        dirty(0, 1, count=2).apply((x * 1.0)[:1], y * 1.0)


def test_wrong_use_is_named(rng: Rng) -> None:
    class Empty(Function):
        pass

    class Both(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g

        @staticmethod
        def vjp(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g

    class Saves(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor, kind: str) -> weft.Tensor:
            getattr(ctx, kind)(3)
            return x * 1.0

    x = leaf(rng, 2)
    with pytest.raises(NotImplementedError, match="must implement the forward"):
        Empty.apply(x)
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(x).sum().backward()
    with pytest.raises(TypeError, match="argument 0 is of type int"):
        Saves.apply(x, "save_for_backward")
    with pytest.raises(RuntimeError, match="mark_dirty can only accept variables"):
        Saves.apply(x, "mark_dirty")
    with pytest.raises(TypeError, match="save_for_forward expects all arguments to be tensors"):
        Saves.apply(x, "save_for_forward")
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        Power.apply(x, 2, nothing=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="Legacy autograd function"):
            Power()(x)


def test_under_capture(rng: Rng) -> None:
    w = weft.from_numpy(rng.standard_normal(3)).requires_grad_()

    def step(x: weft.Tensor) -> Any:
        p, s = Product.apply(w, x)
        (Power.apply(p, 3) + Exponential.apply(s)).sum().backward()
        out = w.grad
        w.grad = None
        return out

    compiled = weft.compile(step)
    for _ in range(2):
        x = weft.from_numpy(rng.standard_normal(3))
        np.testing.assert_allclose(compiled(x).numpy(), step(x).numpy(), rtol=1e-12)
    forward = weft.compile(lambda t: Power.apply(t, 3))
    t = leaf(rng, 3)
    forward(t).sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), 3 * t.detach().numpy() ** 2)


def test_double_backward_under_capture(rng: Rng) -> None:
    w = weft.from_numpy(rng.standard_normal(3)).requires_grad_()

    def step(x: weft.Tensor) -> Any:
        (g,) = weft.autograd.grad(Exponential.apply(Power.apply(w, 2) * x).sum(), w, create_graph=True)
        (h,) = weft.autograd.grad((g * g).sum(), w)
        return h

    x = weft.from_numpy(rng.standard_normal(3))
    np.testing.assert_allclose(weft.compile(step)(x).numpy(), step(x).numpy(), rtol=1e-10)


def test_what_a_function_warns_of() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            made = x * 3
            ctx.mark_dirty(made)
            ctx.save_for_backward(x)
            return made

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            (x,) = ctx.saved_variables
            return g * 3 + 0 * x

    x = weft.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        y = Bad.apply(x)
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated"):
        y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
