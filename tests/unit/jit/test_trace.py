"""Traces: other sizes give what the function gives; structure, writes and gradients are kept; what Python decided is
warned of.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import weft
import weft.jit
import weft.nn as nn
import weft.nn.functional as F
from tests.jit_programs.test_programs import close, same
from tests.unit.jit.test_files import again

RNG = np.random.default_rng(11)


def sizes(count: int) -> list[int]:
    return [int(n) for n in RNG.integers(2, 8, count)]


def reshaped(x, y):
    n, m = x.shape
    z = x.view(m, n) * 2 + (1 - y.reshape(x.size(1), -1))
    return (z / n + x.numel() // m).sum(0, keepdim=True), weft.arange(x.size(0)) * 2


def written(x, y):
    out = weft.zeros(x.shape[0], x.shape[1])
    out.copy_(x)
    out[0] = y[0]
    out[:, 1:] += 2
    out += 1
    row = out[1]
    row.mul_(3.0)
    return out


def in_parts(x, y):
    a, b = (x + y).chunk(2, 1)
    values, _ = (x - y).max(1)
    return F.softmax(a, -1), weft.cat([b, a], 1), values, x.T, x[0, None], x[..., 1:2]


def reflected(x, y):
    return 2 - x, 2 / (x * x + 1), 2**x, 1 + x, 3 * y, -x, abs(y), x @ y.t(), x > 0, (x > 0) & (y > 0), ~(x > 0)


@pytest.mark.parametrize("function", [reshaped, written, in_parts, reflected], ids=lambda f: f.__name__)
def test_a_trace_serves_every_size(function) -> None:
    weft.manual_seed(int(RNG.integers(1 << 30)))
    n, m = sizes(2)
    traced = weft.jit.trace(function, (weft.randn(n, m + 2), weft.randn(n, m + 2)))
    traced.graph.lint()
    for _ in range(3):
        n, m = sizes(2)
        x, y = (weft.randn(n, m + 2, requires_grad=True) for _ in range(2))
        a, b = function(x, y), traced(x, y)
        assert close(a, b)
        grads = []
        for out in (a, b):
            parts = [p for p in (out if isinstance(out, tuple) else (out,)) if p.requires_grad]
            grads.append(weft.autograd.grad(sum((p * p).sum() for p in parts), (x, y)))
        assert all(weft.allclose(p, q) for p, q in zip(*grads, strict=True))
    assert str(again(traced).graph) == str(traced.graph)


def test_nested_inputs_and_outputs_keep_their_structure() -> None:
    def function(pair, named, items):
        a, (b, c) = pair
        return {"sum": a + b * c}, [named["x"] - items[0], items[1]], (a, (b,))

    def inputs(n):
        t = [weft.randn(n) for _ in range(6)]
        return (t[0], (t[1], t[2])), {"x": t[3]}, [t[4], t[5]]

    traced = weft.jit.trace(function, inputs(3))
    given = inputs(int(RNG.integers(4, 9)))
    assert same(function(*given), traced(*given))


def test_a_result_that_is_an_input_or_comes_twice() -> None:
    traced = weft.jit.trace(lambda x: (x, x + 1, x), (weft.ones(2),))
    x = weft.randn(4)
    a, b, c = traced(x)
    assert a is x and c is x and weft.equal(b, x + 1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.BatchNorm2d(2))
        self.head = nn.Linear(18, 3)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def test_a_traced_module_shares_its_parameters_and_state() -> None:
    net = Net()
    traced = weft.jit.trace(net, weft.randn(4, 1, 5, 5))
    assert [n for n, _ in traced.named_parameters()] == [n for n, _ in net.named_parameters()]
    before = net.body[2].num_batches_tracked.item()
    x = weft.randn(3, 1, 5, 5)
    out = traced(x)
    assert net.body[2].num_batches_tracked.item() == before + 1
    out.sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.eval()
    evaluated = weft.jit.trace(net, weft.randn(2, 1, 5, 5))
    assert weft.equal(evaluated(x), net(x)) and weft.equal(again(evaluated)(x), net(x))


@weft.jit.script
def powers(x, n: int):
    for i in range(n):
        x = x * 2 if i % 2 == 0 else x + 1
    return x


def test_a_scripted_function_in_a_trace_keeps_its_loop() -> None:
    traced = weft.jit.trace(lambda x: powers(x + 1, x.size(0)), (weft.ones(3),))
    assert (
        traced.graph.findNode("prim::CallFunction") is not None
        and traced.inlined_graph.findNode("prim::Loop") is not None
    )
    n = int(RNG.integers(4, 9))
    assert weft.equal(traced(weft.ones(n)), powers(weft.ones(n) + 1, n))


def test_a_trace_in_a_scripted_function() -> None:
    traced = weft.jit.trace(lambda x: x.view(-1, x.size(0)) + 1, (weft.ones(2, 3),))

    def function(x, n: int):
        for _ in range(n):
            x = traced(x)
        return x

    x = weft.randn(4, 3)
    assert weft.equal(weft.jit.script(function)(x, 3), function(x, 3))


def test_python_s_choice_by_a_value_is_warned_of() -> None:
    def function(x):
        if x.sum() > 0:
            x = x + 1
        return x * float(x[0])

    with pytest.warns(weft.jit.TracerWarning, match=r"test_trace.py:\d+: Converting a tensor to a bool"):
        weft.jit.trace(function, (weft.ones(2),), check_trace=False)


def test_random_numbers_are_found_by_the_check() -> None:
    with pytest.warns(weft.jit.TracerWarning, match="gives another result than the function"):
        weft.jit.trace(lambda x: x + weft.rand(3), (weft.ones(3),))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.jit.trace(lambda x: x + weft.ones(3), (weft.ones(3),))


def test_what_cannot_be_traced() -> None:
    with pytest.raises(TypeError, match="a function or Module can be traced, not a int"):
        weft.jit.trace(3, (weft.ones(1),))
    with pytest.raises(weft.jit.CompileError, match="an input of type object cannot be traced"):
        weft.jit.trace(lambda x: x, (object(),))


def test_grad_modes_are_part_of_the_trace() -> None:
    def step(x, w):
        with weft.no_grad():
            y = x * w
        with weft.no_grad(), weft.enable_grad():
            z = x * w
        return y + w, z, y

    traced = weft.jit.trace(step, (weft.ones(2), weft.ones(2)))
    w = weft.ones(2, requires_grad=True)
    a, z, y = traced(weft.ones(2) * 3, w)
    a.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0] and z.requires_grad and not y.requires_grad and weft.is_grad_enabled()
    with weft.no_grad():
        assert not any(t.requires_grad for t in (traced(weft.ones(2), w)[0], traced(weft.ones(2), w)[2]))
        assert not weft.is_grad_enabled()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * float(x.detach().numpy()[0]),
        lambda x: x * weft.from_numpy(x.numpy()),
        lambda x: x * float(np.asarray(x)[0]),
    ],
)
def test_arrays_of_numpy_are_constants_that_are_warned_of(function) -> None:
    with pytest.warns(weft.jit.TracerWarning, match="constant"):
        traced = weft.jit.trace(function, (weft.ones(2),))
    assert weft.equal(traced(weft.ones(2)), function(weft.ones(2)))
