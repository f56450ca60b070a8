"""Memory in split functions: what NumPy shares, aliases made before, within and after, and what other threads see."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from weft.tensor.modes import modes


def drawn(rng, *shape):
    return weft.tensor(rng.standard_normal(shape).astype(np.float32))


# ---- memory that is shared
def test_memory_of_numpy_is_seen_and_written_at_once(rng):
    array = rng.standard_normal(4)
    before = array.copy()
    x = weft.from_numpy(array)

    def step():
        y = x + 1
        array[0] = 7  # after y was computed
        z = x * 2
        x.add_(1)
        array[1] = array[1] * 10  # reads what add_ wrote
        return y, z, x.clone()

    y, z, w = deferred(step)()
    np.testing.assert_allclose(y, before + 1)
    before[0] = 7
    np.testing.assert_allclose(z, before * 2)
    before += 1
    before[1] *= 10
    np.testing.assert_allclose(w, before)
    np.testing.assert_allclose(array, before)


def test_an_array_that_was_handed_out_is_written_in_time(rng):
    x = weft.zeros(3)

    def step():
        x.add_(1)
        array = x.numpy()
        x.add_(1)
        return array.copy()

    compiled = deferred(step)
    np.testing.assert_array_equal(compiled(), [2, 2, 2])
    np.testing.assert_array_equal(x.tolist(), [2, 2, 2])
    compiled = deferred(lambda: x.add_(1))
    compiled()
    compiled()
    assert len(compiled.cuts) <= 1  # the array is gone: nothing has to be written at once


@pytest.mark.parametrize("borrow", [
    lambda x: x.numpy(), lambda x: x.numpy()[1:].T, lambda x: x.data.numpy().view(np.int32), lambda x: x.t().numpy(),
    lambda x: memoryview(x.numpy()), np.from_dlpack, np.asarray,
])
def test_memory_is_lent_while_somebody_has_it(rng, borrow):
    x = drawn(rng, 3, 2)
    step = deferred(lambda: x.add_(1))
    before, borrowed = x.tolist(), borrow(x)
    step()
    assert len(step.cuts) == 1 and np.shares_memory(borrowed, x.numpy())
    del borrowed
    step()
    assert sum(step.cuts.values()) == 1
    np.testing.assert_allclose(x, np.array(before) + 2)


def test_an_array_that_came_in_is_lent_for_good(rng):
    array = rng.standard_normal(4)
    before = array.copy()
    x = weft.from_numpy(array)
    weft.from_numpy(x.numpy()[2:]).mul_(2)

    @deferred
    def step():
        x.add_(1)
        return array.copy()

    before[2:] *= 2
    np.testing.assert_array_equal(step(), before + 1)


def test_aliases_made_before_within_and_after(rng):
    base = weft.arange(12.0).reshape(3, 4)
    row, turned, alias = base[1], base.t(), base.detach()

    def step():
        row.add_(10)
        copied = base.clone()
        base.mul_(2)
        part = turned[0]
        part.zero_()
        alias[2, 2] = 5
        base.data.add_(1)
        return copied, part, base.view(-1)

    truth = np.arange(12.0).reshape(3, 4)
    truth[1] += 10
    copied = truth.copy()
    truth *= 2
    truth.T[0] = 0
    truth[2, 2] = 5
    truth += 1
    got, part, flat = deferred(step)()
    np.testing.assert_array_equal(got, copied)
    np.testing.assert_array_equal(base, truth)
    np.testing.assert_array_equal(part, truth.T[0])
    part.fill_(3)
    flat[5] = 9
    assert base[0, 0] == 3 and base[1, 1] == 9 and row[1] == 9 and alias[1, 1] == 9


def test_a_copy_keeps_the_old_value(rng):
    w = drawn(rng, 6)
    before = w.tolist()

    def step():
        kept = w.clone()
        w.mul_(2)
        other = w.clone()
        w.mul_(2)
        return kept, other

    kept, other = deferred(step)()
    assert kept.tolist() == before
    np.testing.assert_allclose(other, 2 * np.array(before), rtol=1e-6)
    np.testing.assert_allclose(w, 4 * np.array(before), rtol=1e-6)
    kept.zero_()
    other.zero_()
    assert w.abs().sum() > 0


def test_memories_change_their_values(rng):
    """What a tensor is given may lie in memory that is written itself."""
    a, b, c = (drawn(rng, 4) for _ in range(3))
    x, y, z = (t.numpy().copy() for t in (a, b, c))

    @deferred
    def step():
        kept = a.clone()
        a.copy_(b)
        b.copy_(kept)  # changed places
        c.copy_(a)
        a.mul_(2)

    for _ in range(3):
        step()
        x, y, z = 2 * y, x, y
        for tensor, wanted in ((a, x), (b, y), (c, z)):
            np.testing.assert_allclose(tensor.tolist(), wanted, rtol=1e-6)


# ---- foreign code
def test_operators_of_the_user_run_where_they_are_called(rng):
    name = f"split{int(rng.integers(1 << 30))}"

    @weft.library.custom_op(f"{name}::scaled", mutates_args=())
    def scaled(x: weft.Tensor, factor: float) -> weft.Tensor:
        return weft.tensor(x.numpy() * factor)

    @weft.library.custom_op(f"{name}::bump", mutates_args=("x",))
    def bump(x: weft.Tensor) -> None:
        x.numpy()[...] += 1

    @deferred
    def step(x):
        y = scaled(x * 2, 3.0)
        z = x * 1
        bump(z)
        z.add_(1)
        return y + z, z

    x = drawn(rng, 3)
    for _ in range(2):
        y, z = step(x)
        np.testing.assert_allclose(z, x.numpy() + 2, rtol=1e-6)
        np.testing.assert_allclose(y, 7 * x.numpy() + 2, rtol=1e-5)


# ---- other threads
def test_another_thread_may_read_what_waits(rng):
    x = drawn(rng, 4)
    found = []

    @deferred
    def step():
        y = x * 2
        thread = threading.Thread(target=lambda: found.append((y + 1).tolist()))
        thread.start()
        thread.join()
        return y

    y = step()
    np.testing.assert_allclose(found[0], y.numpy() + 1, rtol=1e-6)


def test_another_thread_sees_what_was_written_into_older_tensors(rng):
    w = weft.zeros(3)
    model = weft.compile(lambda x: x * 2)
    found = []

    def look():
        found.append((w * 2).tolist())
        found.append(w[1].item())
        with weft.inference_mode():
            found.append((w + 1).tolist())
        found.append(weft.vmap(lambda x: x + 1)(w).tolist())
        w.add_(1)
        model(w)

    @deferred
    def step():
        for _ in range(2):
            w.add_(1)
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
        w.add_(1)

    step()
    assert found == [[2] * 3, 1, [2] * 3, [2] * 3, [6] * 3, 3, [4] * 3, [4] * 3]
    assert w.tolist() == [5] * 3
    assert {where.rsplit(": ", 1)[1] for where in step.cuts} == {"mul in another thread"}
    assert type(modes).special is None and modes.special is None


RANDOM_WRITES = {
    "bernoulli_": lambda x: x.bernoulli_(0.5),
    "exponential_": lambda x: x.exponential_(),
    "normal_": lambda x: x.normal_(),
    "random_": lambda x: x.random_(0, 9),
    "uniform_": lambda x: x.uniform_(),
}


@pytest.mark.parametrize("write", RANDOM_WRITES.values(), ids=RANDOM_WRITES)
def test_random_numbers_are_written_into_memory_that_others_see(write):
    def program(x, shows):
        seen = shows(x)
        write(x)
        return seen, weft.rand(2)

    for shows in (weft.Tensor.numpy, weft.Tensor.untyped_storage):
        found, wanted = weft.zeros(6), weft.zeros(6)
        weft.manual_seed(3)
        array, after = deferred(program)(found, shows)
        weft.manual_seed(3)
        next_numbers = program(wanted, shows)[1]
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)
        assert after.tolist() == next_numbers.tolist()
        if isinstance(array, np.ndarray):
            np.testing.assert_array_equal(array, found.numpy())
