"""Rebuilding: walk a graph's blocks in order and re-emit each node into a fresh builder, changed where a pass wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value, map_operand

Env = dict[Value, Operand]
# Called with (builder, node, mapped arguments); returns the operands that stand for the node's results, or None to keep the node.
Rewrite = Callable[[Builder, Node, tuple[Operand, ...]], "tuple[Operand, ...] | None"]


def rebuild(graph: Graph, rewrite: Rewrite) -> Graph:
    """The graph with `rewrite` offered every node. The same object comes back when nothing changed."""
    changed = [False]
    builder = Builder(graph.name, graph.env)
    env: Env = {}
    for p in graph.params:
        fresh = builder.param(p.type, p.name)
        env[p] = fresh
    with builder.active():
        for node in graph.nodes:
            _emit(builder, node, env, rewrite, changed)
    results = tuple(map_operand(r, env) for r in graph.results)
    if not changed[0] and len(builder.nodes) == len(graph.nodes):
        return graph
    return builder.graph(results, graph.writes)


def _emit(builder: Builder, node: Node, env: Env, rewrite: Rewrite, changed: list[bool]) -> None:
    args = tuple([map_operand(a, env) for a in node.args])
    builder.where = node.where
    replaced = rewrite(builder, node, args)
    if replaced is not None:
        changed[0] = True
        for old, new in zip(node.outputs, replaced):
            env[old] = new
            if type(new) is Value and old.name and not new.name:
                new.name = old.name
        return
    blocks = tuple(_block(builder, b, env, rewrite, changed) for b in node.blocks)
    fresh = builder.emit_like(node, args, blocks) if not blocks else builder.emit_raw(
        node.op, args, tuple(v.type for v in node.outputs), blocks, node.where)
    env.update(zip(node.outputs, fresh.outputs))


def _block(builder: Builder, block: Block, env: Env, rewrite: Rewrite, changed: list[bool]) -> Block:
    with builder.inner() as inner:
        scope = dict(env)
        for p in block.params:
            scope[p] = inner.param(p.type, p.name)
        for node in block.nodes:
            _emit(inner, node, scope, rewrite, changed)
        return inner.block(tuple(map_operand(r, scope) for r in block.results))


def results_of(builder: Builder, outcome: Any) -> tuple[Operand, ...]:
    """Operands of what a rule returned (a handle, or a tuple of them)."""
    if type(outcome) in (tuple, list):
        return tuple(builder.operand(o) for o in outcome)
    return (builder.operand(outcome),)
