"""A write through a view costs no copy of the whole: `weft.counters.copies`, in compiled functions and lazy steps."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import lazy

WRITES = {
    "slice of a view": lambda x: x.view(-1)[2:5].add_(1),
    "select": lambda x: x[1].mul_(2),
    "column": lambda x: x[:, 1].add_(1),
    "select of a transpose": lambda x: x.t()[0].add_(1),
    "transpose": lambda x: x.t().add_(1),
    "permute": lambda x: x.unsqueeze(0).permute(2, 0, 1)[1].zero_(),
    "diagonal": lambda x: x.diagonal().fill_(3),
    "split": lambda x: x.split(2)[1].add_(1),
    "unbind": lambda x: x.unbind(0)[1].add_(1),
    "chunk": lambda x: x.chunk(2, 1)[1].add_(1),
    "as_strided": lambda x: x.as_strided((2, 2), (3, 1), 1).add_(1),
    "item": lambda x: x.__setitem__((0, 1), 5.0),
    "mask": lambda x: x.__setitem__(x > 0, 5.0),
    "row from a row": lambda x: x[0].copy_(x[1]),
    "shifted": lambda x: x[1:].copy_(x[:-1].clone()),
    "windows": lambda x: x.unfold(0, 2, 2).add_(1),
    "views of views": lambda x: x.t()[1:].t()[:, 0].add_(1),
    "two parts": lambda x: (x[0].add_(1), x[1].mul_(2)),
    "rows by index": lambda x: x.__setitem__(_rows(x), 2.0),
    "rows of a view by index": lambda x: x[1:].index_put_((_rows(x),), x[:2].clone()),
    "rows added by index": lambda x: x.index_put_((_rows(x),), x[:2].clone(), accumulate=True),
    "index_add_": lambda x: x.index_add_(0, _rows(x), x[:2].clone()),
    "index_copy_": lambda x: x.index_copy_(0, _rows(x), x[:2].clone()),
    "index_fill_ of columns": lambda x: x.index_fill_(1, _rows(x), 1.0),
    "scatter_": lambda x: x.scatter_(0, _rows(x).view(2, 1).expand(2, 6), x[:2].clone()),
}


def _rows(x: weft.Tensor) -> weft.Tensor:
    """Two numbers of rows that the program computes."""
    return (x[0, :2] > 0).long() * 2 + weft.arange(2, device=x.device)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_a_part_copies_nothing_else(name, rng):
    write = WRITES[name]
    array = rng.standard_normal((6, 6)).astype(np.float32)
    wanted, given = weft.tensor(array), weft.tensor(array)
    for _ in range(2):
        write(wanted)

    @weft.compile
    def step(x):
        write(x)

    step(given)
    weft.counters.reset()
    step(given)
    assert weft.counters.native_calls == 1
    assert weft.counters.copies == 0
    np.testing.assert_allclose(given.numpy(), wanted.numpy(), rtol=1e-6)

    x = weft.tensor(array, device="lazy")
    for _ in range(2):
        lazy.mark_step(wait=True)
        weft.counters.reset()
        write(x)
    address = x.data_ptr()
    assert weft.counters.native_calls == 1
    assert weft.counters.copies == 0
    np.testing.assert_allclose(x.cpu().numpy(), wanted.numpy(), rtol=1e-6)
    assert x.data_ptr() == address


def test_a_copy_that_is_needed_is_counted(rng):
    """Somebody reads the old value."""
    array = rng.standard_normal((6, 6)).astype(np.float32)
    x = weft.tensor(array, device="lazy")
    old = x.clone()
    lazy.mark_step(wait=True)
    weft.counters.reset()
    x[0].zero_()
    lazy.mark_step(wait=True)
    assert weft.counters.copies == 1
    np.testing.assert_array_equal(old.cpu().numpy(), array)


def test_an_update_of_a_part_and_a_sum_need_no_memory(rng):
    """The arena has room for the part, not for the whole."""

    @weft.compile
    def step(x):
        x.view(-1)[2:5].add_(1)
        return x.sum()

    x = weft.tensor(rng.standard_normal((64, 64)))
    step(x)
    assert "scatter" not in str(step.stages(x)["optimized"]).replace("as_strided_scatter", "")
    weft.counters.reset()
    np.testing.assert_allclose(step(x).item(), x.numpy().sum())
    assert weft.counters.copies == 0


def test_a_part_is_computed_where_it_lies():
    x = weft.randn(6, 8, device="lazy")
    lazy.mark_step()
    wanted = x.cpu()
    for _ in range(2):
        weft.counters.reset()
        x.view(-1)[2:5].add_(1)
        total = x.sum()
        lazy.mark_step()
        lazy.wait_device_ops()
        assert weft.counters.kernels == 2 and weft.counters.copies == 0
    wanted.view(-1)[2:5].add_(2)
    np.testing.assert_allclose(x.numpy(), wanted.numpy(), rtol=1e-6)
    np.testing.assert_allclose(total.item(), wanted.sum().item(), rtol=1e-5)


def test_a_part_of_what_the_program_computes_is_written_where_the_result_lies():
    def program(y):
        x = y * 2
        x.view(-1)[2:5].add_(1)
        x[0] = 7
        return x, x.sum()

    y = weft.arange(12.0).view(3, 4)
    step = weft.compile(program)
    step(y)
    weft.counters.reset()
    for found, wanted in zip(step(y), program(y), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy())
    x = weft.randn(6, 8, device="lazy")
    x.view(-1)[2:5].add_(1)
    x[:, 3].mul_(2)
    lazy.mark_step()
    lazy.wait_device_ops()
    assert weft.counters.copies == 0


PARTS = {
    "reads the part": lambda x, y: x[1].mul_(2),
    "reads another part": lambda x, y: x[1].copy_(x[0] * 2 + 1),
    "reads it shifted": lambda x, y: x.view(-1)[2:9].copy_(x.view(-1)[1:8] * 3),
    "reads it reversed": lambda x, y: x[2].copy_(x[2].flip(0) - 1),
    "reads it transposed": lambda x, y: x[:3, :3].copy_(x[:3, :3].t() * 2),
    "reads one element": lambda x, y: x[0].copy_(x[0] * x[0, 0]),
    "reads something else": lambda x, y: x[:, 1].copy_(y[:, 0] * 2),
    "two parts change places": lambda x, y: (t := x[0] * 1, x[0].copy_(x[1]), x[1].copy_(t)),
    "what is read is written before": lambda x, y: (t := y[0] + 1, y[0].zero_(), x[0].copy_(t)),
    "it is read again": lambda x, y: (t := x[0] + 1, x[0].copy_(t), y[0].copy_(t * 2)),
    "all of it": lambda x, y: x[:].copy_(x * 2 + y),
    "windows that overlap": lambda x, y: x.view(-1).unfold(0, 4, 2).mul_(2),
    "expanded": lambda x, y: x[:2].copy_((y[0] * 2).expand(2, 4)),
}


@pytest.mark.parametrize("write", PARTS.values(), ids=PARTS)
def test_parts_are_right_wherever_they_are_computed(write, rng):
    values = [rng.integers(-4, 5, (3, 4)).astype(np.float32) for _ in range(2)]
    wanted = [weft.from_numpy(v.copy()) for v in values]
    found = [weft.from_numpy(v).to("lazy") for v in values]
    compiled = [weft.from_numpy(v.copy()) for v in values]
    step = weft.compile(lambda: (write(*compiled), compiled[0].sum())[1])
    for _ in range(3):
        write(*wanted)
        total = wanted[0].sum()
        write(*found)
        sums = found[0].sum(), step()
        lazy.mark_step()
        for a, b, c in zip(wanted, found, compiled, strict=True):
            np.testing.assert_array_equal(b.numpy(), a.numpy())
            np.testing.assert_array_equal(c.numpy(), a.numpy())
        for s in sums:
            assert s.item() == total.item()
