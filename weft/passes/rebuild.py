"""Rebuilding: walk a graph's blocks in order and re-emit each node into a fresh builder,
changed where a pass wants it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import weft.catalogue  # noqa: F401  # defines the operators that rules are entered for
from weft.ir.builder import Builder
from weft.ir.copies import fitted_block, same_operands
from weft.ir.graph import Block, Graph, Node, Operand, Value, map_operands
from weft.ops.op import Op
from weft.ops.packet import Packet

Env = dict[Value, Operand]
# Called with (builder, node, mapped arguments); returns the operands that stand for the node's results,
# or None to keep the node.
Rewrite = Callable[[Builder, Node, tuple[Operand, ...]], "tuple[Operand, ...] | None"]
# Called with (builder, node, arguments) for nodes with blocks and (builder, block, results) for those; returns what is
# to take the operands' place.
Border = Callable[[Builder, "Node | Block", tuple[Operand, ...]], tuple[Operand, ...]]


def rebuild(
    graph: Graph, rewrite: Rewrite, wants: Callable[[Node], bool] | None = None, border: Border | None = None,
    builder: Builder | None = None,
) -> Graph:
    """The graph with `rewrite` offered every node that it `wants` (all, if not given), and `border` what goes into and
    out of blocks. The same object comes back when nothing changed. builder: an empty one, that emits in its own way.

    Nodes whose arguments did not change are taken over as they are: only what a rewrite touched, and what depends on
    it, is emitted anew.
    """
    if border is None and wants is not None and not any(wants(n) for n in graph.walk()):
        return graph
    changed = [False]
    builder = builder or Builder(graph.name, graph.env)
    builder.params = list(graph.params)
    env = builder.replaced
    with builder.active():
        for node in graph.nodes:
            _emit(builder, node, env, rewrite, wants, border, changed)
    if not changed[0]:
        return graph
    return builder.graph(map_operands(graph.results, env), graph.writes)


def rewrite_operators(
    graph: Graph, rewrite: Rewrite, concerns: Callable[[Op], bool], builder: Builder | None = None
) -> Graph:
    """The graph with `rewrite` offered the nodes of those operators that it `concerns`. builder: as in rebuild."""
    concerned = frozenset(filter(concerns, graph.block.operators()))
    return rebuild(graph, rewrite, lambda node: node.op in concerned, builder=builder) if concerned else graph


def append(builder: Builder, block: Block, env: Env) -> tuple[Operand, ...]:
    """Take a block's nodes over into a builder, with operands in place of values, and give its results."""
    for node in block.nodes:
        _emit(builder, node, env, lambda builder, node, args: None, lambda node: False, None, [False])
    return map_operands(block.results, env)


def with_values(graph: Graph, places: Mapping[Value, Value]) -> Graph:
    """The graph where others read these values in the place of those: parameters of the graph, for what its nodes
    compute."""
    if not places:
        return graph
    builder = Builder(graph.name, graph.env)
    builder.params = list(graph.params)
    env = builder.replaced
    env.update(places)
    with builder.active():
        for node in graph.nodes:
            _emit(builder, node, env, lambda builder, node, args: None, lambda node: False, None, [False])
            env.update((v, places[v]) for v in node.outputs if v in places)
    return builder.graph(map_operands(graph.results, env), graph.writes)


def _emit(
    builder: Builder, node: Node, env: Env, rewrite: Rewrite, wants: Callable[[Node], bool] | None,
    border: Border | None, changed: list[bool],
) -> None:
    args = map_operands(node.args, env) if env else node.args
    if wants is None or wants(node):
        builder.where = node.where
        if builder.env.has_unbacked:
            with builder.keeping_sizes(node):
                replaced = rewrite(builder, node, args)
        else:
            replaced = rewrite(builder, node, args)
        if replaced is not None:
            changed[0] = True
            for old, new in zip(node.outputs, replaced, strict=False):
                if new is old:
                    continue
                env[old] = new
                if type(new) is Value and old.name and not new.name:
                    new.name = old.name
            return
    if not node.blocks and args is node.args:
        adopted = builder.adopt(node)
        if adopted is not node:
            changed[0] = True
            env.update(zip(node.outputs, adopted.outputs, strict=True))
        return
    if node.blocks and border is not None:
        mapped, args = args, border(builder, node, args)
        changed[0] = changed[0] or not same_operands(mapped, args)
    blocks = tuple(_block(builder, b, env, rewrite, wants, border, changed) for b in node.blocks)
    if blocks and same_operands(blocks, node.blocks) and same_operands(args, node.args):
        builder.nodes.append(node)
        return
    fresh = builder.emit_like(node, args) if not blocks else builder.emit_raw(
        node.op, args, tuple(v.type for v in node.outputs), blocks, node.where)
    env.update(zip(node.outputs, fresh.outputs, strict=True))


def _block(
    builder: Builder, block: Block, env: Env, rewrite: Rewrite, wants: Callable[[Node], bool] | None,
    border: Border | None, changed: list[bool],
) -> Block:
    # a constant may stand outside of the block, unless it has a size that only the block finds
    with builder.inner() as inner, inner.active() if inner.env.has_unbacked else nullcontext():
        inner.params = list(block.params)
        scope = inner.replaced = dict(env)
        for node in block.nodes:
            _emit(inner, node, scope, rewrite, wants, border, changed)
        results = map_operands(block.results, scope)
        if border is not None:
            mapped, results = results, border(inner, block, results)
            changed[0] = changed[0] or not same_operands(mapped, results)
        return block if fitted_block(block, inner.nodes, results) is block else inner.block(results)


class Rewrites:
    """Rewrites of one pass by operator: a table that each rule enters itself into.

        legalize_matmul = Rewrites()

        @legalize_matmul.of(aten.mm, aten.bmm)
        def _product(builder, node, args): ...
    """

    def __init__(self, wants: Callable[[Node], bool] = lambda node: True) -> None:
        self._rules: dict[Op, Rewrite] = {}
        self._wants = wants

    def of(self, *operators: Packet) -> Callable[[Rewrite], Rewrite]:
        """Enter a rule for operators, all of their overloads or one: `aten.add`, `aten.add.Tensor`."""

        def enter(rule: Rewrite) -> Rewrite:
            self._rules.update((op, rule) for packet in operators for op in packet.overloads)
            return rule

        return enter

    def __call__(self, graph: Graph) -> Graph:
        """The graph with the rules applied."""
        rules, wants = self._rules, self._wants
        if rules.keys().isdisjoint(graph.block.operators()):
            return graph
        return rebuild(
            graph, lambda builder, node, args: rules[node.op](builder, node, args),
            lambda node: node.op in rules and wants(node),
        )


def results_of(builder: Builder, outcome: Any) -> tuple[Operand, ...]:
    """Operands of what a rule returned (a handle, or a tuple of them)."""
    if type(outcome) in (tuple, list):
        return tuple(builder.operand(o) for o in outcome)
    return (builder.operand(outcome),)
