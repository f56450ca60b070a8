"""Graphs as PyTorch prints them: nodes without results, options of factories, dtypes as numbers, lists written."""

import weft
import weft.jit

LISTS = """graph(%x.1 : Tensor,
      %n.1 : int):
  %f : Function = prim::Constant[name="relu"]()
  %2 : int = prim::Constant[value=0]()
  %3 : int = prim::Constant[value=1]()
  %4 : int = prim::Constant[value=-1]() # a.py:6:19
  %5 : bool = prim::Constant[value=1]() # a.py:5:4
  %none : NoneType = prim::Constant()
  %text : str = prim::Constant[value="AssertionError: no"]()
  %c : bool = aten::gt(%n.1, %4)
   = prim::If(%c) # a.py:4:4
    block0():
      -> ()
    block1():
       = prim::RaiseException(%text, %none) # a.py:4:4
      -> ()
  %l.1 : Tensor[] = prim::ListConstruct(%x.1)
   = prim::Loop(%n.1, %5) # a.py:5:4
    block0(%i.1 : int):
      %8 : Tensor = aten::__getitem__(%l.1, %4)
      %9 : Tensor = aten::add(%8, %i.1, %3)
      %10 : Tensor[] = aten::append(%l.1, %9)
      -> (%5)
  %11 : Tensor = aten::stack(%l.1, %2)
  return (%11)
"""
FACTORIES = """graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %three : int = prim::Constant[value=3]()
  %seven : int = prim::Constant[value=7]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %size : int[] = prim::ListConstruct(%three)
  %a : Tensor = aten::zeros(%size, %seven, %none, %none, %none)
  %b : Tensor = aten::arange(%three, %none, %none, %none, %none)
  %c : Tensor = aten::to(%x, %seven, %no, %no, %none)
  %d : Tensor = aten::contiguous(%c, %zero)
  %e : Tensor = aten::tensor(%size, %seven, %none, %no)
  %f : Tensor = aten::ones_like(%x, %none, %none, %none, %none, %none)
  %items : int[] = prim::ListConstruct(%one, %three)
  %set : int[] = aten::_set_item(%items, %zero, %seven)
  %most : int = prim::max(%items)
  %g : Tensor = aten::add(%a, %b, %one)
  %h : Tensor = aten::add(%g, %d, %one)
  %i : Tensor = aten::add(%h, %e, %one)
  %j : Tensor = aten::add(%i, %f, %most)
  return (%j)
"""


def test_nodes_without_results_and_lists_that_are_written() -> None:
    graph = weft.jit.parse_ir(LISTS)
    f = weft.jit.create_function_from_graph("f", graph)
    for n in (0, 3):
        expected = [[1.0], [1.0], [2.0], [4.0]][: n + 1]
        assert f(weft.ones(1), n).tolist() == expected
    assert str(weft.jit.parse_ir(str(graph))) == str(graph)


def test_options_of_factories() -> None:
    f = weft.jit.create_function_from_graph("f", weft.jit.parse_ir(FACTORIES))
    found = f(weft.ones(3))
    assert found.dtype == weft.float64 and found.tolist() == [11.0, 12.0, 13.0]
