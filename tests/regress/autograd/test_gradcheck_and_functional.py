"""What the tools around gradients once got wrong: grad mode, strictness, what gradcheck may be asked for,
complex powers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import Function, GradcheckError, functional, gradcheck, gradgradcheck


def leaf(rng, *shape):
    return weft.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_()


def test_numpy_under_no_grad(rng):
    x = leaf(rng, 3)
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        x.numpy()
    with weft.no_grad():
        assert x.numpy().shape == (3,) and np.asarray(x).sum() == pytest.approx(float(x.sum()))
    with weft.inference_mode():
        np.testing.assert_array_equal(x.numpy(), x.detach().numpy())


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
def test_functional_records_under_no_grad(name, rng):
    x, v = leaf(rng, 3), weft.from_numpy(rng.standard_normal(3))
    args = (
        (x,) if name in ("jacobian", "hessian") else (x, weft.tensor(1.0, dtype=weft.float64) if name == "vjp" else v)
    )

    def f(t):
        return (t.exp() * t).sum()

    expected = getattr(functional, name)(f, *args)
    with weft.no_grad():
        plain, found = getattr(functional, name)(f, *args), getattr(functional, name)(f, *args, create_graph=True)
    for a, b, c in zip(*[r if isinstance(r, tuple) else (r,) for r in (expected, plain, found)], strict=True):
        assert not b.requires_grad and c.requires_grad
        np.testing.assert_allclose(b.numpy(), a.numpy())
        np.testing.assert_allclose(c.detach().numpy(), a.numpy())


def test_strict_refuses_what_does_not_depend(rng):
    x, v = leaf(rng, 3), weft.ones(3, dtype=weft.float64)
    for call in (lambda **k: functional.jacobian(weft.clone, x, **k), lambda **k: functional.vjp(weft.clone, x, v, **k),
                 lambda **k: functional.jvp(weft.clone, x, v, **k)):
        call(create_graph=True)
        with pytest.raises(RuntimeError, match="independent of input 0"):
            call(create_graph=True, strict=True)


class Doubled(Function):
    """Twice its argument and its square; `lost` says what its backward does without a gradient,
    `jvp_factor` its tangents."""

    lost: Any = None

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x.detach() * 3

    @staticmethod
    def backward(ctx, g, h):
        if g is None and h is None:
            return Doubled.lost
        return (0 if g is None else g * 2) + (0 if h is None else h * 3)


def test_gradcheck_gives_no_gradient_to_some_outputs(rng):
    x = leaf(rng, 2)
    Doubled.lost = None
    assert gradcheck(Doubled.apply, (x,))
    Doubled.lost = weft.ones(2, dtype=weft.float64)
    with pytest.raises(GradcheckError, match="undefined or zero"):
        gradcheck(Doubled.apply, (x,))
    assert gradcheck(Doubled.apply, (x,), check_undefined_grad=False)

    class Careless(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(GradcheckError, match="handle undefined output grads"):
        gradcheck(Careless.apply, (x,))


def test_gradcheck_of_outputs_that_change_shape(rng):
    x = weft.tensor([0.0, 1.0], dtype=weft.float64, requires_grad=True)
    with pytest.raises(GradcheckError, match="same shape"):
        gradcheck(lambda t: t.repeat(2) if float(t[0]) > 0 else t * 1.0, (x,))


def test_gradcheck_by_both_modes(rng):
    x = leaf(rng, 3)
    assert gradcheck(
        lambda t: (t.sin(), t[1] * t), (x,), check_forward_ad=True, check_backward_ad=False,
        check_batched_forward_grad=True,
    )
    assert gradgradcheck(lambda t: t.sin() * t, (x,), check_fwd_over_rev=True, check_rev_over_rev=False)
    for call in (lambda: gradcheck(weft.sin, (x,), check_backward_ad=False), lambda: gradgradcheck(
        weft.sin, (x,), check_rev_over_rev=False
    )):
        with pytest.raises(ValueError, match="at least one"):
            call()


@pytest.mark.parametrize("base", [-1.0, -2.5, 0.0, 1.7])
def test_gradients_of_real_numbers_to_complex_powers(base, rng):
    e = complex(rng.uniform(0.5, 2), rng.standard_normal())
    exponent = weft.tensor([e], dtype=weft.complex128, requires_grad=True)
    power = np.exp(e * np.log(complex(base))) if base else 0.0
    expected = np.conj(power * np.log(complex(base))) if base else None
    for b in (base, weft.tensor([base], dtype=weft.float64)):
        (found,) = weft.autograd.grad(weft.pow(b, exponent).real.sum(), exponent)
        if base:
            np.testing.assert_allclose(found.numpy(), [expected], rtol=1e-10)
        else:
            assert np.isnan(found.numpy()).all()


@pytest.mark.parametrize("reduce", ["add", "multiply"])
@pytest.mark.parametrize("inplace", [False, True])
def test_gradients_of_scatter_with_a_reduction(reduce, inplace, rng):
    x, source = leaf(rng, 2, 2), leaf(rng, 3, 2)
    index = weft.from_numpy(rng.integers(0, 2, (3, 2)))

    def f(x, source):
        one = (
            x.clone().scatter_(0, index, source, reduce=reduce) if inplace
            else x.scatter(0, index, source, reduce=reduce)
        )
        return one * x, x.scatter(0, index, 1.5, reduce=reduce).sin()

    assert gradcheck(f, (x, source)) and gradgradcheck(f, (x, source), fast_mode=True)
    assert gradcheck(f, (x, source), check_forward_ad=True, check_backward_ad=False)
    batch = weft.func.vmap(lambda x, s: f(x, s)[0])(
        weft.stack([x, x]).detach(), weft.stack([source, source * 2]).detach()
    )
    np.testing.assert_allclose(batch[1].numpy(), f(x, source * 2)[0].detach().numpy())


def test_functional_names_the_function_and_the_place(rng):
    x, two = leaf(rng, 3), weft.ones(2, dtype=weft.float64)
    constant = lambda t: t.detach().clone().requires_grad_() * 1  # noqa: E731  with a history that is not the input's
    for name in ("vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"):
        args = () if name in ("jacobian", "hessian") else (x,)
        with pytest.raises(TypeError, match=f"The inputs given to {name} must be either a Tensor"):
            getattr(functional, name)(lambda t, u: t.sum(), (x, 2), *args)
        with pytest.raises(TypeError, match=f"The outputs of the user-provided function given to {name} must"):
            getattr(functional, name)(lambda t: (t.sum(), "text"), x, *args)
    for name in ("hessian", "hvp", "vhp"):
        args = () if name == "hessian" else (x,)
        with pytest.raises(RuntimeError, match=f"returned by the function given to {name} should contain a single"):
            getattr(functional, name)(lambda t: t * 2, x, *args)
        with pytest.raises(RuntimeError, match=r"jacobian of the user-provided function with respect to input 0 is"):
            getattr(functional, name)(lambda t: (3 * t).sum(), x, *args, strict=True)
    with pytest.raises(RuntimeError, match="Output 1 of the user-provided function is independent of input 0"):
        functional.jacobian(lambda t: (t * 2, constant(t)), x, strict=True)
    for name, f in (("vjp", lambda t: t * 2), ("jvp", lambda t: t * 2)):
        with pytest.raises(RuntimeError, match="The given v should contain a single Tensor"):
            getattr(functional, name)(f, x, (x, x))
        with pytest.raises(RuntimeError, match=r"^v has invalid size: should be .*3.* but got .*2"):
            getattr(functional, name)(f, x, two)
