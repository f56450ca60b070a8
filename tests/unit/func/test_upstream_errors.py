"""What PyTorch's own tests of transforms and of forward mode expect to be refused, and what is whose own."""

from __future__ import annotations

import pytest

import weft
import weft.autograd.forward_ad as fwd
from weft.autograd import Function, gradcheck
from weft.autograd.function import once_differentiable
from weft.func import grad, jacfwd, jacrev, jvp, vjp, vmap


@pytest.mark.parametrize("aux", [1, 2.5, "text"])
def test_auxiliary_outputs_are_tensors(aux):
    x = weft.ones(3)
    for call in (
        lambda f: grad(lambda t: (t.sum(), f(t)), has_aux=True)(x),
        lambda f: vjp(lambda t: (t, f(t)), x, has_aux=True),
        lambda f: jvp(lambda t: (t, f(t)), (x,), (x,), has_aux=True),
        lambda f: jacrev(lambda t: (t, f(t)), has_aux=True)(x),
        lambda f: jacfwd(lambda t: (t, f(t)), has_aux=True)(x),
    ):
        for form in (lambda t: aux, lambda t: [t, aux]):
            with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type"):
                call(form)


def test_outputs_are_tensors_and_not_none():
    x = weft.ones(2)
    for call in (lambda f: vjp(f, x), lambda f: jvp(f, (x,), (x,)), lambda f: jacfwd(f)(x), lambda f: jacrev(f)(x)):
        for nothing in (None, ()):
            with pytest.raises(RuntimeError, match="Expected f to be a function that has non-empty output"):
                call(lambda t, nothing=nothing: nothing)
        with pytest.raises(RuntimeError, match=r"expected f\(\*primals\) to return only tensors"):
            call(lambda t: 3)


def test_arguments_of_jvp():
    x = weft.ones(2)
    for primals, tangents, text in (
        ((x,), x, "same python structure"), ((x,), [x], "same python structure"),
        ((1.0,), (x,), "only contain Tensors"), ((x,), (1.0,), "only contain Tensors"),
        (((),), ((),), "at least one Tensor"), (x, (x,), "be a tuple"),
    ):
        with pytest.raises(RuntimeError, match=text):
            jvp(weft.sin, primals, tangents)


def with_jvp(forward, jvp_rule):
    class Made(Function):
        pass

    Made.forward, Made.jvp = staticmethod(forward), staticmethod(jvp_rule)
    Made.backward = staticmethod(lambda ctx, g: g)
    return Made


def written(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def without_gradient(ctx, x):
    out = x * 2
    ctx.mark_non_differentiable(out)
    return out


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("forward, rule, text", [
    (written, lambda ctx, t: t * 2, "not modifying the forward mode gradients inplace"),
    (written, lambda ctx, t: t, "not modifying the forward mode gradients inplace"),
    (without_gradient, lambda ctx, t: t, "You should return None at that position instead"),
    (lambda ctx, x: x, lambda ctx, t: t * 1, "the jvp is not returning a view"),
    (lambda ctx, x: x[:1], lambda ctx, t: t[:1].clone(), "the jvp is not returning a view"),
    (lambda ctx, x: x[:1], lambda ctx, t: t.clone()[:1], "not returning a view of the given grad input"),
])
def test_tangents_are_related_as_values_are(wants, forward, rule, text):
    with fwd.dual_level(), pytest.raises(RuntimeError, match=text):
        with_jvp(forward, rule).apply(fwd.make_dual(weft.ones(2, requires_grad=wants).clone(), weft.ones(2)))


@pytest.mark.parametrize("wants", [False, True])
def test_written_arguments_and_tangents_stay_themselves(wants):
    runs = []

    def forward(ctx, x):
        runs.append(1)
        return written(ctx, x)

    leaf, tangent = weft.ones(2, requires_grad=wants), weft.ones(2)
    with fwd.dual_level():
        dual = fwd.make_dual(leaf.clone(), tangent)
        out = with_jvp(forward, lambda ctx, t: t.mul_(2)).apply(dual)
        assert out is dual and len(runs) == 1 and out.requires_grad is wants
        assert fwd.unpack_dual(out).tangent is tangent and tangent.tolist() == [2, 2]


def test_jvp_sees_what_was_saved_for_it():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    def rule(ctx, t):
        assert ctx.saved_tensors == ()
        return 2 * t

    assert jvp(with_setup(rule).apply, (weft.ones(2),), (weft.ones(2),))[1].tolist() == [2, 2]
    with fwd.dual_level():
        out = with_jvp(forward, rule).apply(fwd.make_dual(weft.ones(2), weft.ones(2)))
        assert fwd.unpack_dual(out).tangent.tolist() == [2, 2]


def with_setup(rule):
    class Made(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

    Made.jvp = staticmethod(rule)
    return Made


@pytest.mark.parametrize("op", [lambda x: x.clone(), lambda x: x + 1, lambda x: weft.zeros(2).copy_(x)])
def test_tangents_of_results_are_nobody_elses(op):
    tangent = weft.ones(2)
    with fwd.dual_level():
        out = fwd.unpack_dual(op(fwd.make_dual(weft.ones(2), tangent))).tangent
        out.mul_(3)
    assert tangent.tolist() == [1, 1]


def test_what_make_dual_refuses():
    x, whole = weft.ones(2), weft.ones(2, dtype=weft.int64)
    with fwd.dual_level():
        with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
            fwd.make_dual(x, whole)
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            fwd.make_dual(whole, x)
        with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
            fwd.make_dual(x, fwd.make_dual(x, x))


def test_a_wrong_jvp_is_named_by_gradcheck():
    x = weft.rand(3, dtype=weft.float64, requires_grad=True)
    wrong = with_jvp(lambda ctx, x: x * 1, lambda ctx, t: t * 3)
    with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch for output 0"):
        gradcheck(wrong.apply, (x,), check_forward_ad=True)
    with fwd.dual_level(), pytest.raises(RuntimeError, match="must implement the jvp function"):
        with_jvp(lambda ctx, x: x * 1, Function.jvp).apply(fwd.make_dual(x, x.detach()))


def test_what_vmap_refuses():
    x, name = weft.ones(3), "`out_dims` must be an int, None or a python collection of ints"
    for call, text in (
        (lambda: vmap(weft.mul, in_dims=[0, 0])(x, x), "expected `in_dims` to be int or a"),
        (lambda: vmap(lambda t: t, in_dims=(None,))(1), "Expected at least one Tensor"),
        (lambda: vmap(lambda t: t, out_dims="text")(x), name),
        (lambda: vmap(lambda t: t, out_dims=("text",))(x), name),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    for call in (lambda t: t.item(), lambda t: t if t else -t):
        with pytest.raises(RuntimeError, match=r"item\(\) on a Tensor.*data-dependent control flow"):
            vmap(call)(x)


@pytest.mark.parametrize("output, out_dims, is_fine", [
    (lambda x: x, (0,), False), (lambda x: [x], (0,), False), (lambda x: [x, x], [0, 0], True),
    (lambda x: [x, x], 0, True),
])
def test_out_dims_of_a_functions_own_vmap_fit_its_output(output, out_dims, is_fine):
    class Made(Function):
        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return output(x), out_dims

    if is_fine:
        assert all(t.shape == (3,) for t in vmap(Made.apply)(weft.ones(3)))
        return
    with pytest.raises(RuntimeError, match="returned an incompatible"):
        vmap(Made.apply)(weft.ones(3))


def test_gradients_that_may_not_be_differentiated_say_so_outside_of_a_transform_too():
    class Cube(Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] ** 2 * g

    x, seed = weft.tensor(2.0, requires_grad=True), weft.tensor(1.0, requires_grad=True)
    (found,) = vjp(Cube.apply, x)[1](seed)
    assert float(found) == 12
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        found.backward()
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        grad(lambda t: vjp(Cube.apply, t)[1](t)[0])(x)
    assert float(grad(Cube.apply)(x)) == 12
