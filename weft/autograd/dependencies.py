"""Which nodes a backward call comes to, and how many gradients each waits for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.node import Edge, Node


def runs_on_nothing(node: Node) -> bool:
    """Custom Functions materialise missing gradients themselves."""
    return bool(getattr(node, "runs_on_nothing", False))


def count_dependencies(roots: list[Node], border: Collection[Edge]) -> dict[Node, int]:
    """For each node behind the roots, how many edges lead to it; edges at the border count as none."""
    counts: dict[Node, int] = dict.fromkeys(roots, 0)
    stack = list(counts)
    while stack:
        for edge in stack.pop().edges:
            if edge is None or (border and edge in border):
                continue
            target = edge[0]
            if target in counts:
                counts[target] += 1
            else:
                counts[target] = 1
                stack.append(target)
    return counts


def present(edges: tuple[Edge | None, ...]) -> tuple[bool, ...]:
    """Which edges there are."""
    return (True,) * len(edges) if None not in edges else tuple([e is not None for e in edges])


def between(roots: list[Node], walk: Any) -> tuple[dict[Node, int], set[Node]]:
    """The nodes on the ways from the roots to those that a walk is asked for, both included, with how many edges of
    such ways lead to each (edges at its border count as none); and those of them that must run so that gradients arrive
    at what is asked for behind them.

    A node is made after those that its edges lead to: nothing that is older than all targets is looked at.
    """
    targets, border, runs = walk.asked, walk.border, walk.needed
    earliest = min(map(age, targets), default=0)
    reached: set[Node] = set(roots)
    stack = list(reached)
    while stack:
        node = stack.pop()
        if age(node) <= earliest:
            continue
        for edge in node.edges:
            if edge is not None and edge[0] not in reached and not (border and edge in border):
                reached.add(edge[0])
                stack.append(edge[0])
    counts = {node: 0 for node in reached if node in targets}
    ways_of: dict[Node, list[Edge]] = {}
    is_cut = False  # whether there is a node that no way leads on from, though its edges do
    for node in sorted(reached, key=age):
        ways = [edge for edge in node.edges if edge is not None and (edge[0] in counts or edge[0] in targets)]
        if any([walk.leads(edge) for edge in ways]):  # (all, so that younger nodes ask no further than the next)
            runs.add(node)
            counts.setdefault(node, 0)
            ways_of[node] = [edge for edge in ways if not (border and edge in border)]
            for edge in ways_of[node]:
                counts[edge[0]] += 1
        elif ways:
            is_cut = True
    if is_cut:
        _leave_out(roots, counts, runs, ways_of)
    return counts, runs


def _leave_out(
    roots: list[Node], counts: dict[Node, int], runs: set[Node], ways_of: dict[Node, list[Edge]]
) -> None:
    """Take away the nodes that no way from a root comes to: nothing waits for them."""
    met = set(roots)
    for node in reversed(ways_of):  # from the youngest
        if node in met:
            met.update([edge[0] for edge in ways_of[node]])
            continue
        runs.discard(node)
        if not counts[node]:
            del counts[node]
        for edge in ways_of[node]:
            counts[edge[0]] -= 1


def age(node: Node) -> int:
    """A number that is smaller than those of the nodes whose edges lead to this one."""
    return -1 if isinstance(node, AccumulateGrad) else node.sequence


def nodes_within(roots: Sequence[Any]) -> set[Node]:
    """Those of the nodes that edges of the graph behind them lead to (None stands for none)."""
    targets: set[Node] = set()
    starts = dict.fromkeys(node for node in roots if node is not None)
    stack = list(starts)
    seen = set(stack)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None:
                targets.add(edge[0])
                if edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])
    return targets & starts.keys()


def nodes_behind(
    roots: Sequence[Any], ends: Mapping[Edge, Any] = MappingProxyType({}), without: Collection[tuple[Node, int]] = ()
) -> dict[Node, None]:
    """The nodes of the graph behind some, in the order in which a walk comes upon them. roots: nodes, or edges: behind
    an edge is only what the gradient of that result flows into, not what other results of a node depend on. ends:
    edges that the walk leaves; without: others, by the node that they begin at and their number there."""
    nodes: dict[Node, None] = {}
    stack = list(roots)
    seen = set(stack)
    while stack:
        place = stack.pop()
        by_result = isinstance(place, tuple)
        node = place[0] if by_result else place
        nodes[node] = None
        for i, edge in enumerate(node.edges_of(place[1]) if by_result else node.edges):
            following = edge if by_result or edge is None else edge[0]
            if edge is not None and following not in seen and edge not in ends and (node, i) not in without:
                seen.add(following)
                stack.append(following)
    return nodes
