"""What a step is recognised by, and what it is not: programs, their inputs, and what is computed at all."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import lazy
from weft.lazy.computation import get_graph_hash


def count(name):
    return lazy.metrics.counter_value(name) or 0


def lazily(array):
    return weft.tensor(np.asarray(array, np.float32), device="lazy")


def test_sizes_share_a_program(rng):
    for size in rng.permutation(np.arange(1, 40)):
        array = rng.standard_normal((size, 3)).astype(np.float32)
        x = lazily(array)
        x.view(-1)[1:3].add_(1)
        y = (x @ x.t()).mean(0) * x.shape[0] + weft.arange(int(size), device="lazy")
        z = y.expand(2, -1).reshape(-1)
        lazy.mark_step()
        array.reshape(-1)[1:3] += 1
        wanted = (array @ array.T).mean(0) * size + np.arange(size)
        np.testing.assert_allclose(z.cpu().numpy(), np.tile(wanted, 2), rtol=1e-4, atol=1e-3)
    assert count("UncachedCompile") <= 2  # one for size 1, where dims are broadcast


def test_numbers_are_inputs(rng):
    x = lazily(rng.standard_normal(4))
    for k in range(2, 9):
        y = x * float(k) + k
        lazy.mark_step()
        np.testing.assert_allclose(y.cpu().numpy(), x.cpu().numpy() * k + k, rtol=1e-5, atol=1e-6)
    assert count("UncachedCompile") <= 2
    before = count("UncachedCompile")
    for rate in rng.random(5) + 0.01:
        y = x.sub(x, alpha=float(rate)) + float(rate)
        lazy.mark_step()
        np.testing.assert_allclose(y.cpu().numpy(), x.cpu().numpy() * (1 - rate) + rate, rtol=1e-5, atol=1e-6)
    assert count("UncachedCompile") <= before + 1


def test_seeds_are_inputs():
    for seed in range(6):
        weft.manual_seed(seed)
        a, b = weft.rand(3, 2, device="lazy"), weft.randn(5, device="lazy")
        lazy.mark_step()
        weft.manual_seed(seed)
        assert weft.equal(a.cpu(), weft.rand(3, 2)) and weft.equal(b.cpu(), weft.randn(5))
    assert count("UncachedCompile") <= 1
    generator = weft.Generator(device="lazy").manual_seed(3)
    first = weft.rand(4, generator=generator, device="lazy")
    assert weft.equal(first.cpu(), weft.rand(4, generator=weft.Generator().manual_seed(3)))


@pytest.mark.parametrize("ends", [(), (0,), (1,), (0, 1, 2)])
def test_draws_come_in_python_s_order(ends):
    """Wherever steps end, and whether or not the values are used: the streams are eager's."""
    results = []
    for device in ("lazy", "cpu"):
        weft.manual_seed(11)
        x = weft.ones(40, device=device)
        drawn = []
        for i in range(3):
            weft.rand(7, device=device)  # dead
            drawn.append(weft.nn.functional.dropout(x, 0.4))
            drawn.append(weft.bernoulli(x * 0.3))
            drawn.append(weft.randperm(9, device=device))
            drawn.append(weft.normal(0.0, 2.0, (3,), device=device))
            if i in ends and device == "lazy":
                lazy.mark_step()
        results.append([t.cpu().numpy() for t in reversed(drawn)])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_array_equal(found, wanted)


PAIRS = {
    "operands": (lambda a, b: a - b, lambda a, b: b - a),
    "dims": (lambda a, b: a.sum(0), lambda a, b: a.sum(1)),
    "an int and a float": (lambda a, b: (a * 0).to(weft.int64) + 1, lambda a, b: (a * 0).to(weft.int64) + 1.0),
    "an int and a bool": (lambda a, b: (a * 0).to(weft.int64) * 1, lambda a, b: (a * 0).to(weft.int64) * True),
    "dtypes": (lambda a, b: a.to(weft.float64), lambda a, b: a.to(weft.int32)),
    "one tensor twice": (lambda a, b: a * a, lambda a, b: a * b),
    "results": (lambda a, b: (a + b, a * b), lambda a, b: (a * b, a + b)),
    "modes": (lambda a, b: weft.div(a, b, rounding_mode="floor"), lambda a, b: weft.div(a, b, rounding_mode="trunc")),
    "exponents": (lambda a, b: a ** 2, lambda a, b: a ** 3),
    "constants": (lambda a, b: a + weft.tensor([1.0, 2, 3], device="lazy"),
                  lambda a, b: a + weft.tensor([3.0, 2, 1], device="lazy")),
}


@pytest.mark.parametrize("name", PAIRS)
def test_programs_are_not_mistaken(name, rng):
    arrays = rng.standard_normal((2, 3, 3)).astype(np.float32) + 3
    for function in PAIRS[name] * 2:
        a, b = map(lazily, arrays)
        found = function(a, b)
        lazy.mark_step()
        plain = [weft.tensor(x) for x in arrays]
        wanted = function(*plain) if name != "constants" else None
        for f, w in zip(*((t if isinstance(t, tuple) else (t,)) for t in (found, wanted)), strict=True):
            if w is not None:
                assert f.dtype is w.dtype
                np.testing.assert_allclose(f.cpu().numpy(), w.numpy(), rtol=1e-5)
            else:
                np.testing.assert_allclose(f.cpu().numpy() - arrays[0], (found.cpu().numpy() - arrays[0]))


def test_hashes_tell_structures_apart(rng):
    a, b = lazily(rng.random(3)), lazily(rng.random(3))
    same = get_graph_hash([a - b]), get_graph_hash([lazily(rng.random(7)) - lazily(rng.random(7))])
    assert same[0] == same[1] != get_graph_hash([b - b]) and get_graph_hash([a + b]) != same[0]


def test_aliased_inputs_are_other_programs(rng):
    """`f(x, x.view(-1))` after `f(x, y)`: what a write to one shows in the other."""
    for shared in (False, True, False, True):
        x = lazily(np.zeros(4))
        y = x.view(2, 2) if shared else lazily(np.zeros((2, 2)))
        x.add_(1)
        y.mul_(3)
        lazy.mark_step()
        assert x.tolist() == [3.0 if shared else 1.0] * 4 and y.tolist() == [[3.0 if shared else 0.0] * 2] * 2


def test_dead_values_are_not_computed(rng):
    x = lazily(rng.random((30, 30)))
    weft.counters.reset()
    for _ in range(5):
        weft.linalg.inv(x @ x)  # nobody keeps it
    y = x + 1
    lazy.mark_step()
    assert count("SyncedTensorsWithIR") == 1 and y.shape == (30, 30)
    lazy.mark_step()
    assert count("SyncedTensorsWithIR") == 1 and count("UncachedCompile") <= 1


@pytest.mark.parametrize("read", [
    lambda t: t.item(), bool, float, repr, lambda t: t.tolist(), lambda t: t.numpy(), lambda t: t.cpu(), int,
    lambda t: f"{t:.2f}", lambda t: np.asarray(t),
])
def test_a_read_computes_what_it_reads(read, rng):
    x = lazily(rng.random(3) + 1)
    other, wanted = x * 3, (x * 5).sum()
    read(wanted)
    assert count("UncachedCompile") + count("CachedCompile") == 1 and count("SyncedTensorsWithIR") == 1
    assert "aten::mul" in lazy.debug.dump_ir([other])
    read(wanted)
    assert count("SyncedTensorsWithIR") == 1


def test_shapes_and_types_are_known_without_a_program(rng):
    x = lazily(rng.random((3, 4)))
    y = weft.cat([x.t() @ x, x[:, :4].new_zeros(2, 4)]).to(weft.float64)
    assert y.shape == (6, 4) and y.dtype is weft.float64 and y.numel() == 24 and y.is_contiguous() and len(y) == 6
    assert count("UncachedCompile") == 0 and count("SyncedTensorsWithIR") == 0


def test_a_clone_costs_nothing(rng):
    x = lazily(rng.random(3))
    c = x.clone()
    x.add_(1)
    lazy.mark_step()
    assert count("UncachedCompile") <= 1 and not weft.equal(x.cpu(), c.cpu())
    assert "clone" not in lazy.debug.dump_ir([c]) and x.t().clone().is_contiguous()


def test_parameters_are_updated_in_place(rng):
    """A storage whose earlier value nobody reads any more keeps its memory; where somebody does, it does not."""
    x = lazily(rng.random(8))
    lazy.mark_step()
    at = x.data_ptr()
    for _ in range(3):
        x.mul_(2).sub_(1)
        lazy.mark_step()
        assert x.data_ptr() == at
    kept = x.clone()
    x.add_(1)
    lazy.mark_step()
    assert x.data_ptr() != kept.data_ptr() and np.allclose(x.cpu().numpy(), kept.cpu().numpy() + 1)


def test_forced_operators_run_at_once(rng):
    array = rng.random((2, 3)).astype(np.float32)
    x, p = weft.tensor(array, device="lazy"), weft.tensor(array)
    lazy.config.set_force_fallback("aten::sub")
    assert lazy.config.get_force_fallback() == "aten::sub"
    for t in (x, p):
        v = t[0]
        v.mul_(3)
        t.sub_(v)
        v.add_(t[1] - 1)
    assert count("aten::sub") == 2
    np.testing.assert_allclose(x.cpu().numpy(), p.numpy(), rtol=1e-6)
    lazy.config.set_force_fallback("aten::view")
    with pytest.raises(RuntimeError, match="a view cannot be computed at once"):
        x.view(-1)
    with pytest.raises((TypeError, RuntimeError), match="there is no operator"):
        lazy.config.set_force_fallback("aten::subb")


def test_whether_masks_meet_is_seen_by_the_run(rng):
    array = rng.standard_normal((4, 5)).astype(np.float32)
    x = lazily(array)
    x[0].abs_()
    array[0] = abs(array[0])
    rows, columns = array[:, 0] > 9, array[0] > 9
    rows[:2] = columns[1:3] = True
    found = x[weft.tensor(rows).to("lazy"), weft.tensor(columns).to("lazy")]  # as many of the one as of the other?
    assert not count("SyncedTensorsWithIR") and not count("aten::index")  # nothing has run
    np.testing.assert_array_equal(found.cpu().numpy(), array[rows, columns])
    rows[:3] = True
    with pytest.raises(IndexError):
        x[weft.tensor(rows).to("lazy"), weft.tensor(columns).to("lazy")].cpu()
    assert not count("aten::index")


def test_extraction(rng):
    def step(a, b):
        a.add_(1)
        c = a * b
        return c, c + 1, a, c

    x, y = lazily(rng.random(3)), lazily(rng.random(3))
    run = lazy.extract_compiled_graph(step, (x, y))
    lazy.metrics.reset()
    run(lazily(rng.random(3)), lazily(rng.random(3)))
    assert not lazy.metrics.counter_value("UncachedCompile")  # the program was there
    for size in (3, 3, 5, 1, 5):
        a, b = rng.random(size).astype(np.float32), rng.random(size).astype(np.float32)
        p, q = lazily(a), lazily(b)
        c, d, same, again = run(p, q)
        assert same is p and weft.equal(c.cpu(), again.cpu()) and p._version == 1 and q._version == 0
        np.testing.assert_allclose(p.cpu().numpy(), a + 1, rtol=1e-6)
        np.testing.assert_allclose(d.cpu().numpy(), (a + 1) * b + 1, rtol=1e-6)
    with pytest.raises(RuntimeError, match="reads a value"):
        lazy.extract_compiled_graph(lambda a: a * a.sum().item(), (x,))


def test_no_sync_and_no_recompile(rng):
    x = lazily(rng.random(3))
    with lazy.no_sync(), pytest.raises(RuntimeError, match=r"test_programs.py:\d+: item\(\)"):
        (x.sum() * 2).item()
    (x + 1).sum().item()
    with lazy.no_recompile():
        (x + 1).sum().item()
        with pytest.raises(RuntimeError, match="no_recompile"):
            (x.exp() + 1).sum().item()


def test_report_and_dot(rng):
    x = lazily(rng.random(3))
    y = (x * 2).relu()
    dot = lazy.debug.dump_ir([y], "dot")
    assert dot.startswith("digraph") and "aten::relu" in dot and "test_programs.py:" in dot
    y.tolist()
    assert "lazy::mul" in lazy.metrics.counter_names() and "test_programs.py:" in lazy.metrics.report()
    with pytest.raises((TypeError, RuntimeError), match="form"):
        lazy.debug.dump_ir([y], "json")


def test_tensor_ids(rng):
    x = lazily(rng.random(3))
    assert lazy.get_tensor_id(x) == lazy.get_tensor_id(x.detach()) != lazy.get_tensor_id(x.view(3))
    x[0] = 5.0
    lazy.sync_multi([x])
    assert x[0].item() == 5.0
    with pytest.raises((TypeError, RuntimeError), match="expected a lazy tensor"):
        lazy.get_tensor_id(weft.ones(1))


def test_a_program_that_cannot_be_extracted_names_its_own_cause():
    a, b = weft.rand(3, device="lazy"), weft.rand(3, device="lazy")
    float((a * b).sum())  # a cause of another step
    lazy.config.set_force_fallback("aten::sub")
    try:
        with pytest.raises(weft.WeftError, match=r"\(fallback: aten::sub\)"):
            lazy.extract_compiled_graph(lambda x, y: x - y, [a, b])
    finally:
        lazy.config.set_force_fallback("")
    with pytest.raises(weft.WeftError, match=r"\(sync: .*item\(\)\)"):
        lazy.extract_compiled_graph(lambda x, y: x * float(y.sum().item()), [a, b])
