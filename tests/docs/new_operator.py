"""Everything that docs/adding-an-op.md promises of its operator. Run by tests/test_adding_an_op.py in a process of its
own: the catalogue is global."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.docs.run_page import examples
from weft.catalogue.nn import activations
from weft.ir.evaluate import interpret
from weft.ir.parser import parse_graph
from weft.support.errors import WeftError

ROOT = Path(__file__).resolve().parents[2]
for example in examples((ROOT / "docs/adding-an-op.md").read_text(encoding="utf-8")):
    exec(compile(example.source, str(ROOT / "docs/adding-an-op.md"), "exec"), vars(activations))


def expected(x: np.ndarray, cap: float) -> np.ndarray:
    return cap * np.tanh(x / cap)


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=tuple(rng.integers(2, 9, size=2))) * 3


def test_calls(x: np.ndarray) -> None:
    t, want = weft.from_numpy(x), expected(x, 2.0)
    np.testing.assert_allclose(weft.softcap(t, 2.0).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(t.softcap(cap=2.0).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(t.t().softcap(2).numpy(), want.T, rtol=1e-12)
    out = weft.empty(*x.shape, dtype=weft.float64)
    assert weft.softcap(t, 2.0, out=out) is out
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-12)
    whole = weft.from_numpy(x.round().astype(np.int64)).softcap(2.0)
    assert whole.dtype is weft.float32
    np.testing.assert_allclose(whole.numpy(), expected(x.round(), 2.0), rtol=1e-5)
    assert weft.softcap.__doc__ is not None and "never beyond cap" in weft.softcap.__doc__


def test_in_place_through_a_view(x: np.ndarray) -> None:
    t, want = weft.from_numpy(x.copy()), x.copy()
    assert t[0].softcap_(1.5)._base is t
    want[0] = expected(want[0], 1.5)
    np.testing.assert_allclose(t.numpy(), want, rtol=1e-12)


def test_mistakes_have_one_text(x: np.ndarray) -> None:
    t = weft.from_numpy(x)
    with pytest.raises((TypeError, RuntimeError), match="softcap"):
        weft.softcap(t)
    with pytest.raises((TypeError, RuntimeError), match="softcap"):
        t.softcap("two")
    with pytest.raises(WeftError):
        weft.from_numpy(x.round().astype(np.int64)).softcap_(2.0)


def test_gradients_of_two_orders(x: np.ndarray, rng: np.random.Generator) -> None:
    v, w = rng.normal(size=x.shape), rng.normal(size=x.shape)

    def gradient(at: np.ndarray) -> np.ndarray:
        leaf = weft.from_numpy(at.copy()).requires_grad_()
        (leaf.softcap(1.5) * weft.from_numpy(v)).sum().backward()
        return leaf.grad.numpy()

    def along(f, direction: np.ndarray, step: float = 1e-5) -> np.ndarray:
        return (f(x + step * direction) - f(x - step * direction)) / (2 * step)

    np.testing.assert_allclose(
        (gradient(x) * w).sum(), along(lambda at: (expected(at, 1.5) * v).sum(), w), rtol=1e-6, atol=1e-8
    )
    leaf = weft.from_numpy(x.copy()).requires_grad_()
    result = leaf.softcap(1.5)
    assert result.grad_fn.name() == "SoftcapBackward0"
    (first,) = weft.autograd.grad((result * weft.from_numpy(v)).sum(), leaf, create_graph=True)
    (second,) = weft.autograd.grad((first * weft.from_numpy(w)).sum(), leaf)
    np.testing.assert_allclose(second.numpy(), along(gradient, w), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_compiled_steps_agree(x: np.ndarray, rng: np.random.Generator, backend: str) -> None:
    weight = weft.from_numpy(rng.normal(size=(x.shape[1],))).requires_grad_()

    def step(x):
        weight.grad = None
        y = x * weight
        y[0].softcap_(0.5)
        y = y.softcap(1.5)
        loss = (y * y).sum()
        loss.backward()
        return loss, y

    compiled = weft.compile(step, backend=backend)
    weft.counters.reset()
    for rows in (x.shape[0], x.shape[0] + 3):
        batch = weft.from_numpy(rng.normal(size=(rows, x.shape[1])))
        want = [t.detach().numpy().copy() for t in (*step(batch), weight.grad)]
        got = [t.detach().numpy() for t in (*compiled(batch), weight.grad)]
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert weft.counters.captures == 1
    if backend == "llvm":
        assert weft.counters.foreign_segments == 0 and weft.counters.native_calls == 2
        captured = str(compiled.stages(batch)["captured"])
        assert "aten::softcap" in captured and "autograd::SoftcapBackward0" in captured and "softcap_" not in captured
        assert any("aten::softcap" in text and "aten::mul" in text for text in compiled.stages(batch)["nests"].values())


def test_its_node_prints_and_parses(x: np.ndarray) -> None:
    graph = weft.compile(lambda x: x.softcap(1.5)).stages(weft.from_numpy(x))["captured"]
    assert "aten::softcap(%arg0, cap=1.5)" in str(graph)
    again = parse_graph(str(graph))
    assert str(again) == str(graph)
    np.testing.assert_allclose(interpret(again, [x])[0], expected(x, 1.5), rtol=1e-12)


def test_its_section_and_stub_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from make_reference import FOLDER, pages  # scripts are no package
    from make_stubs import stubs

    text = pages()[FOLDER / "nn-functional.md"].split("\n## softcap\n")[1].split("\n## ")[0]
    assert (
        "`weft.softcap` `weft.Tensor.softcap` `weft.Tensor.softcap_`" in text
        and "softcap(Tensor self, Scalar cap) -> Tensor" in text
    )
    assert (
        "x near 0, never beyond cap" in text and "*pointwise, gradients, in place, out=*" in text
        and re.search(r"`softcap\(\[.*\], 2\.0\)` is `\[", text)
    )
    assert (
        "def softcap(input: Tensor, cap: _Number, *, out: Tensor | None = ...) -> Tensor: ..."
        in stubs()[ROOT / "weft/__init__.pyi"]
    )


def test_the_reduction(x: np.ndarray, rng: np.random.Generator) -> None:
    t = weft.from_numpy(x).requires_grad_()
    np.testing.assert_allclose(weft.sumsq(t, 1, keepdim=True).detach().numpy(), (x**2).sum(1, keepdims=True))
    total = t.sumsq()
    assert total.grad_fn.name() == "SumsqBackward0"
    (first,) = weft.autograd.grad(total, t, create_graph=True)
    (second,) = weft.autograd.grad((first * first).sum(), t)
    np.testing.assert_allclose(second.numpy(), 8 * x)
    with pytest.raises(WeftError):
        t.sumsq(2)
    compiled = weft.compile(lambda x: x.sumsq(0) * 2)
    for rows in (x.shape[0], x.shape[0] + 1):
        batch = rng.normal(size=(rows, x.shape[1]))
        np.testing.assert_allclose(compiled(weft.from_numpy(batch)).numpy(), 2 * (batch**2).sum(0))


def test_the_view(x: np.ndarray) -> None:
    t, want = weft.from_numpy(x.copy()), x.copy()
    seen = t.every(2, 1)
    assert seen._base is t
    seen.mul_(3)
    want[:, ::2] *= 3
    np.testing.assert_allclose(t.numpy(), want)
    leaf = weft.from_numpy(x).requires_grad_()
    (leaf.every(2) ** 2).sum().backward()
    assert leaf.grad is not None
    wanted = np.zeros_like(x)
    wanted[::2] = 2 * x[::2]
    np.testing.assert_allclose(leaf.grad.numpy(), wanted)

    def step(x):
        y = x * 1
        y.every(2, 1).add_(1)
        return y

    np.testing.assert_allclose(weft.compile(step)(weft.from_numpy(x)).numpy(), x + (np.arange(x.shape[1]) % 2 == 0))


def test_the_kernel(x: np.ndarray) -> None:
    t = weft.from_numpy(x).requires_grad_()
    weight = np.arange(x.size, dtype=float).reshape(x.shape)
    (slope,) = weft.autograd.grad((weft.mirror(t, 1) * weft.from_numpy(weight)).sum(), t)
    np.testing.assert_allclose(slope.numpy(), weight[:, ::-1])
    with pytest.raises(WeftError):
        t.mirror(2)
    compiled = weft.compile(lambda x: x.mirror(-1) * 2 + x)
    weft.counters.reset()
    for rows in (x.shape[0], x.shape[0] + 2):
        batch = np.resize(x, (rows, x.shape[1]))
        np.testing.assert_allclose(compiled(weft.from_numpy(batch)).numpy(), 2 * batch[:, ::-1] + batch)
    assert weft.counters.captures == 1 and weft.counters.foreign_segments == 0
    _, pushed = weft.func.jvp(lambda t: t.mirror(0), (weft.from_numpy(x),), (weft.from_numpy(weight),))
    np.testing.assert_allclose(pushed.numpy(), weight[::-1])


def test_batches_are_computed_at_once(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4, 5))
    weft.counters.reset()
    sums = weft.vmap(lambda t: t.sumsq(1))(weft.from_numpy(x))
    np.testing.assert_allclose(sums.numpy(), (x**2).sum(2))
    shown = weft.vmap(lambda t: t.every(2))(weft.from_numpy(x))
    np.testing.assert_allclose(shown.numpy(), x[:, ::2])
    turned = weft.vmap(lambda t: t.mirror(1))(weft.from_numpy(x))
    np.testing.assert_allclose(turned.numpy(), x[:, :, ::-1])
    slopes = weft.vmap(weft.func.grad(lambda t: t.every(3, 1).sumsq() + t.softcap(2.0).sum()))(weft.from_numpy(x))
    wanted = 1 - np.tanh(x / 2) ** 2
    wanted[:, :, ::3] += 2 * x[:, :, ::3]
    np.testing.assert_allclose(slopes.numpy(), wanted)
    assert weft.counters.vmap_loops == 0
