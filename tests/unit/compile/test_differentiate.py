"""differentiate against central differences: text with nested If and Loop, first and second order,
what capture records."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.evaluate import interpret
from weft.ir.parser import parse_graph
from weft.ir.verifier import verify
from weft.record.differentiate import differentiate
from weft.support.errors import StateError, Unsupported

STRAIGHT = """graph @straight(%x: f64[s0, 3], %w: f64[3, 2], %b: f64[2]) {
  example s0 = 4
  %0: f64[s0, 2] = aten::mm(%x, %w)
  %1: f64[s0, 2] = aten::add.Tensor(%0, %b)
  %2: f64[s0, 2] = aten::tanh(%1)
  %3: f64[s0, 2] = aten::mul.Tensor(%2, %1)
  %4: f64[] = aten::sum(%3)
  return %4
}"""
BRANCH = """graph @branch(%p: b1[], %x: f64[3], %y: f64[3]) {
  %k: f64[3] = aten::mul.Tensor(%x, %y)
  %r: f64[3], %s: f64[3] = prim::If(%p) {
    %0: f64[3] = aten::sin(%k)
    %1: f64[3] = aten::mul.Tensor(%0, %x)
    yield %1, %k
  } else {
    %2: f64[3] = aten::exp(%y)
    yield %2, %x
  }
  %3: f64[3] = aten::mul.Tensor(%r, %s)
  return %3
}"""
LOOP = """graph @recurrence(%h: f64[3], %x: f64[s0, 3], %w: f64[3]) {
  example s0 = 4
  %last: f64[3], %rows: f64[s0, 3] = prim::Loop(trip=s0, condition=True, carried=[%h], xs=[%x], reverse=REVERSE) (%i: int, %c: f64[3], %r: f64[3]) {
    %0: f64[3] = aten::mul.Tensor(%c, %w)
    %1: f64[3] = aten::add.Tensor(%0, %r)
    %2: f64[3] = aten::tanh(%1)
    %3: f64[3] = aten::mul.Tensor(%2, %i)
    yield True, %2, %3
  }
  %4: f64[s0, 3] = aten::mul.Tensor(%rows, %w)
  %5: f64[] = aten::sum(%4)
  %6: f64[] = aten::sum(%last)
  %7: f64[] = aten::mul.Tensor(%5, %6)
  return %7
}"""  # noqa: E501
NESTED = """graph @nested(%x: f64[2], %w: f64[2], %n: int) {
  %y: f64[2] = prim::Loop(%n, condition=True, carried=[%x], xs=[]) (%i: int, %c: f64[2]) {
    %s: f64[] = aten::sum(%c)
    %p: b1[] = aten::gt.Tensor(%s, other=0.3)
    %q: f64[2] = prim::If(%p) {
      %k: f64[2] = aten::sin(%w)
      %inner: f64[2] = prim::Loop(trip=2, condition=True, carried=[%c], xs=[]) (%j: int, %d: f64[2]) {
        %1: f64[2] = aten::mul.Tensor(%d, %k)
        %2: f64[2] = aten::sub.Tensor(%1, %w)
        yield True, %2
      }
      yield %inner
    } else {
      %3: f64[2] = aten::mul.Tensor(%c, %c)
      %4: f64[2] = aten::add.Tensor(%3, %w)
      yield %4
    }
    yield True, %q
  }
  return %y
}"""
STOPS = """graph @stops(%x: f64[2], %w: f64[2]) {
  %y: f64[2], %rows: f64[7, 2] = prim::Loop(trip=7, condition=True, carried=[%x], xs=[]) (%i: int, %c: f64[2]) {
    %1: f64[2] = aten::mul.Tensor(%c, %w)
    %2: f64[] = aten::sum(%1)
    %3: b1[] = aten::lt.Tensor(%2, other=6.0)
    yield %3, %1, %1
  }
  %4: f64[] = aten::sum(%rows)
  %5: f64[2] = aten::mul.Tensor(%y, %4)
  return %5
}"""


def central_differences(graph, inputs, wrt, of=0, step=1e-6):
    found = []
    for i in wrt:
        gradient = np.zeros_like(inputs[i])
        for at in np.ndindex(*gradient.shape):
            values = []
            for sign in (1, -1):
                moved = [np.array(x) if isinstance(x, np.ndarray) else x for x in inputs]
                moved[i][at] += sign * step
                values.append(np.sum(interpret(graph, moved)[of]))
            gradient[at] = (values[0] - values[1]) / (2 * step)
        found.append(gradient)
    return found


def check(graph, inputs, wrt, of=0):
    """Gradients of one result; returns the differentiated graph, printed and parsed."""
    made = differentiate(graph, (of,), wrt)
    verify(made)
    text = str(made)
    again = parse_graph(text)
    assert str(again) == text
    found = interpret(again, inputs)
    for value, before in zip(found, interpret(graph, inputs), strict=False):
        np.testing.assert_allclose(value, before, rtol=1e-12)
    for g, expected in zip(found[len(graph.results) :], central_differences(graph, inputs, wrt, of), strict=False):
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-5)
    return again


def both_orders(text, inputs, wrt):
    graph = parse_graph(text)
    once = check(graph, inputs, wrt)
    for k in range(len(wrt)):
        check(once, inputs, wrt, of=len(graph.results) + k)


def test_straight(rng):
    rows = int(rng.integers(1, 5))
    both_orders(
        STRAIGHT, [rng.standard_normal((rows, 3)), rng.standard_normal((3, 2)), rng.standard_normal(2)], (0, 1, 2)
    )


@pytest.mark.parametrize("flag", [True, False])
def test_branch(flag, rng):
    both_orders(BRANCH, [np.array(flag), rng.standard_normal(3), rng.standard_normal(3)], (1, 2))


@pytest.mark.parametrize("reverse", ["False", "True"])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_loop(reverse, steps, rng):
    both_orders(
        LOOP.replace("REVERSE", reverse),
        [rng.standard_normal(3), rng.standard_normal((steps, 3)), rng.standard_normal(3)], (0, 1, 2),
    )


@pytest.mark.parametrize("steps", [0, 3])
def test_nested(steps, rng):
    both_orders(NESTED, [rng.uniform(0.1, 0.9, 2), rng.uniform(0.2, 0.8, 2), steps], (0, 1))


def test_a_loop_that_stops_by_its_condition(rng):
    both_orders(STOPS, [rng.uniform(0.5, 1.0, 2), rng.uniform(1.5, 1.8, 2)], (0, 1))


def test_a_captured_function(rng):
    @weft.compile(backend="interpret")
    def f(x, w):
        return (weft.nn.functional.gelu(x @ w).softmax(-1) * x.sum(1, keepdim=True)).sum()

    x, w = rng.standard_normal((3, 2)), rng.standard_normal((2, 4))
    f(weft.tensor(x), weft.tensor(w))
    check(f.entries[0].graph, [x, w], (0, 1))


def test_a_result_without_derivative_and_a_number_that_is_carried():
    with pytest.raises(StateError, match="no derivative"):
        differentiate(parse_graph("graph @g(%x: i64[2]) {\n  return %x\n}"))
    text = """graph @g(%x: f64[], %n: float) {
      %y: f64[], %m: float = prim::Loop(trip=2, condition=True, carried=[%x, %n], xs=[]) (%i: int, %c: f64[], %k: float) {
        %1: f64[] = aten::mul.Tensor(%c, %k)
        yield True, %1, %k
      }
      return %y
    }"""  # noqa: E501
    with pytest.raises(Unsupported, match="0-dim tensor"):
        differentiate(parse_graph(text))


def test_a_parameter_that_nothing_depends_on_gets_zeros():
    graph = differentiate(parse_graph("graph @g(%x: f64[2], %y: f64[3]) {\n  return %x\n}"), (0,), (1,))
    assert interpret(graph, [np.ones(2), np.ones(3)])[1].tolist() == [0, 0, 0]
