"""Regions of a program that is differentiated: what makes, reads and writes lists and dicts of tensors stands together,
and is run again, as a whole, where the program goes back (prim::gradients_of). So does what gives gradients that may be
undefined, where a backward is differentiated once more.
"""

from __future__ import annotations

from weft.ir.copies import Copy, stand_for
from weft.ir.graph import Block, Graph, Node, Value, values_in
from weft.ir.structure import GRADIENTS_OF, GROUPS
from weft.ops.op import OPS
from weft.passes.rebuild import rebuild, spliced
from weft.passes.scripted.entries import PRINT, SET_GRAD
from weft.passes.scripted.grad_modes import unrecorded
from weft.passes.scripted.memory import Memory, is_writer
from weft.support.errors import StateError
from weft.types.tensor_type import DictType, ListType, OptionalType, TensorType, TupleType, Type

REGION = GROUPS[0]
RANDOM_STATE = OPS["prim::random_state"]
_REPEATABLE = (RANDOM_STATE, SET_GRAD)  # (prints are left out)


def holds_tensors(kind: Type) -> bool:
    """Whether a value of the type is a list, dict or tuple with tensors in it."""
    if isinstance(kind, OptionalType):
        return holds_tensors(kind.inner)
    parts = (
        (kind.element,) if isinstance(kind, ListType) else (kind.value,) if isinstance(kind, DictType)
        else kind.elements if isinstance(kind, TupleType) else ()
    )
    return any(isinstance(p, TensorType) or _is_optional_tensor(p) or holds_tensors(p) for p in parts)


def _is_optional_tensor(kind: Type) -> bool:
    return isinstance(kind, OptionalType) and isinstance(kind.inner, TensorType)


def with_region(graph: Graph) -> Graph:
    """The graph with a region around all that has to do with containers of tensors, or writes containers. Raises
    StateError where it writes one that was given to it, or calls Python in between.
    """
    nodes = list(graph.nodes)
    if not any(map(_is_marked, nodes)):
        return graph
    memory = Memory(graph)
    _refuse_writes_outside(graph, memory)
    marked = [
        i for i, n in enumerate(nodes) if _is_marked(n) or n.op is SET_GRAD or _touches_what_is_written(n, memory)
    ]
    first, last, apart = marked[0], marked[-1], unrecorded(graph)
    inside = {i for i in range(first, last + 1) if i in marked or nodes[i] in apart or not _is_free(nodes[i])}
    following = _behind(nodes, first, last, inside)  # what hangs on the region
    inside |= following & _before(nodes, first, last, inside)
    outer = [i for i in range(first, last + 1) if i not in inside]
    body = [nodes[i] for i in sorted(inside)]
    before = [*nodes[:first], *(nodes[i] for i in outer if i not in following)]
    after = [*(nodes[i] for i in outer if i in following), *nodes[last + 1 :]]
    produced = {v for node in body for v in node.outputs}
    read = dict.fromkeys((*(v for node in after for v in node.needs()), *values_in(graph.results)))
    results = [v for v in read if v in produced]
    region = Node(REGION, (), tuple(v.type for v in results), (Block((), tuple(body), tuple(results)),), body[0].where)
    moved = Copy()
    stand_for(results, region.outputs, moved.values)
    rest = map(moved.node, after)
    block = Block(graph.params, (*before, region, *rest), tuple(map(moved.operand, graph.results)))
    return Graph(graph.name, block, graph.env)


def _is_marked(node: Node) -> bool:
    return any(_writes_container(one) for one in node.walk() if one is not node) or any(
        one.op is GRADIENTS_OF or any(holds_tensors(v.type) for v in (*one.needs(), *one.outputs))
        or (not one.blocks and any(_is_optional_tensor(v.type) for v in one.outputs))
        for one in node.walk()
    )


def _touches_what_is_written(node: Node, memory: Memory) -> bool:
    """Whether a node makes, reads or writes a container that is written somewhere: it is made anew in each run."""
    values = (v for n in node.walk() for v in (*n.needs(), *n.outputs))
    return any(isinstance(v.type, (ListType, DictType)) and memory.is_written(v) for v in values)


def _writes_container(node: Node) -> bool:
    target = node.args[0] if node.args else None
    return (
        node.op.host and is_writer(node) and node.op.effect == "io" and isinstance(target, Value)
        and isinstance(target.type, (ListType, DictType))
    )


def _is_free(node: Node) -> bool:
    """Whether a node may be moved out of the region."""
    return all(n.op.effect in ("pure", "raises") for n in node.walk())


def _behind(nodes: list[Node], first: int, last: int, inside: set[int]) -> set[int]:
    following: set[int] = set()
    produced: set[Value] = set()
    for i in range(first, last + 1):
        if i in inside or any(v in produced for v in nodes[i].needs()):
            following.add(i)
            produced.update(nodes[i].outputs)
    return following


def _before(nodes: list[Node], first: int, last: int, inside: set[int]) -> set[int]:
    preceding: set[int] = set()
    wanted: set[Value] = set()
    for i in range(last, first - 1, -1):
        if i in inside or any(v in wanted for v in nodes[i].outputs):
            preceding.add(i)
            wanted.update(nodes[i].needs())
    return preceding


def _refuse_writes_outside(graph: Graph, memory: Memory) -> None:
    written_params = [p for p in graph.params if isinstance(p.type, (ListType, DictType)) and memory.is_written(p)]
    for node in graph.walk():
        if written_params and _writes_container(node):
            raise StateError(
                f"differentiate: {node.op.name} may write %{written_params[0].name}, which was given to the "
                f"program{_line(node)}; copy it first"
            )
        if node.op.effect == "python":
            raise _without_derivative(node)


def refuse_effects(node: Node, within: bool = False) -> None:
    """Raise StateError where a node, or one in its blocks, does what may not be done twice. within: the node itself
    stands in a branch."""
    for one in node.walk():
        if not is_writer(one) or one.op in _REPEATABLE:
            continue
        if one is node and not within:
            raise _without_derivative(node)
        raise StateError(
            f"differentiate: {one.op.name} within a branch or loop is not run again for the backward{_line(one)}; "
            "move it out"
        )


def _without_derivative(node: Node) -> StateError:
    return StateError(f"differentiate: {node.op.name} has no derivative as a part of a graph{_line(node)}")


def _line(node: Node) -> str:
    return "" if node.where is None else f" (line {node.where.line})"


def without_regions(graph: Graph) -> Graph:
    """The graph with what stands in regions in their places."""
    return rebuild(
        graph, lambda builder, node, args: spliced(builder, node.blocks[0], ()) if node.op is REGION else None,
        keep_order=True,
    )


def silent(block: Block) -> Block:
    """A block without what it prints, for it is run again."""
    if not any(node.op is PRINT for node in block.walk()):
        return block
    graph = Graph("", block)
    return rebuild(graph, lambda builder, node, args: () if node.op is PRINT else None, keep_order=True).block
