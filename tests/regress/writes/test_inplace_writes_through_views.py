"""Programs that once went wrong, as tests/agree shrank them: views, writes, layouts."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ops.geometry import Geometry, merge_strides
from weft.types import shape_env
from weft.types.shape_env import ShapeEnv

MODES = ("eager", "interpret", "numpy", "llvm")


def run(mode, function):
    return function if mode == "eager" else weft.compile(function, backend=mode)


@pytest.mark.parametrize("mode", MODES)
def test_write_through_one_of_several_views(mode):
    def step(x):
        first, second = x.split(2, 1)
        second.mul_(3.0)
        last = x.unbind(0)[-1]
        last.add_(first[0].sum())
        return x.chunk(2, 0)[0].clone()

    x = np.arange(12.0).reshape(4, 3)
    expected = x.copy()
    expected[:, 2:] *= 3
    expected[-1] += expected[0, :2].sum()
    given = weft.tensor(x)
    out = run(mode, step)(given)
    np.testing.assert_array_equal(given.numpy(), expected)
    np.testing.assert_array_equal(out.numpy(), expected[:2])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("whole", [False, True])
def test_a_write_without_gradient_ends_the_history(mode, whole):
    w = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def step(x):
        y = w * 2.0
        if whole:
            y[...] = x
        else:
            y[-1] = x
        ((y * y).sum() + w.sum()).backward()
        return y.detach().clone()

    run(mode, step)(weft.tensor(5.0))
    expected = np.ones(3) if whole else np.array([1 + 8.0, 1 + 16.0, 1.0])
    np.testing.assert_array_equal(w.grad.numpy(), expected)


def test_reshape_where_a_symbolic_size_is_one():
    env = ShapeEnv()
    a, b = env.fresh("s", 1), env.fresh("s", 1)
    with shape_env.using(env):
        assert merge_strides(Geometry((a, b), (a * b, 1), 0), (a * b,)) == (1,)


@pytest.mark.parametrize("mode", ["interpret", "llvm"])
def test_reshape_that_copies_for_some_sizes_and_looks_for_others(mode):
    def step(x):
        column = x[:, -1]
        flat = column.reshape(x.shape[0] * x.shape[2])
        column[...] = 7.0
        return flat

    compiled = weft.compile(step, backend=mode)
    for dims in ((4, 3, 4), (1, 1, 1), (2, 1, 3), (4, 2, 4)):
        x = np.random.default_rng(sum(dims)).standard_normal(dims)
        expected = x.copy()
        found = step_in_numpy(expected)
        given = weft.tensor(x)
        np.testing.assert_array_equal(compiled(given).numpy(), found)
        np.testing.assert_array_equal(given.numpy(), expected)


def step_in_numpy(x):
    column = x[:, -1]
    flat = column.reshape(-1)
    column[...] = 7.0
    return flat


@pytest.mark.parametrize("mode", ["interpret", "llvm"])
def test_arguments_with_gaps_and_other_orders(mode):
    compiled = weft.compile(lambda x: (x[0], x.reshape(-1)), backend=mode)
    base = np.random.default_rng(3).standard_normal((6, 8))
    for x in (base[:3, :4].copy(), base[:, ::2], base.T.copy().T, base[1:4, 2:6], base[:3, :4].copy()):
        given = weft.from_numpy(x)
        row, flat = compiled(given)
        np.testing.assert_array_equal(row.numpy(), x[0])
        np.testing.assert_array_equal(flat.numpy(), x.reshape(-1))
        row.fill_(1.5)
        assert np.all(x[0] == 1.5)  # a view of the caller's memory, whatever its strides


@pytest.mark.parametrize("mode", ["interpret", "llvm"])
def test_a_returned_reshape_follows_the_sizes(mode):
    compiled = weft.compile(lambda x: x[:, : (x.shape[1] + 1) // 2].transpose(1, 0).reshape(-1), backend=mode)
    for dims in ((2, 3), (1, 1), (3, 1), (1, 4)):
        x = np.random.default_rng(sum(dims)).standard_normal(dims)
        np.testing.assert_array_equal(compiled(weft.tensor(x)).numpy(), x[:, : (dims[1] + 1) // 2].T.reshape(-1))


def test_results_of_the_interpreter_do_not_show_each_other():
    a, b = weft.tensor([1.0, 2.0]), weft.tensor([3.0, 4.0])

    @weft.compile(backend="interpret")
    def swap():
        old = a.clone()
        a.copy_(b)
        b.copy_(old)
        return a.expand(2, 2).clone()

    swap()
    assert a.tolist() == [3.0, 4.0] and b.tolist() == [1.0, 2.0]


def test_a_host_call_may_read_the_first_rows_of_a_buffer():
    state = weft.tensor(np.arange(9.0).reshape(3, 3))
    compiled = weft.compile(lambda: state.chunk(2, 0)[0].clone().cumsum(0), backend="llvm")
    np.testing.assert_array_equal(compiled().numpy(), np.cumsum(np.arange(6.0).reshape(2, 3), 0))


def test_a_call_that_leaves_a_history_runs_as_it_is_written():
    w, s = weft.tensor([1.0, 2.0], requires_grad=True), weft.zeros(2)

    @weft.compile(backend="interpret")
    def step(k):
        s.detach_()
        s[0] = (w * k).sum()
        (s * s).sum().backward()
        return w.grad.clone()

    for k in (2.0, 3.0):
        w.grad = None
        assert step(k).tolist() == [6 * k * k, 6 * k * k]
        assert s.requires_grad and s.tolist() == [3 * k, 0.0]
    assert any("exists outside of it" in miss for miss in step.misses)


def test_returning_one_of_several_views_of_a_parameter_that_was_updated():
    w = weft.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

    @weft.compile(backend="interpret")
    def step():
        _, second = w.unbind(0)
        (second * 0.5).sum().backward()
        with weft.no_grad():
            w.sub_(w.grad)
        w.grad = None
        return second

    assert step().detach().tolist() == [2.5, 3.5]


def test_compile_is_callable_whichever_import_came_first():
    import importlib
    import sys

    package = importlib.import_module("weft.compile")
    assert sys.modules["weft.compile"] is package
    assert float(package(lambda x: x + 1)(weft.tensor(1.0))) == 2.0


@pytest.mark.parametrize("write", [
    lambda v: v.mul_(2), lambda v: v.__setitem__(0, 1.0), lambda v: v.zero_(), lambda v: v.transpose_(0, -1),
    lambda v: v.squeeze_(), lambda v: v.unsqueeze_(0), lambda v: v.copy_(weft.ones(1)),
])
def test_writes_through_a_view_of_a_view_that_is_a_leaf(write, rng):
    leaf = weft.from_numpy(rng.standard_normal(6)).reshape(2, 3).requires_grad_()
    assert leaf.is_leaf and leaf._is_view()
    for view in (leaf[1:], leaf[0], leaf.view(-1), leaf.t()):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
            write(view)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        write(leaf.split(1)[0])
    (leaf[1:] * 2).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [[0.0] * 3, [2.0] * 3])


def test_a_view_made_without_recording_may_be_looked_at_after_its_base_was_written(rng):
    for block in (weft.no_grad, weft.inference_mode):
        base = weft.from_numpy(rng.standard_normal(3)).requires_grad_().clone()
        with block():
            view = base[0]
        base.add_(1)
        assert view.requires_grad and "Invalid" in repr(view) and float(view.detach()) == float(base.detach()[0])
        with pytest.raises(RuntimeError, match="modified inplace"):
            view + 1


def test_random_numbers_are_no_views(rng):
    x = weft.zeros(3)
    for make in (weft.rand_like, weft.randn_like, lambda t: weft.rand(3), lambda t: weft.randint_like(t, 5)):
        for _ in range(2):  # the second call may be a replay
            drawn = make(x)
            assert not drawn._is_view() and drawn.detach_() is drawn
