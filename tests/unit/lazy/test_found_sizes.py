"""Sizes that a program finds: what hangs on them waits like everything else, until somebody asks for the number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import lazy, nn

Function = Callable[[Any, Any], Any]


def _syncs() -> list[str]:
    return [cause for cause in lazy.metrics.causes() if cause.startswith("sync")]


def _fallbacks() -> list[str]:
    return [name for name in lazy.metrics.counter_names() if name.startswith("aten::")]


def _assign(x: Any, y: Any) -> Any:
    mask = x > 0
    x[mask] = y[mask] * 2
    return x


def _negate(x: Any, y: Any) -> Any:
    mask = x > 0
    x[mask] *= -1
    return x


def _write_parts(x: Any, y: Any) -> Any:
    found = x[x[:, 0] > 0]
    found[:, 0] = 5.0
    found.t()[1] += 1
    return found


def _count(x: Any) -> Any:
    return (x > 0).nonzero().shape[0]


WAITING: dict[str, Function] = {
    "nonzero": lambda x, y: (x > 0).nonzero(),
    "nonzero as_tuple": lambda x, y: (x > 0).nonzero(as_tuple=True),
    "argwhere": lambda x, y: weft.argwhere(x > 0) + 1,
    "mask": lambda x, y: x[x > 0] * 2,
    "sum": lambda x, y: x[x > 0].sum(),
    "mean": lambda x, y: x[x > 0].mean(),
    "one mask for two": lambda x, y: (lambda mask: x[mask] - y[mask])(x > 0),
    "one mask, written twice": lambda x, y: x[x[:, 0] > 0] - y[x[:, 0] > 0],
    "masked_select": lambda x, y: x.masked_select(x > 0) + 1,
    "rows": lambda x, y: x[x[:, 0] > 0] @ y.t(),
    "columns": lambda x, y: x[:, x[0] > 0].sum(0),
    "assign": _assign,
    "negate": _negate,
    "assign a number": lambda x, y: x.masked_fill(x > 0, 0.0),
    "write parts": _write_parts,
    "unique": lambda x, y: (x * 2).round().unique(),
    "unique all": lambda x, y: (x * 2).round().unique(return_inverse=True, return_counts=True),
    "unique rows": lambda x, y: (x * 0.4).round().unique(dim=0),
    "unique_consecutive": lambda x, y: x.round().unique_consecutive(),
    "bincount": lambda x, y: weft.bincount((x.abs() * 2).long().reshape(-1)),
    "repeat_interleave": lambda x, y: x[0].repeat_interleave((x[1].abs() * 2).long()),
    "mask of a mask": lambda x, y: (lambda found: found[found > 1])(x[x > 0]),
    "joined": lambda x, y: weft.cat([x[x > 0], y[y > 0], y[0]]) * 2,
    "turned": lambda x, y: (x[x[:, 0] > 0].t() + 1).sum(0),
    "in a row": lambda x, y: x[x[:, 0] > 0].view(-1, 2) + 1,
    "outer": lambda x, y: weft.outer(x[x > 0], y[y > 0]),
    "softmax": lambda x, y: x[x > 0].softmax(0),
    "zeros of a size": lambda x, y: weft.zeros(_count(x), 3, device=x.device) + 1,
    "range of a size": lambda x, y: weft.arange(_count(x), device=x.device) * 2,
    "times a size": lambda x, y: x * _count(x),
    "by a size": lambda x, y: x.sum() / (_count(x) + 1),
    "up to a size": lambda x, y: y.reshape(-1)[: _count(x)] * 2,
    "from a size": lambda x, y: y.reshape(-1)[_count(x) :] * 2,
    "narrow_copy": lambda x, y: y.reshape(-1).narrow_copy(0, 0, _count(x)),
    "loss": lambda x, y: (lambda mask: F.cross_entropy(x[mask], y[mask].argmax(1)))(x[:, 0] > 0),
    "norm": lambda x, y: F.layer_norm(x[x[:, 0] > 0], (6,)),
}


@pytest.mark.parametrize("name", WAITING)
def test_what_hangs_on_values_waits_and_is_one_program(name: str, rng: np.random.Generator) -> None:
    function = WAITING[name]
    for _ in range(4):
        arrays = [rng.standard_normal((4, 6)).astype(np.float32) for _ in range(2)]
        arrays[0][0] = abs(arrays[0][0])
        expected = function(*map(weft.tensor, arrays))
        with lazy.no_sync():
            found = function(*[weft.tensor(a).to("lazy") for a in arrays])
            lazy.mark_step()
        assert type(found) is type(expected)
        for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, expected)), strict=True):
            assert a.shape == b.shape and a.stride() == b.stride() and a.dtype is b.dtype
            np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    assert not _fallbacks() and not _syncs()
    assert lazy.metrics.counter_value("UncachedCompile") <= 2


READ: dict[str, Callable[[Any], Any]] = {
    "len": len,
    "int": lambda found: int(found.shape[0]),
    "shape": lambda found: found.shape == (3,),
    "repr": lambda found: repr(found.shape),
    "branch": lambda found: "many" if found.numel() > 3 else "few",
    "range": lambda found: list(range(found.shape[0])),
    "twice": lambda found: (len(found), found.shape[0] * 2, found.numel()),
    "tolist": lambda found: found.tolist(),
    "key": lambda found: {found.shape: 1}[found.shape],
}


@pytest.mark.parametrize("name", READ)
def test_a_size_that_is_read_is_one_sync_with_the_users_line(name: str, rng: np.random.Generator) -> None:
    for count in (3, 5):
        array = np.arange(count + 2, dtype=np.float32)
        expected = READ[name](weft.tensor(array)[weft.tensor(array) > 1])
        x = weft.tensor(array).to("lazy")
        lazy.metrics.reset()
        found = x[x > 1]
        assert READ[name](found) == expected
        assert len(_syncs()) == 1 and "test_found_sizes.py" in _syncs()[0]
        assert found.tolist() == array[2:].tolist() and len(_syncs()) == 1  # it was computed with the size


def test_the_bound_of_a_size_is_there_before_it() -> None:
    x = weft.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]], device="lazy")
    places = weft.nonzero(x)
    with lazy.no_sync():
        assert lazy.upper_bounds(places) == (6, 2)
        assert lazy.upper_bounds(x[x > 0][x[x > 0] > 1]) == (6,)
        assert lazy.upper_bounds(weft.cat([places, places[1:]])) == (12, 2)
        assert lazy.upper_bounds(x) == (2, 3)
    lazy.mark_step()
    assert lazy.upper_bounds(places) == (3, 2)
    assert tuple(places.cpu().shape) == (3, 2)


def test_a_size_outlives_its_tensor_and_the_step() -> None:
    x = weft.arange(6.0).to("lazy")
    size = x[x > 2].shape[0]
    assert isinstance(size, int)
    lazy.mark_step()  # nobody held the tensor: it was not computed
    x.zero_()
    assert size == 3 and size + 1 == 4 and f"{size:03d}" == "003"
    rows = x[x == 0]
    later = rows.shape[0]
    lazy.mark_step()
    lazy.metrics.reset()
    assert (later, rows.shape[0]) == (6, 6) and not _syncs()


def test_sizes_of_lazy_tensors_are_numbers_to_plain_ones_and_to_programs() -> None:
    c = weft.arange(10.0)

    def size(count: int) -> Any:
        x = weft.arange(8.0).to("lazy")
        return x[x >= 8 - count].shape[0]

    step = weft.compile(lambda a, n: a[:n] * n)
    for n in (3, 4, 3):
        assert weft.zeros(size(n), 2).shape == (n, 2)
        assert c[: size(n)].tolist() == c[:n].tolist() and c[size(n)] == n
        assert (c * size(n)).tolist() == (c * n).tolist()
        assert weft.tensor([size(n), 1]).tolist() == [n, 1]
        assert step(c, size(n)).tolist() == (c[:n] * n).tolist()
        weft.manual_seed(n)
        drawn = weft.rand(size(n), device="lazy").tolist(), weft.rand(2).tolist()
        weft.manual_seed(n)
        assert drawn == (weft.rand(n).tolist(), weft.rand(2).tolist())


def test_a_check_that_bounds_do_not_settle_asks() -> None:
    """Where eager mode refuses a size, so does the lazy device, at the line."""
    for what in ("narrow_copy", "narrow"):
        x = weft.ones(5, device="lazy")
        with pytest.raises(RuntimeError, match=r"start \(0\) \+ length \(5\) exceeds dimension size \(3\)"):
            getattr(weft.arange(3, device="lazy"), what)(0, 0, _count(x))
    x = weft.arange(5.0, device="lazy")
    with pytest.raises(RuntimeError, match="must match"):
        x[x > 1] + weft.ones(2, device="lazy")
    assert (x[x > 1] + weft.ones(3, device="lazy")).tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize("cut", [False, True])
def test_gradients_under_masks_train_as_in_eager_mode(cut: bool) -> None:
    weights = []
    for device in ("cpu", "lazy"):
        weft.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).to(device)
        optimizer = weft.optim.Adam(model.parameters(), lr=0.1)
        for i in range(5):
            x = weft.tensor(np.random.default_rng(i).standard_normal((8, 6)).astype(np.float32), device=device)
            keep = x[:, i] > 0
            out = model(x[keep])
            if cut and device == "lazy":
                lazy.mark_step()  # forward and backward are two programs
            optimizer.zero_grad()
            F.cross_entropy(out, x[keep][:, :3].argmax(1)).backward()
            optimizer.step()
            if device == "lazy":
                lazy.mark_step()
        weights.append([p.detach().cpu().numpy() for p in model.parameters()])
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert not _fallbacks() and (cut or not _syncs())
    assert lazy.metrics.counter_value("UncachedCompile") <= 4
    assert lazy.metrics.counter_value("lazy::index") >= 10


def test_functions_that_are_functionalized_or_transformed_wait_too() -> None:
    def step(x: Any) -> Any:
        y = x.clone()
        y[y > 2] *= 2
        return y.narrow_copy(0, 0, (x > 2).nonzero().shape[0]).sum() + y[y > 2].sum()

    x = weft.arange(6.0)
    expected = step(x).item()
    for function in (step, weft.func.functionalize(step)):
        lazy.metrics.reset()
        with lazy.no_sync():
            found = function(x.to("lazy"))
            lazy.mark_step()
        assert found.item() == expected and not _fallbacks()
        assert weft.compile(function)(x).item() == expected
    gradient = weft.func.grad(lambda a: (a[a > 2] ** 2).sum())(x.to("lazy"))
    assert gradient.tolist() == [0, 0, 0, 6, 8, 10]


def test_an_extracted_step_finds_the_sizes_of_each_run() -> None:
    run = lazy.extract_compiled_graph(lambda a: (a[a > 2] * 2, a.sum()), (weft.arange(8.0).to("lazy"),))
    for shift in (0, 3, -9):
        x = weft.arange(8.0) + shift
        picked, total = run(x.to("lazy"))
        assert picked.shape == x[x > 2].shape
        assert picked.tolist() == (x[x > 2] * 2).tolist() and total.item() == x.sum().item()


def test_a_size_that_cannot_be_found_raises_what_the_program_met() -> None:
    x = weft.arange(8.0).to("lazy")
    good, bad = x[x > 2], x[weft.tensor([1, 9]).to("lazy")]
    picked = bad[bad > 0]
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        len(picked)
    lazy.mark_step()  # it came out once
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        (picked + 1).tolist()
    assert len(good) == 5


def test_values_that_find_one_size_are_computed_together() -> None:
    """Where one of them is read, the others' sizes are numbers to what comes."""
    x, y = weft.arange(8.0).to("lazy"), weft.arange(8.0).to("lazy") * 3
    mask = x > 4
    first, waits = x[mask], y[mask].exp()
    assert len(first) == 3
    assert (waits.log() + weft.ones(3, device="lazy").expand(waits.shape)).tolist() == pytest.approx([16, 19, 22])
    assert lazy.computation.get_graph_hash([x[x > 2] * 2]) == lazy.computation.get_graph_hash([x[x > 2] * 2])


def test_steps_with_found_sizes_leave_nothing_behind() -> None:
    from weft.types.unbacked import KNOWN, alive

    def step(i: int) -> None:
        x = weft.arange(float(5 + i)).to("lazy")
        found = x[x > 2]
        found[found > 3] = 1.0
        lazy.mark_step()
        assert len(found) == 2 + i

    counts = []
    for i in range(12):
        step(i % 4)
        lazy.reset()
        counts.append((alive[0], len(KNOWN)))
    assert counts[-1] <= counts[5]
