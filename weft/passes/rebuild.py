"""Rebuilding: walk a graph's blocks in order and re-emit each node into a fresh builder,
changed where a pass wants it.

A graph of a script has writes: `keep_order` takes its nodes over as they stand. No two equal ones become one, since a
write may lie between them, and no type is inferred anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import weft.catalogue  # noqa: F401  # defines the operators that rules are entered for
from weft.ir.builder import Builder
from weft.ir.copies import Copy, fitted, fitted_block, same_operands
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
Enter = Callable[[Node], None]
Same = Callable[[Value, Value], None]


def rebuild(
    graph: Graph, rewrite: Rewrite, wants: Callable[[Node], bool] | None = None, border: Border | None = None,
    builder: Builder | None = None, *, keep_order: bool = False, enter: Enter | None = None, same: Same | None = None,
) -> Graph:
    """The graph with `rewrite` offered every node that it `wants` (all, if not given), and `border` what goes into and
    out of blocks. The same object comes back when nothing changed. builder: an empty one, that emits in its own way.

    Nodes whose arguments did not change are taken over as they are: only what a rewrite touched, and what depends on
    it, is emitted anew.

    keep_order: a node is offered with its arguments mapped and its blocks rebuilt, and what is emitted (`emit_raw`)
    stands where it was. enter: is told of each node before its blocks are walked. same: of each value that takes the
    place of another (Memory.same, for a pass that asks what is written).
    """
    if border is None and wants is not None and not any(wants(n) for n in graph.walk()):
        return graph
    builder = builder or Builder(graph.name, graph.env)
    builder.params = list(graph.params)
    env = builder.replaced
    walk = _InOrder(rewrite, enter, same) if keep_order else _Rebuilding(rewrite, wants, border)
    with builder.active():
        for node in graph.nodes:
            walk.node(builder, node, env)
    if not walk.changed:
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
    walk = _taking_over()
    for node in block.nodes:
        walk.node(builder, node, env)
    return map_operands(block.results, env)


def spliced(builder: Builder, block: Block, params: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """Append copies of a block's nodes as they stand, with operands for its parameters. Returns what stands for its
    results."""
    copy = Copy(dict(zip(block.params, params, strict=True)))
    builder.nodes += map(copy.node, block.nodes)
    return tuple(map(copy.operand, block.results))


def with_values(graph: Graph, places: Mapping[Value, Value]) -> Graph:
    """The graph where others read these values in the place of those: parameters of the graph, for what its nodes
    compute."""
    if not places:
        return graph
    builder = Builder(graph.name, graph.env)
    builder.params = list(graph.params)
    env = builder.replaced
    env.update(places)
    walk = _taking_over()
    with builder.active():
        for node in graph.nodes:
            walk.node(builder, node, env)
            env.update((v, places[v]) for v in node.outputs if v in places)
    return builder.graph(map_operands(graph.results, env), graph.writes)


class _Rebuilding:
    """One walk through a graph's blocks. changed: whether anything is another than it was."""

    def __init__(
        self, rewrite: Rewrite, wants: Callable[[Node], bool] | None = None, border: Border | None = None
    ) -> None:
        self.rewrite, self.wants, self.border = rewrite, wants, border
        self.changed = False

    def node(self, builder: Builder, node: Node, env: Env) -> None:
        """Emit a node, or what takes its place. env: what stands for values; gains the node's results."""
        args = map_operands(node.args, env) if env else node.args
        if self.wants is None or self.wants(node):
            builder.where = node.where
            if builder.env.has_unbacked:
                with builder.keeping_sizes(node):
                    replaced = self.rewrite(builder, node, args)
            else:
                replaced = self.rewrite(builder, node, args)
            if replaced is not None:
                self.replace(node, replaced, env)
                return
        if not node.blocks and args is node.args:
            adopted = builder.adopt(node)
            if adopted is not node:
                self.changed = True
                env.update(zip(node.outputs, adopted.outputs, strict=True))
            return
        if node.blocks and self.border is not None:
            mapped, args = args, self.border(builder, node, args)
            self.changed = self.changed or not same_operands(mapped, args)
        blocks = tuple([self.block(builder, b, env) for b in node.blocks])
        if blocks and same_operands(blocks, node.blocks) and same_operands(args, node.args):
            builder.nodes.append(node)
            return
        fresh = builder.emit_like(node, args) if not blocks else builder.emit_raw(
            node.op, args, tuple(v.type for v in node.outputs), blocks, node.where)
        env.update(zip(node.outputs, fresh.outputs, strict=True))

    def replace(self, node: Node, replacements: tuple[Operand, ...], env: Env) -> None:
        """Let operands stand for a node's results, and take over their names."""
        self.changed = True
        for old, new in zip(node.outputs, replacements, strict=False):
            if new is old:
                continue
            env[old] = new
            if type(new) is Value and old.name and not new.name:
                new.name = old.name

    def block(self, builder: Builder, block: Block, env: Env) -> Block:
        """The block, rebuilt; itself where nothing in it is another."""
        # a constant may stand outside of the block, unless it has a size that only the block finds
        with builder.inner() as inner, inner.active() if inner.env.has_unbacked else nullcontext():
            inner.params = list(block.params)
            scope = inner.replaced = dict(env)
            for node in block.nodes:
                self.node(inner, node, scope)
            results = map_operands(block.results, scope)
            if self.border is not None:
                mapped, results = results, self.border(inner, block, results)
                self.changed = self.changed or not same_operands(mapped, results)
            return block if fitted_block(block, inner.nodes, results) is block else inner.block(results)


class _InOrder(_Rebuilding):
    """The walk that keeps each node where it stands."""

    def __init__(self, rewrite: Rewrite, enter: Enter | None, same: Same | None) -> None:
        super().__init__(rewrite)
        self.enter, self.same = enter, same

    def node(self, builder: Builder, node: Node, env: Env) -> None:
        """Emit a node, or what takes its place."""
        args = map_operands(node.args, env) if env else node.args
        if self.enter is not None:
            self.enter(node)
        current = fitted(node, args, tuple([self.block(builder, b, env) for b in node.blocks]))
        if current is not node:
            self._note(node, current.outputs)
        builder.where = node.where
        replaced = self.rewrite(builder, current, args)
        if replaced is not None:
            self._note(node, replaced)
            self.replace(node, replaced, env)
            return
        builder.nodes.append(current)
        if current is not node:
            env.update(zip(node.outputs, current.outputs, strict=True))

    def _note(self, node: Node, replacements: tuple[Operand, ...]) -> None:
        if self.same is not None:
            for old, new in zip(node.outputs, replacements, strict=True):
                if isinstance(new, Value):
                    self.same(old, new)


def _taking_over() -> _Rebuilding:
    """A walk that changes nothing but operands."""
    return _Rebuilding(lambda builder, node, args: None, lambda node: False)


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
