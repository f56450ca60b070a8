"""What lazy devices elsewhere got wrong, one test for each trap; eager mode is the oracle."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest

import weft
from weft import lazy
from weft.func import functionalize

DEVICES = ("cpu", "lazy")


def lazily(array, **options):
    return weft.tensor(array, device="lazy", **options)


def count(name):
    return lazy.metrics.counter_value(name) or 0


def values(tensors):
    return [t.detach().cpu().numpy().tolist() for t in tensors]


def test_aliases_live_across_steps_copies_and_moves(rng):
    """1: five aliases, one deleted, across mark_step, .cpu(), .to, deepcopy, detach and a closure."""
    found = {}
    log: list[list[float]] = []

    def keep(t):
        log.append(t.tolist())

    for device in DEVICES:
        x = weft.tensor(np.arange(6.0), device=device)
        rows, first, flat, apart = x.view(2, 3), x[:2], x.view(3, 2).view(-1), x.detach()
        seen = []
        log.clear()
        for i in range(3):
            rows[i % 2].add_(i + 1)
            if device == "lazy":
                lazy.add_step_closure(keep, (apart,))
                lazy.mark_step()
            else:
                keep(apart)
            with weft.no_grad():
                first.mul_(2)
            moved = x.cpu() if device == "lazy" else x.clone()
            wide, twin = x.to(weft.float32), copy.deepcopy(flat)
            for other in (moved, wide, twin):
                other.zero_()
            seen.append(values((x, rows, first, flat, apart)))
            if i == 1:
                del first
                first = x[1:3]
        found[device] = (seen, list(log))
    assert found["lazy"] == found["cpu"]


def test_a_read_computes_what_it_needs_and_errors_come_once():
    """2: other aliases and other values wait on; a failure comes out at one sync, with the line."""
    x, other = lazily([1.0, 2.0]) + 1, lazily([3.0]) * 2
    part = x[:1]
    assert part.item() == 2
    assert "aten::mul" in lazy.debug.dump_ir([other])
    bad = x[lazily([4], dtype=weft.int64)]
    fine = x * 3
    with pytest.raises(IndexError, match=r"test_traps.py:\d+.*index 4 is out of bounds"):
        lazy.mark_step(wait=True)
    lazy.mark_step(wait=True)
    assert fine.tolist() == [6, 9]
    with pytest.raises(IndexError, match="index 4"):
        bad.tolist()


def test_an_operand_is_what_it_was_when_it_was_read():
    """3: z = x + x, then x changes."""
    x = lazily([1.0, 2.0])
    z = x + x
    view = x[:1]
    x.add_(1)
    y = view * 10
    view.zero_()
    assert values((z, y, x)) == [[2, 4], [20], [0, 3]]


@pytest.mark.parametrize("device", DEVICES)
def test_swaps_and_writes_of_a_tensor_into_itself(device):
    """4: results that are inputs, a swap, and overlapping copies."""
    x = weft.arange(9.0, device=device).view(3, 3)
    array = np.arange(9.0).reshape(3, 3)
    x += x.t()
    array += array.T.copy()
    x[1:].copy_(x[:-1].clone())
    array[1:] = array[:-1].copy()
    x.copy_(x.flip(0))
    array[...] = array[::-1].copy()
    a, b = x[0], x[1]
    a, b = b, a
    a.add_(b)
    array[1] += array[0]
    np.testing.assert_array_equal(x.cpu().numpy(), array)
    y = x[0].clone()
    x[0].copy_(x[2])
    x[2].copy_(y)
    np.testing.assert_array_equal(x.cpu().numpy(), array[[2, 1, 0]])


def test_dead_values_are_not_computed_and_dead_draws_advance_the_stream():
    """5"""
    weft.manual_seed(3)
    wanted = [weft.rand(2), weft.rand(3)][1]
    weft.manual_seed(3)
    weft.rand(2, device="lazy")
    live = weft.rand(3, device="lazy")
    dead = lazily(np.ones((64, 64))) @ lazily(np.ones((64, 64)))
    del dead
    gc.collect()
    weft.counters.reset()
    lazy.mark_step(wait=True)
    assert weft.counters.kernels == 1
    assert weft.equal(live.cpu(), wanted)


def _layout(device):
    x = weft.arange(24.0, device=device).view(2, 3, 4)
    made = (x, x.mT, x[1], x[:, ::2], x.permute(2, 0, 1) + 1, x[0].expand(5, 3, 4), x.mT.clone())
    found = [(t.shape, t.stride(), t.storage_offset(), t.is_contiguous(), t._base is None) for t in made]
    same = x.view(-1).data_ptr() == x.data_ptr(), x[1].data_ptr() - x.data_ptr(), x.is_set_to(x.view(2, 3, 4))
    return found, same, x[1]._base is x, x.view(-1).untyped_storage() == x.untyped_storage()


def test_layouts_are_eager_s():
    """6: strides, offsets, bases, addresses."""
    assert _layout("lazy") == _layout("cpu")


PAIRS = {
    "operands": (lambda a, b: a - b, lambda a, b: b - a), "dims": (lambda a, b: a.sum(0), lambda a, b: a.sum(1)),
    "kinds of numbers": (lambda a, b: a * True, lambda a, b: (a.long() * 1).float()),
    "dtypes": (lambda a, b: a.to(weft.float64), lambda a, b: a.to(weft.int32)),
    "constants": (lambda a, b: a + lazily(np.ones((2, 2))), lambda a, b: a + lazily(np.zeros((2, 2)))),
    "one input twice": (lambda a, b: a * a, lambda a, b: a * b),
    "an alias": (lambda a, b: (a.add_(1), a)[1], lambda a, b: (a.view(-1).add_(1), b)[1]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_steps_that_look_alike_are_told_apart(name, rng):
    """7: what one hash must not cover."""
    arrays = rng.standard_normal((2, 2, 2)).astype(np.float32)
    for call in (*PAIRS[name], *PAIRS[name]):
        out = call(*map(lazily, arrays))
        lazy.mark_step()
        wanted = call(*map(lazily, arrays)).cpu() if name == "constants" else call(*map(weft.tensor, arrays))
        assert out.dtype is wanted.dtype
        np.testing.assert_allclose(out.cpu().numpy(), wanted.numpy(), rtol=1e-6)


def test_a_new_size_compiles_nothing(rng):
    """8"""
    for n in range(3, 30):
        x = lazily(rng.standard_normal((n, 4)))
        y = (x[1:] * 2).cumsum(0) + x.mean(0)
        lazy.mark_step()
        assert y.shape == (n - 1, 4)
    assert count("UncachedCompile") <= 2


def test_containers_that_change_after_the_call():
    """9: sizes, dims, lists of tensors, a text that is made for the call."""
    x = weft.arange(4.0, device="lazy")
    sizes, dims, rows = [2, 2], [1, 0], [x, x]
    y, z = x.view(sizes), weft.cat(rows)
    t = y.permute(dims)
    half = weft.div(x, 2, rounding_mode="".join(["fl", "oor"]))
    sizes[0], dims[:] = 99, [0, 1]
    rows.clear()
    gc.collect()
    lazy.mark_step()
    assert values((y, t, z[4:], half)) == [[[0, 1], [2, 3]], [[0, 2], [1, 3]], [0, 1, 2, 3], [0, 0, 1, 1]]


def test_operands_of_two_devices():
    """10: refused with both devices named; a number in a tensor is none."""
    x = lazily([1.0, 2.0])
    with pytest.raises(RuntimeError, match="lazy and cpu"):
        x + weft.ones(2)
    with pytest.raises(RuntimeError, match="same device"):
        weft.ones(2).add_(x)
    with pytest.raises(RuntimeError, match=r"lazy and lazy:1|lazy:1 and lazy"):
        x + weft.ones(2, device="lazy:1")
    out = x * weft.tensor(2.0, dtype=weft.float64)
    assert (out.dtype, out.device.type, out.tolist()) == (weft.float32, "lazy", [2, 4])


@pytest.mark.parametrize("device", DEVICES)
def test_out_and_resize_beside_views(device):
    """11"""
    x = weft.arange(6.0, device=device).view(2, 3)
    out = weft.zeros(2, device=device)
    view = out.view(1, 2)
    assert weft.sum(x, 1, out=out) is out
    assert values((out, view)) == [[3, 12], [[3, 12]]]
    with pytest.raises(RuntimeError, match="can't be cast"):
        weft.add(x, 0.5, out=weft.zeros(2, 3, dtype=weft.int64, device=device))
    view.resize_(5)
    assert values((out, view)) == [[3, 12], [3, 12, 0, 0, 0]]
    view.resize_(1)
    view.add_(1)
    assert values((out, view)) == [[4, 12], [4]]


def _overlapping(a, b):
    a.add_(1)
    b.mul_(2)
    a[..., 0] = b.sum()
    return a * b.reshape(-1)[0]


@pytest.mark.parametrize("how", ["whole", "part", "strided", "same"])
def test_arguments_that_share_memory(how):
    """12"""
    show = {
        "whole": lambda x: (x, x.view(-1)), "part": lambda x: (x[:4], x[2:]), "strided": lambda x: (x[::2], x[1:4]),
        "same": lambda x: (x, x),
    }[how]
    results = []
    for call in (_overlapping, functionalize(_overlapping), weft.compile(_overlapping, backend="interpret")):
        x = weft.arange(6.0)
        results.append((call(*show(x)).tolist(), x.tolist()))
    x = weft.arange(6.0, device="lazy")
    results.append((_overlapping(*show(x)).tolist(), x.tolist()))
    assert results[1:] == results[:1] * 3


def test_a_step_closure_is_a_function():
    with pytest.raises(TypeError, match="add_step_closure: expected a function, got int"):
        lazy.add_step_closure(3)
