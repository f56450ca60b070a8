"""Value numbers: equal for what is computed in the same way of the same, in several graphs, and for nothing else."""

from __future__ import annotations

import weft  # noqa: F401
from weft.ir.builder import Builder
from weft.ir.parser import parse_graph
from weft.ir.value_numbers import ValueNumbers
from weft.ops.packet import aten
from weft.support import limits
from weft.types import dtype as dt
from weft.types.dims import symbol
from weft.types.tensor_type import tensor_type

VECTOR = tensor_type(dt.float64, (3,))
ADD = aten.add.Tensor.op


def numbers_of(graph, table, inputs, symbols=None):
    """The numbers of a graph's values, by their names."""
    numbers = dict(zip(graph.params, inputs, strict=True))
    for node in graph.nodes:
        table.number(node, numbers, {} if symbols is None else symbols)
    return [numbers[v] for node in graph.nodes for v in node.outputs]


def test_graphs_share_what_they_compute_in_the_same_way():
    table = ValueNumbers()
    x, y = table.of_key("x"), table.of_key("y")
    one = parse_graph("""graph @one(%x: f64[3], %y: f64[3]) {
      %a: f64[3] = aten::exp(%x)
      %b: f64[3] = aten::mul.Tensor(%a, %y)
      return %b
    }""")
    other = parse_graph("""graph @other(%q: f64[3], %p: f64[3]) {
      %k: f64[3] = aten::neg(%p)
      %l: f64[3] = aten::exp(%p)
      %m: f64[3] = aten::mul.Tensor(%l, %q)
      %n: f64[3] = aten::mul.Tensor(%q, %l)
      return %k, %m, %n
    }""")
    a, b = numbers_of(one, table, [x, y])
    k, exp_of_p, product, reverse = numbers_of(other, table, [y, x])
    assert (a, b) == (exp_of_p, product) and len({a, b, k, reverse, x, y}) == 6


def scaled(*factors):
    b = Builder("scaled")
    x = b.param(VECTOR, "x")
    return b.graph([b.emit_raw(ADD, (x, x, factor), (VECTOR,)).output for factor in factors])


def test_numbers_of_other_types_and_signs_are_others():
    table = ValueNumbers()
    numbers = numbers_of(scaled(1, 1.0, True, 0.0, -0.0, 1), table, [table.of_key("x")])
    assert len(set(numbers)) == 5 and numbers[0] == numbers[-1]


def test_sizes_are_known_by_what_they_are():
    table = ValueNumbers()
    x, first, second = table.of_key("x"), table.of_key("size 0"), table.of_key("size 1")
    graph = scaled(symbol("s0") + 1)
    assert numbers_of(graph, table, [x], {"s0": first}) == numbers_of(graph, table, [x], {"s0": first})
    assert numbers_of(graph, table, [x], {"s0": first}) != numbers_of(graph, table, [x], {"s0": second})
    assert numbers_of(graph, table, [x]) != numbers_of(graph, table, [x])  # nobody says what it is


def test_what_has_blocks_is_like_nothing_else():
    graph = parse_graph("""graph @g(%p: b1[], %x: f64[3]) {
      %y: f64[3] = prim::If(%p) { yield %x } else { yield %x }
      return %y
    }""")
    table = ValueNumbers()
    assert numbers_of(graph, table, [0, 1]) != numbers_of(graph, table, [0, 1])


class Thing:
    """Something with an identity."""


def test_objects_have_numbers_while_they_live(monkeypatch):
    table = ValueNumbers()
    things = [Thing() for _ in range(100)]
    numbers = [table.of_object(thing) for thing in things]
    assert numbers == [table.of_object(thing) for thing in things] and len(set(numbers)) == 100
    del things
    assert not {table.of_object(thing) for thing in [Thing() for _ in range(100)]} & set(numbers)


def test_a_full_table_never_gives_a_number_twice(monkeypatch):
    monkeypatch.setattr(limits, "VALUE_NUMBERS", 3)
    table = ValueNumbers()
    numbers = [table.of_key(i) for i in range(10)]
    assert len(set(numbers)) == 10 and table.of_key(9) == numbers[9] and table.of_key(0) not in numbers
