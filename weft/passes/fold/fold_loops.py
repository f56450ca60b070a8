"""fold_loops: what a Python loop left in a graph, node after node for each iteration, becomes a loop again.

Its bits are those of the unrolled nodes: an iteration computes what it computed, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand
from weft.passes.alias import ProvingEnv
from weft.passes.fold.joins import joins_many
from weft.passes.fold.loop_plan import LoopPlan, NoLoop
from weft.passes.fold.loops import Folder, Unreadable, needed_rows
from weft.passes.fold.notes import LoopNote, note_of
from weft.passes.fold.order import gathered
from weft.passes.fold.plan import Planner
from weft.passes.fold.repeats import Run, runs_of, tokens_of
from weft.support.knobs import knobs
from weft.types import shape_env

FEWEST = 6  # iterations
LEAST = 200  # nodes that a loop leaves out: what has fewer is soon compiled, and faster as few kernels
ALL = 3, 2  # the same where the knob `fold` says all


class Repeats(NamedTuple):
    """What repeats in a graph. arranged: the graph with its nodes in the order in which most repeats; leaves: the
    values and numbers of each."""

    arranged: Graph
    leaves: Sequence[list[Operand]]
    runs: Sequence[Run]


def fold_loops(
    graph: Graph, notes: list[LoopNote] | None = None, prepare: Callable[[Graph], Graph] | None = None
) -> Graph:
    """The graph with loops in place of nodes that repeat. notes: gets what was folded, and what was not, and why.
    prepare: a pass over a graph in which something repeats, before loops are made of it."""
    fewest, least = ALL if knobs.fold == "all" else (FEWEST, LEAST)
    if knobs.fold == "off" or len(graph.nodes) < least:
        return graph
    repeats = _repeats(graph, fewest, least)
    if prepare is not None and repeats.runs:
        prepared = prepare(graph)
        if prepared is not graph:
            graph, repeats = prepared, _repeats(prepared, fewest, least)
    refused: dict[Run, str] = {}
    has_joins = any(map(joins_many, graph.nodes))
    while repeats.runs or has_joins:
        planner = Planner(repeats.arranged.block, repeats.leaves)
        with shape_env.using(ProvingEnv(graph.env)):
            loops = list(_planned(planner, repeats.runs, fewest, refused))
        try:
            folded = _folded(repeats.arranged, planner, loops) if loops or has_joins else graph
        except Unreadable as error:
            refused[error.loop.whole] = str(error)
            continue
        if notes is not None:
            notes += _notes(repeats.arranged.nodes, loops, refused)
        return folded
    return graph


def _repeats(graph: Graph, fewest: int, least: int) -> Repeats:
    """What repeats in a graph often enough that loops are made of it."""
    leaves: list[list[Operand]] = []
    tokens = tokens_of(graph.nodes, leaves)
    runs = sorted(runs_of(tokens, fewest, least))
    order = None if graph.env.has_unbacked else gathered(graph.block, leaves, tokens, runs, fewest, least)
    if order is None:
        return Repeats(graph, leaves, runs)
    others = sorted(runs_of(tokens[order], fewest, least))
    if _left_out(others) - len(others) <= _left_out(runs) - len(runs):
        return Repeats(graph, leaves, runs)
    block = Block(graph.params, tuple([graph.nodes[i] for i in order]), graph.results)
    arranged = Graph(graph.name, block, graph.env, graph.writes)
    return Repeats(arranged, [leaves[i] for i in order], others)


def _left_out(runs: Sequence[Run]) -> int:
    """How many nodes loops in the place of runs leave out."""
    return sum((run.iterations - 1) * run.period for run in runs)


def _planned(planner: Planner, runs: Sequence[Run], fewest: int, refused: dict[Run, str]) -> Iterator[LoopPlan]:
    """A loop for each run that is one."""
    for run in runs:
        if run in refused:
            continue
        try:
            yield planner.plan(run, fewest)
        except NoLoop as error:
            refused[run] = str(error)


def _folded(graph: Graph, planner: Planner, loops: Sequence[LoopPlan]) -> Graph:
    needs = needed_rows(planner, loops, graph.results)
    builder = Builder(graph.name, graph.env)
    builder.params = list(graph.params)
    with builder.active():
        folder = Folder(builder, planner, needs)
        folder.fold(loops)
        results = tuple([folder.outer(r) for r in graph.results])
    return builder.graph(results, graph.writes)


def _notes(nodes: Sequence[Node], loops: Sequence[LoopPlan], refused: dict[Run, str]) -> Iterator[LoopNote]:
    for loop in loops:
        yield note_of(nodes, loop.run)
    for run, why in refused.items():
        yield note_of(nodes, run, why)
