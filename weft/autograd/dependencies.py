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


def reaching(targets: set[Node], nodes: dict[Node, int]) -> dict[Node, bool]:
    """Which nodes must run so that gradients arrive at the targets (a target itself only if another
    target lies behind it)."""
    runs: dict[Node, bool] = {}
    for node in sorted(nodes, key=_topological):
        runs[node] = any(e is not None and (e[0] in targets or runs.get(e[0], False)) for e in node.edges)
    return runs


def _topological(node: Node) -> int:
    return -1 if isinstance(node, AccumulateGrad) else node.sequence


def nodes_behind(roots: Sequence[Any], ends: Mapping[Edge, Any] = MappingProxyType({})) -> dict[Node, None]:
    """The nodes of the graph behind some, in the order in which a walk comes upon them. ends: edges that it leaves."""
    found: dict[Node, None] = {}
    stack = list(roots)
    seen = set(stack)
    while stack:
        node = stack.pop()
        found[node] = None
        for edge in node.edges:
            if edge is not None and edge[0] not in seen and edge not in ends:
                seen.add(edge[0])
                stack.append(edge[0])
    return found
