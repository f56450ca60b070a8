"""shape_analysis: what a program's tensors are for given examples, written into its graph."""

from __future__ import annotations

from typing import Any

from weft.ir import graph as core
from weft.jit.program import Program
from weft.jit.torchscript.graph import Graph
from weft.ops.op import OPS
from weft.passes.scripted.shapes import propagate_shapes
from weft.support.errors import ArgumentError
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import ClassType, TensorType, TupleType, Type, tensor_type, tuple_of

_CALLS = tuple(OPS[f"prim::{name}"] for name in ("CallFunction", "CallMethod"))
_PYTHON, _BUILTIN = OPS["prim::PythonOp"], OPS["prim::CallBuiltin"]


def shape_analysis(graph: Graph, example: Any) -> Graph:
    """Annotate a graph's values with what they are for these examples: dtype, rank and sizes, as far as they are the
    same in every run with arguments of the examples' types. Branches are joined, loops gone through to a fixpoint.

    example: a value for each parameter (one that is no tuple or list stands for the only one); a Module's `self` may be
    left out. In place of a tensor its type may stand (`x.type()`). The graph gets types of its own, the program that it
    was taken from keeps its; the same object is given back. Raises ArgumentError for a wrong count.
    """
    examples = list(example) if isinstance(example, (tuple, list)) else [example]
    params = graph.ir.params
    if len(params) == len(examples) + 1 and isinstance(params[0].type, ClassType):
        examples.insert(0, params[0].type)
    if len(params) != len(examples):
        raise ArgumentError(
            f"shape_analysis: the graph has {len(params)} parameters, there are {len(examples)} examples"
        )
    types = [_type_of_example(x, p.type) for x, p in zip(examples, params, strict=True)]
    graph.replace(propagate_shapes(graph.ir, types, lambda node: _may_resize(node, graph.program, set())))
    return graph


def _type_of_example(value: Any, declared: Type) -> Type:
    """The type of a value, as far as it says more than the graph does."""
    if isinstance(value, Type):
        return value if value.is_subtype_of(declared) else declared
    if isinstance(value, Tensor):
        return tensor_type(value.dtype, tuple(value.shape), str(value.device))
    if isinstance(value, tuple) and isinstance(declared, TupleType) and not declared.name:
        return tuple_of(*(_type_of_example(v, d) for v, d in zip(value, declared.elements, strict=False)))
    return declared


def _may_resize(node: core.Node, program: Program | None, seen: set[int]) -> bool:
    """Whether a call may give a tensor that it gets other sizes: Python may, a program whose nodes do."""
    if node.op is _PYTHON:
        return any(isinstance(v.type, TensorType) for v in node.inputs())
    if node.op is _BUILTIN:  # `resize_`, `set_`: in place, and no operators
        return str(node.args[0]).endswith("_")
    if node.op not in _CALLS or program is None:
        return False
    for callee in program.functions.values():
        if id(callee) in seen or callee.graph is None:
            continue
        seen.add(id(callee))
        if any(_writes_view(n) or _may_resize(n, callee, seen) for n in callee.graph.walk()):
            return True
    return False


def _writes_view(node: core.Node) -> bool:
    return node.op.writes is not None and node.op.writes.view is not None
