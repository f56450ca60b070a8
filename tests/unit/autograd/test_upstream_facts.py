"""Facts of tensors, contexts and saved values that PyTorch's own autograd tests ask for."""

from __future__ import annotations

import warnings

import pytest

import weft
from weft.autograd import Function
from weft.autograd.graph import saved_tensors_hooks


def test_assigned_data_keeps_the_version():
    x, y = weft.zeros(2), weft.zeros(3)
    for _ in range(4):
        y.add_(1)
    x.add_(1)
    x.data = y
    assert (x._version, y._version) == (1, 4) and x.data_ptr() == y.data_ptr()
    x.mul_(2)
    assert (x._version, y._version) == (2, 4) and y.tolist() == [8, 8, 8]


def test_saved_leaves_whose_data_is_assigned():
    p, new = weft.ones(2, requires_grad=True), weft.full((2,), 3.0)
    new.add_(1)
    loss = (p * p).sum()
    p.data = new
    loss.backward()
    assert p.grad.tolist() == [8, 8]


def test_attributes_that_stay():
    x = weft.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires_grad"):
        del x.requires_grad
    x.sum().backward()
    del x.grad
    assert x.grad is None
    square = weft.ones(2, 2, dtype=weft.complex64)
    assert "shape" in dir(x) and all(hasattr(square, name) for name in dir(square))


@pytest.mark.parametrize("flag", [False, True])
def test_views_made_in_inference_mode_tell_their_bases_flag(flag):
    base = weft.ones(2, 3, requires_grad=flag).clone()
    with weft.inference_mode():
        view = base.view(-1)
        assert view.requires_grad is flag and view.view(3, 2).requires_grad is flag and view.is_leaf
        view.view(3, 2).add_(1)
        made = weft.ones(2, requires_grad=flag)
        assert made.resize_(1).requires_grad is flag
        assert view.requires_grad is flag and not view.is_inference()
    with weft.inference_mode():
        fresh = base.detach().requires_grad_(flag).view(-1)
    assert fresh.view(3, 2).requires_grad is flag
    assert not made.view(-1)._is_view()


def test_gradients_of_create_graph_are_nobody_elses():
    x, g = weft.ones(3, requires_grad=True), weft.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x.clone().backward(g, create_graph=True)
    x.grad.detach().mul_(5)
    assert g.tolist() == [1, 1, 1] and x.grad.grad_fn is not None
    assert weft.autograd.grad(x.grad.sum(), g)[0].tolist() == [1, 1, 1]


def test_what_backward_enters_ends_with_it():
    blocks = []

    def unpack(t):
        blocks[0].__enter__()
        return t

    block = saved_tensors_hooks(lambda t: t, unpack)
    blocks.append(block)
    x = weft.ones(2, requires_grad=True)
    with block:
        loss = x.sin().sum()
    loss.backward()
    packed = []
    with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        x.cos()
    assert len(packed) == 1
    blocks[:] = [saved_tensors_hooks(lambda t: 1 / 0, lambda t: t)]
    x.exp()  # would call the hooks that were left behind


def test_saved_tensors_without_history_come_back_as_unpacked():
    x, y = weft.ones(2, requires_grad=True), weft.full((2,), 3.0)
    y.add_(1)
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        out = x * y
    assert out.grad_fn._saved_other is y


class Told(Function):
    @staticmethod
    def forward(ctx, x):
        assert (ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable, ctx.saved_for_forward) == (None,) * 4
        ctx.save_for_backward(x)
        assert ctx.to_save[0] is x and ctx.saved_tensors[0] is x and ctx.requires_grad
        with pytest.raises(TypeError, match="takes a bool"):
            ctx.set_materialize_grads(3)
        ctx.k = 1
        return x * 2

    @staticmethod
    def backward(ctx, g):
        assert ctx.to_save is None
        ctx.maybe_clear_saved_tensors()
        with pytest.raises(RuntimeError, match="already been freed"):
            _ = ctx.saved_tensors
        return g * ctx.k


def test_contexts_and_nodes_share_their_attributes():
    x = weft.ones(2, requires_grad=True)
    out = Told.apply(x)
    calls = []
    out.grad_fn.k = 5
    assert out.grad_fn.k == 5 and out.grad_fn.needs_input_grad == (True,)
    out.grad_fn.register_hook(lambda *grads: calls.append(grads))
    out.sum().backward()
    assert x.grad.tolist() == [5, 5] and len(calls) == 1


def test_instances_of_functions_have_no_call():
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        made = Told()
    for name in ("register_hook", "next_functions", "name", "metadata", "saved_tensors", "needs_input_grad"):
        with pytest.raises(RuntimeError, match=f"'{name}' is invalid"):
            getattr(made, name)
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = made.other


@pytest.mark.parametrize(
    "name, parts", [("unsafe_split", 1), ("unsafe_split_with_sizes", (1, 1, 1)), ("unsafe_chunk", 3)]
)
def test_pieces_with_histories_of_their_own(name, parts, rng):
    a = weft.from_numpy(rng.standard_normal((3, 4))).requires_grad_()
    pieces = getattr(a + a, name)(parts)
    pieces[0].mul_(pieces[1])
    pieces[0].sum().backward()
    expected = 4 * a.detach().numpy()[[1, 0, 2]]
    expected[2] = 0
    assert weft.allclose(a.grad, weft.from_numpy(expected))


def test_what_was_said_of_threads_is_remembered():
    from weft.autograd import is_multithreading_enabled, set_multithreading_enabled

    assert is_multithreading_enabled()
    with set_multithreading_enabled(False):
        assert not is_multithreading_enabled()
        with set_multithreading_enabled(True):
            assert is_multithreading_enabled()
        assert not is_multithreading_enabled()
    assert is_multithreading_enabled()
