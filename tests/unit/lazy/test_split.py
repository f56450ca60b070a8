"""deferred(function): Python runs, operators wait, and a value that is asked for cuts the trace."""

from __future__ import annotations

import copy
from collections import Counter

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from weft import lazy, nn


def compiles():
    return lazy.metrics.counter_value("UncachedCompile") or 0


def drawn(rng, *shape):
    return weft.tensor(rng.standard_normal(shape).astype(np.float32))


def reads(step):
    """How often the step was cut, by what asked for a value."""
    found = Counter()
    for where, count in step.cuts.items():
        found[where.rsplit(": ", 1)[1]] += count
    return found


# ---- steps that ask for nothing
def test_a_training_step_is_one_program_for_all_sizes_and_rates(rng):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    twin = copy.deepcopy(model)

    def make(model):
        optimizer = weft.optim.Adam(model.parameters(), lr=1e-2)

        def step(x, rate):
            optimizer.param_groups[0]["lr"] = rate
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    plain, step = make(twin), deferred(make(model))
    for i, size in enumerate(rng.permutation(np.arange(2, 20))):
        x, rate = drawn(rng, int(size), 4), float(rng.uniform(1e-3, 1e-2))
        np.testing.assert_allclose(step(x, rate).item(), plain(x, rate).item(), rtol=1e-4, atol=1e-6)
        if i == 2:
            settled = compiles()
    assert settled <= 2 and compiles() == settled and not step.cuts
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_parameters_are_updated_in_their_own_memory(rng):
    w = drawn(rng, 5, 3)
    address, before = w.data_ptr(), w.tolist()
    row = w[1]

    @deferred
    def step(rate):
        w.sub_(rate * w)

    for rate in (0.3, 0.2):
        step(rate)
    assert w.data_ptr() == address and row._base is w
    np.testing.assert_allclose(row.tolist(), np.array(before)[1] * 0.56, rtol=1e-6)
    (program,) = [p for backend in step._idle for variants in backend.where.programs for p in variants]
    assert program.writes == ((0, 0),)  # the result is put where the input lies


def test_a_dead_result_is_not_computed(rng):
    x = drawn(rng, 3)

    @deferred
    def step(x):
        x.exp()
        return x + 1

    step(x)
    step(x)
    lazy.metrics.reset()
    step(x)
    assert "1 calls" not in str(lazy.metrics.causes()) and compiles() == 0


# ---- cuts
def test_cuts_are_told_by_line(rng, capsys):
    @deferred
    def step(x):
        y = (x * x).sum()
        if y > 1:
            y = y / 2
        print(y)
        return y, y.tolist(), (y + 1).numpy()

    x = drawn(rng, 50)
    for _ in range(3):
        y, number, array = step(x)
    wanted = np.square(x.numpy()).sum() / 2
    np.testing.assert_allclose([float(y), number, array], [wanted, wanted, wanted + 1], rtol=1e-5)
    assert reads(step) == {"item()": 3, "its text": 3, "numpy()": 3}
    assert all(where.startswith("test_split.py:") for where in step.cuts)
    text = step.explain()
    assert "test_split.py" in text and "numpy()" in text and "(3 times)" in text
    assert all(where in text for where in step.cuts) and len(weft.explain(step).breaks) == len(step.cuts)
    assert capsys.readouterr().out.count("tensor(") == 3


def test_a_step_seen_before_compiles_nothing_on_either_side_of_a_cut(rng):
    @deferred
    def step(x):
        total = x.sum()
        return x * 2 if total.item() > 0 else x * 3

    for sign in (1, -1, 1, -1):
        step(drawn(rng, 4).abs() * sign)
    settled = compiles()
    for _ in range(10):
        x = drawn(rng, int(rng.integers(2, 9)))
        np.testing.assert_allclose(step(x).numpy(), x.numpy() * (2 if x.sum() > 0 else 3), rtol=1e-6)
    assert compiles() <= settled + 1


def test_what_is_read_already_there_cuts_nothing(rng):
    x = drawn(rng, 3)

    @deferred
    def step(y):
        z = y + 1
        x.tolist(), x[0].item(), str(x), x.shape, z.shape, z.dtype
        return z

    step(drawn(rng, 3))
    assert sum(reads(step).values()) <= 1  # x[0] is new


# ---- autograd
def test_versions_and_histories_are_eager_s(rng):
    x = drawn(rng, 3).requires_grad_()
    base = weft.zeros(4, 3)

    def step():
        y = x * 2
        base[1:3] = y
        z = base.exp()
        base.add_(1)
        return y, z.sum()

    base = weft.zeros(4, 3)
    total = deferred(step)()[1]
    version, name = base._version, type(base.grad_fn).__name__
    total.backward()
    gradient = x.grad.clone()
    x.grad, base = None, weft.zeros(4, 3)
    total = step()[1]
    total.backward()
    assert version == base._version and name == type(base.grad_fn).__name__
    np.testing.assert_allclose(gradient, x.grad, rtol=1e-6)

    def bad():
        y = x.exp()
        y.mul_(2)
        y.sum().backward()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        deferred(bad)()


def test_a_custom_function_and_hooks_and_no_grad(rng):
    class Cube(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    x = drawn(rng, 4).requires_grad_()
    seen = []

    def step():
        y = Cube.apply(x)
        y.register_hook(lambda g: g * 2)
        x.register_post_accumulate_grad_hook(lambda p: seen.append(float(p.grad.sum())))
        y.sum().backward()
        with weft.no_grad():
            x.sub_(0.1 * x.grad)
        return x.grad

    before = x.detach().numpy().copy()
    gradient = deferred(step)()
    np.testing.assert_allclose(gradient, 6 * before**2, rtol=1e-5)
    np.testing.assert_allclose(seen, [6 * (before**2).sum()], rtol=1e-5)
    np.testing.assert_allclose(x.detach(), before - 0.6 * before**2, rtol=1e-4, atol=1e-6)


def test_a_graph_made_within_is_walked_outside_and_the_other_way_round(rng):
    x = drawn(rng, 3).requires_grad_()
    made = deferred(lambda: (x * x).sin().sum())()
    made.backward()
    np.testing.assert_allclose(x.grad, np.cos(x.detach() ** 2) * 2 * x.detach().numpy(), rtol=1e-5)
    x.grad = None
    y = (x * x).sin().sum()
    deferred(lambda: y.backward())()
    np.testing.assert_allclose(x.grad, np.cos(x.detach() ** 2) * 2 * x.detach().numpy(), rtol=1e-5)


# ---- Python as it comes
def test_what_fails_leaves_what_was_computed_before(rng):
    w = weft.zeros(3)

    @deferred
    def step(x):
        w.add_(1)
        try:
            w @ weft.ones(4)
        except RuntimeError:
            w.add_(10)
        if x.sum() > 0:
            raise KeyError("as the user says")
        w.add_(100)

    with pytest.raises(KeyError, match="as the user says"):
        step(weft.ones(2))
    assert w.tolist() == [11, 11, 11]
    step(-weft.ones(2))
    assert w.tolist() == [122, 122, 122]


def test_what_a_program_raises_names_the_line_and_leaves_what_was_before(rng):
    w, v = drawn(rng, 3), weft.zeros(4)
    before = w.tolist()
    row = w[1:]

    @deferred
    def step(index):
        row.mul_(2)
        v.add_(1)
        picked = w[index]  # nobody reads it
        w.add_(100)
        v.add_(picked.sum() * 0 + 1)
        return w * 1

    with pytest.raises(IndexError, match=r"test_split.py:\d+: index 5 is out of bounds"):
        step(weft.tensor([1, 5]))
    np.testing.assert_allclose(w.tolist(), [before[0], 2 * before[1], 2 * before[2]], rtol=1e-6)
    assert v.tolist() == [1] * 4
    step(weft.tensor([1, 2]))
    assert v.tolist() == [3] * 4
    assert weft.ones(2).sum() == 2

    def drops(index):
        w[index]  # nobody has it

    with pytest.raises(IndexError, match="out of bounds"):
        deferred(drops)(weft.tensor([7]))


def test_what_the_user_catches_is_raised_where_it_is_caught(rng):
    v = weft.zeros(4)
    caught = []

    def pick(index):
        v.add_(1)
        found = v[index]
        v.add_(1)
        return found

    @deferred
    def step(index):
        try:
            return pick(index)
        except IndexError as error:
            caught.append(str(error))
            v.add_(10)
        finally:
            v.add_(100)
        return v + 0

    assert step(weft.tensor([2])).tolist() == [1] and v.tolist() == [102] * 4
    assert step(weft.tensor([9])).tolist() == [213] * 4 and len(caught) == 1
    assert set(reads(step)) == {"index within try"}

    @deferred
    def after(index):
        try:
            v.zero_()
        except ValueError:
            caught.append("")
        with weft.no_grad():
            return v[index]

    after(weft.tensor([1]))
    assert not after.cuts


def test_generators_run_deferred():
    @deferred
    def steps(x):
        for _ in range(3):
            x = x * 2
            y = yield x
            if y is not None:
                x = x + y
        return x

    made = steps(weft.ones(2))
    assert next(made).tolist() == [2, 2]
    assert made.send(weft.ones(2)).tolist() == [6, 6]
    assert [t.tolist() for t in made] == [[12, 12]]
    assert "mul" in str(lazy.metrics.counter_names())


def test_methods_modules_copies_and_functions_within(rng):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(weft.ones(2))

        @deferred
        def forward(self, x):
            return inner(x * self.factor)

    inner = deferred(lambda x: x + 1)
    module = Scaled()
    assert module(weft.ones(2)).tolist() == [2, 2]
    assert copy.deepcopy(module)(weft.ones(2)).tolist() == [2, 2]
    compiled = weft.compile(nn.Linear(2, 2), split=True)
    x = drawn(rng, 3, 2)
    with weft.no_grad():
        np.testing.assert_allclose(compiled(x), x @ compiled.weight.t() + compiled.bias, rtol=1e-5)
    assert compiled.cuts == {} and "split" in repr(inner)
    nested = deferred(lambda x: weft.compile(lambda y: y * 3)(x + 1))
    assert nested(weft.ones(2)).tolist() == [6, 6]


def test_transforms_run_within(rng):
    x = drawn(rng, 4, 3)

    def step():
        rows = weft.vmap(lambda row: row.sin().sum())(x)
        slope = weft.func.grad(lambda v: (v**3).sum())(x)
        value, tangent = weft.func.jvp(weft.exp, (x,), (weft.ones_like(x),))
        return rows, slope, value, tangent

    rows, slope, value, tangent = deferred(step)()
    np.testing.assert_allclose(rows, np.sin(x).sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, 3 * x.numpy() ** 2, rtol=1e-5)
    np.testing.assert_allclose(value, np.exp(x), rtol=1e-5)
    np.testing.assert_allclose(tangent, np.exp(x), rtol=1e-5)


def test_random_streams_are_eager_s(rng):
    def step():
        a = weft.rand(3)
        a.sum().item()
        return a, weft.randn(2, 2), weft.randperm(5), nn.functional.dropout(weft.ones(8), 0.5)

    compiled = deferred(step)
    for seed in range(3):
        weft.manual_seed(seed)
        wanted = [*step(), *step()]
        weft.manual_seed(seed)
        got = [*compiled(), *step()]
        assert all(map(weft.equal, got, wanted))


def test_nothing_is_left_outside(rng):
    step = deferred(lambda x: [x + 1, (x * 2)[1:]])
    for made in step(drawn(rng, 4)):
        assert type(made._data) is np.ndarray and type(made.storage()) is type(weft.ones(1).storage())
    assert weft.tensor([1.0]).add(1)._data.dtype == np.float32
