"""The evaluator: control flow, lifetimes, sizes that only the run tells."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import weft  # noqa: F401
from weft.ir.builder import Builder, Handle
from weft.ir.evaluate import ArrayEvaluator, interpret
from weft.ir.parser import parse_graph
from weft.ops.packet import aten
from weft.types import dtype as dt
from weft.types.tensor_type import tensor_type


def test_deep_diamonds_run_each_node_once(rng):
    b = Builder("diamond")
    x = Handle(b.param(tensor_type(dt.float64, (2,)), "x"), b)
    y = x
    depth = int(rng.integers(200, 400))
    for _ in range(depth):
        y = aten.mul(aten.add(y, y), 0.5)
    value = rng.standard_normal(2)
    np.testing.assert_array_equal(interpret(b.graph([y.value]), [value])[0], value)


def test_values_are_let_go_after_their_last_use():
    graph = parse_graph("""graph @g(%x: f64[8]) {
      %a: f64[8] = aten::exp(%x)
      %b: f64[8] = aten::neg(%a)
      %c: f64[8] = aten::neg(%b)
      %d: f64[8] = aten::add.Tensor(%c, %x)
      return %d, %b
    }""")
    alive: list[list[bool]] = []
    references: list[weakref.ref] = []

    class Watched(ArrayEvaluator):
        def evaluate_node(self, node, values):
            gc.collect()
            alive.append([r() is not None for r in references])
            super().evaluate_node(node, values)
            references.append(weakref.ref(values[node.output]))

    Watched().evaluate(graph, [np.zeros(8)])
    assert alive == [[], [True], [False, True], [False, True, True]]


LOOP = """graph @g(%n: int, %x: f64[3], %rows: f64[s0, 3]) {{
  %last: f64[3], %ys: f64[s0, 3] = prim::Loop(%n, condition=True, carried=[%x], xs=[%rows], reverse={}) (%i: int, %c: f64[3], %r: f64[3]) {{
    %1: f64[3] = aten::mul.Tensor(%c, %r)
    %2: f64[3] = aten::add.Tensor(%1, %i)
    yield True, %2, %1
  }}
  return %last, %ys
}}"""  # noqa: E501


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_loops(reverse, count, rng):
    x, rows = rng.standard_normal(3), rng.standard_normal((count, 3))
    carried, ys = x, np.zeros((count, 3))
    for i in range(count)[:: -1 if reverse else 1]:
        ys[i] = carried * rows[i]
        carried = ys[i] + i
    last, found = interpret(parse_graph(LOOP.format(reverse)), [count, x, rows])
    np.testing.assert_array_equal(last, carried)
    np.testing.assert_array_equal(found, ys)


def test_a_loop_that_stops_leaves_zeros_in_the_rows_it_did_not_reach(rng):
    graph = parse_graph("""graph @g(%x: f64[]) {
      %last: f64[], %ys: f64[6] = prim::Loop(trip=6, condition=True, carried=[%x], xs=[]) (%i: int, %c: f64[]) {
        %1: f64[] = aten::mul.Tensor(%c, other=2.0)
        %2: b1[] = aten::lt.Tensor(%1, other=10.0)
        yield %2, %1, %1
      }
      return %last, %ys
    }""")
    last, ys = interpret(graph, [np.array(3.0)])
    assert last == 12.0 and ys.tolist() == [6.0, 12.0, 0, 0, 0, 0]


def test_nested_control_flow_sees_outer_values(rng):
    graph = parse_graph("""graph @g(%p: b1[], %x: f64[2]) {
      %k: f64[2] = aten::mul.Tensor(%x, other=3.0)
      %y: f64[2] = prim::If(%p) {
        %l: f64[2] = prim::Loop(trip=3, condition=True, carried=[%x], xs=[]) (%i: int, %c: f64[2]) {
          %q: f64[2] = prim::If(%p) {
            %1: f64[2] = aten::add.Tensor(%c, %k)
            yield %1
          } else {
            yield %c
          }
          yield True, %q
        }
        yield %l
      } else {
        yield %k
      }
      return %y, %k
    }""")
    x = rng.standard_normal(2)
    np.testing.assert_allclose(interpret(graph, [np.array(True), x])[0], x + 9 * x)
    np.testing.assert_allclose(interpret(graph, [np.array(False), x])[0], 3 * x)


def test_sizes_that_only_the_run_tells(rng):
    graph = parse_graph("""graph @g(%x: f64[s0]) {
      %i: i64[u0, 1] = aten::nonzero(%x)
      %z: f64[u0 + 1] = aten::ones(size=[u0 + 1], dtype=f64)
      return %z
    }""")
    x = rng.standard_normal(6)
    x[: int(rng.integers(0, 6))] = 0
    assert interpret(graph, [x])[0].shape == (np.count_nonzero(x) + 1,)
