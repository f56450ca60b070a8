"""Aliases of lazy tensors, before a step ends and after it. (Random programs: tests/agree/test_alias_programs.py.)"""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest

import weft
from weft import lazy
from weft.lazy.debug import dump_ir, is_functional, queue_length


def made(rng, *shape):
    """The same random numbers in a lazy tensor and a plain one."""
    array = rng.standard_normal(shape).astype(np.float32)
    return weft.tensor(array, device="lazy"), weft.tensor(array)


def same(a, b):
    np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-6)


def test_a_program_has_no_views_and_no_writes(rng):
    x, _ = made(rng, 4, 6)
    v = x.view(-1)
    v[2:5].add_(1)
    x.t()[1:].zero_()
    out = x.sum() + v.diagonal if False else x.sum() + v[3]
    lines = [line for line in dump_ir([out, x]).splitlines() if "aten::" in line]
    names = [line.split("aten::")[1].split("(")[0] for line in lines]
    views = {"view", "slice", "select", "t", "as_strided", "permute", "expand", "diagonal", "unsqueeze"}
    assert lines and not views & set(names) and not any(name.endswith("_") for name in names)
    assert all("test_aliases.py:" in line for line in lines)


@pytest.mark.parametrize("ends", [(), (0,), (1,), (2,), (0, 1, 2, 3)])
def test_five_aliases_across_steps(rng, ends):
    """Views that were made before and after steps, deleted, detached, made under no_grad: all show every write."""
    results = []
    for device in ("lazy", "cpu"):
        x = weft.tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device=device)
        end = lambda i: lazy.mark_step() if i in ends and device == "lazy" else None  # noqa: B023, E731
        a, b = x.view(-1), x.t()
        gone = x[0]
        gone.add_(5)
        del gone
        gc.collect()
        end(0)
        with weft.no_grad():
            c = x[1:]
            c.mul_(2)
        d = x.detach()
        end(1)
        d[:, 0] = -1
        b[2].add_(a[:3])
        end(2)
        e = c.unsqueeze(0)
        e.sub_(1)
        end(3)
        a[5:7] = 9
        results.append([t.cpu().numpy() for t in (x, a, b, c, d, e)])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_one_base_is_synced_once(rng):
    x, _ = made(rng, 8)
    aliases = [x.view(2, 4), x[2:], x.detach(), x.view(4, 2).t()]
    aliases[0].add_(1)
    aliases[3].mul_(2)
    lazy.mark_step()
    assert lazy.metrics.counter_value("SyncedTensorsWithIR") == 1
    assert lazy.metrics.counter_value("UncachedCompile") in (1, None)


def test_an_operand_keeps_the_value_it_had(rng):
    x, p = made(rng, 5)
    z, q = x + x, p + p
    x.add_(1)
    p.add_(1)
    same(z, q)
    same(x, p)


def test_swaps_and_writes_from_itself(rng):
    (a, p), (b, q) = made(rng, 3, 3), made(rng, 3, 3)
    a, b, p, q = b, a, q, p
    for x, y in ((a, b), (p, q)):
        x += x.t()
        y.copy_(y.flip(0))
        x[0], x[1] = x[1].clone(), x[0].clone()
        y.add_(x).mul_(y)
    lazy.mark_step()
    same(a, p)
    same(b, q)


@pytest.mark.parametrize("how", ["cpu", "to", "deepcopy", "clone", "double"])
def test_copies_are_independent(rng, how):
    x, p = made(rng, 4)
    x[1:].add_(1)
    p[1:].add_(1)
    taken = {
        "cpu": lambda t: t.cpu().clone(), "to": lambda t: t.to("cpu").clone(), "deepcopy": copy.deepcopy,
        "clone": lambda t: t.clone(), "double": lambda t: t.to(weft.float64),
    }[how]
    y, q = taken(x), taken(p)
    y.mul_(3)
    q.mul_(3)
    x.sub_(1)
    p.sub_(1)
    lazy.mark_step()
    same(x, p)
    same(y, q)


def test_deepcopies_keep_what_they_share(rng):
    x, _ = made(rng, 4)
    pair = copy.deepcopy([x, x.view(2, 2)])
    pair[1].zero_()
    assert not pair[0].any() and x.any()


def test_writes_to_one_part_do_not_pile_up(rng):
    """10,000 writes through one view: one update waits, and the graph writes the base once."""
    x, p = made(rng, 4, 4)
    v = x[1]
    for _ in range(10_000):
        v.add_(1)
        assert queue_length(x) <= 1
    assert sum("scatter" in line for line in dump_ir([x]).splitlines()) == 1
    p[1].add_(10_000)
    np.testing.assert_allclose(x.cpu().numpy(), p.numpy(), rtol=1e-3)


def test_a_long_trace_is_cut_by_itself(rng):
    x, _ = made(rng, 3)
    x.zero_()
    trace = x._data.storage.device.trace
    longest = 0
    for _ in range(20_000):
        x.add_(1)
        longest = max(longest, len(trace.nodes))
    assert longest <= 1 << 14 and x.tolist() == [20_000.0] * 3


STRIDES = {
    "t": lambda x: x.t(), "sum of t": lambda x: x.t() + 1, "permuted": lambda x: x.view(2, 3, 4).permute(2, 0, 1) * 2,
    "contiguous": lambda x: x.t().contiguous(), "expanded": lambda x: x[:1].expand(5, 4), "like": lambda x:
    weft.zeros_like(x.t()), "clone": lambda x: x.t().clone(), "strided": lambda x: x[::2, 1::2],
    "matmul": lambda x: (x.t() @ x).t(),
}


@pytest.mark.parametrize("name", STRIDES)
@pytest.mark.parametrize("ends", [False, True])
def test_strides_are_those_of_eager(rng, name, ends):
    x, p = made(rng, 6, 4)
    found, wanted = STRIDES[name](x), STRIDES[name](p)
    if ends:
        lazy.mark_step()
    assert found.stride() == wanted.stride() and found.storage_offset() == wanted.storage_offset()
    assert found.is_contiguous() == wanted.is_contiguous()
    assert found.cpu().stride() == wanted.stride() or found.numel() != found._data.storage.type.numel
    assert (found._base is None) == (wanted._base is None)


def test_in_place_views_leave_other_aliases_alone(rng):
    (x, p), seen = made(rng, 2, 3), []
    for t in (x, p):
        alias = t.view(-1)
        t.transpose_(0, 1)
        t[0].add_(1)
        t.unsqueeze_(0).squeeze_(0)
        seen.append((alias, t))
    assert seen[0][1].shape == seen[1][1].shape and seen[0][1].stride() == seen[1][1].stride()
    for found, wanted in zip(*seen, strict=True):
        same(found, wanted)


def test_resize_and_set(rng):
    x, p = made(rng, 6)
    for t in (x, p):
        t.resize_(2, 2)
        t.add_(1)
    same(x, p)
    x.resize_(3, 4)
    assert x.shape == (3, 4)
    np.testing.assert_array_equal(x.cpu().numpy().ravel()[:4], p.numpy().ravel())
    r = weft.zeros(4, device="lazy")
    w = r.view(2, 2)
    w.resize_(8).fill_(3)
    assert r.tolist() == [3.0] * 4 and r.untyped_storage().nbytes() == 32
    y, old = weft.zeros(3, device="lazy"), weft.ones(3, device="lazy")
    alias = y.view(3)
    y.set_(old)
    y.add_(1)
    assert old.tolist() == [2.0] * 3 and alias.tolist() == [0.0] * 3 and y.is_set_to(old)


def test_out_takes_the_result(rng):
    x, p = made(rng, 3, 4)
    out, wanted = weft.empty(0, device="lazy"), weft.empty(0)
    weft.logsumexp(x, 1, out=out)
    weft.logsumexp(p, 1, out=wanted)
    same(out, wanted)
    view = weft.zeros(6, device="lazy")[1:4]
    weft.logsumexp(x, 1, out=view)
    np.testing.assert_allclose(view._base.cpu().numpy()[1:4], wanted.numpy(), rtol=1e-6)


def test_arguments_that_change_after_the_call(rng):
    x, _ = made(rng, 4, 6)
    sizes, dims = [2, 12], [1, 0]
    y, z = x.view(sizes), x.permute(dims)
    mode = "".join(["flo", "or"])
    q = weft.div(x, 0.7, rounding_mode=mode)
    sizes[0], dims[0] = 99, 0
    del mode, sizes
    gc.collect()
    lazy.mark_step()
    assert y.shape == (2, 12) and z.shape == (6, 4)
    np.testing.assert_allclose(q.cpu().numpy(), np.floor(x.cpu().numpy() / np.float32(0.7)))


FACTORIES = {
    "zeros": lambda d: weft.zeros(2, 3, device=d), "ones": lambda d: weft.ones(2, 3, device=d),
    "full": lambda d: weft.full((2, 3), 4.0, device=d), "empty": lambda d: weft.empty(2, 3, device=d).zero_(),
    "arange": lambda d: weft.arange(6, device=d), "eye": lambda d: weft.eye(3, device=d),
    "linspace": lambda d: weft.linspace(0, 1, 5, device=d), "tensor": lambda d: weft.tensor([[1, 2, 3]], device=d),
    "rand": lambda d: weft.rand(2, 3, device=d), "randint": lambda d: weft.randint(5, (2, 3), device=d),
    "randperm": lambda d: weft.randperm(6, device=d), "zeros_like": lambda d: weft.zeros_like(weft.ones(4, device=d)),
    "new_full": lambda d: weft.ones(2, device=d).new_full((2, 2), 3), "empty_strided": lambda d:
    weft.empty_strided((2, 3), (1, 2), device=d).zero_(), "rand_like": lambda d: weft.rand_like(weft.ones(4, device=d)),
    "tril_indices": lambda d: weft.tril_indices(3, 3, device=d),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_what_factories_make_has_aliases(name):
    weft.manual_seed(5)
    x = FACTORIES[name]("lazy")
    weft.manual_seed(5)
    p = FACTORIES[name]("cpu")
    assert is_functional(x) and x.device.type == "lazy" and x.dtype is p.dtype and x.stride() == p.stride()
    for t in (x, p):
        t.reshape(-1).view(-1).add_(1)
    np.testing.assert_array_equal(x.cpu().numpy(), p.numpy())
