"""partition: cut a joint graph into a forward and a backward graph, and choose what is saved between them.

What the backward half needs and does not itself depend on a tangent is saved: exactly the values that the opaque
backward calls name, so that cheap intermediates inside a formula are computed where they are used, never stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.passes.dce import dce
from weft.passes.effects import has_effect
from weft.passes.entry_sizes import bind_on_entry
from weft.passes.unbacked import unbacked_sizes


@dataclass(frozen=True)
class Halves:
    """forward: inputs -> results, then the saved values that are not inputs. backward: saved values,
    then tangents -> gradients.

    saved: the forward graph's values in the order of the backward graph's parameters
    (inputs of the program among them).
    sizes: symbols of the backward graph that stand for unbacked sizes of the forward: name -> the forward's name.
    """

    forward: Graph
    backward: Graph
    saved: tuple[Value, ...]
    sizes: dict[str, str] = field(default_factory=dict)


def partition(joint: Graph, results: int, tangents: int, start: int) -> Halves:
    """Cut: the joint graph's last `tangents` parameters are tangents, its results beyond the first
    `results` are gradients.

    start: how many nodes are the forward's; one with an effect that stands behind them happens in the backward,
    whatever it reads.
    """
    primals = joint.params[: len(joint.params) - tangents]
    seeds = joint.params[len(joint.params) - tangents :]
    gradients = joint.results[results:]
    late = _depending_on(joint.nodes, set(seeds), {n for n in joint.nodes[start:] if has_effect(n)})
    needed = _ancestors(late, gradients)
    saved = _saved(tuple(n for n in joint.nodes if n in needed), gradients, seeds)
    kept = tuple(v for v in saved if v not in primals)
    forward = dce(Graph(
        joint.name, Block(primals, tuple(n for n in joint.nodes if n not in late), (*joint.results[:results], *kept)),
        joint.env, joint.writes,
    ))
    backward = dce(Graph(
        f"{joint.name}_backward", Block((*saved, *seeds), tuple(n for n in joint.nodes if n in needed), gradients),
        joint.env,
    ))
    backward, sizes = bind_on_entry(backward, unbacked_sizes(forward.nodes))
    return Halves(forward, backward, saved, sizes)


def _depending_on(nodes: tuple[Node, ...], values: set[Value], late: set[Node]) -> set[Node]:
    """`late`, and every node that depends on one of them or on `values`."""
    for node in nodes:
        if node in late or any(v in values for v in node.needs()):
            late.add(node)
            values.update(node.outputs)
    return late


def _ancestors(late: set[Node], gradients: tuple[Operand, ...]) -> set[Node]:
    """The late nodes that the gradients need, and those with effects."""
    ancestors: set[Node] = set()
    stack = [v.node for r in gradients for v in values_in(r) if v.node in late]
    stack += [node for node in late if has_effect(node)]
    while stack:
        node = stack.pop()
        if node is None or node in ancestors:
            continue
        ancestors.add(node)
        stack.extend(v.node for v in node.needs() if v.node in late)
    return ancestors


def _saved(needed: tuple[Node, ...], gradients: tuple[Operand, ...], seeds: tuple[Value, ...]) -> tuple[Value, ...]:
    saved: dict[Value, None] = {}
    own = {v for n in needed for v in n.outputs} | set(seeds)
    for node in needed:
        for v in node.needs():
            if v not in own:
                saved[v] = None
    for r in gradients:
        for v in values_in(r):
            if v not in own:
                saved[v] = None
    return tuple(saved)
