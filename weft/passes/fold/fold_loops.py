"""fold_loops: what a Python loop left in a graph, node after node for each iteration, becomes a loop again.

Its bits are those of the unrolled nodes: an iteration computes what it computed, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.ir.builder import Builder
from weft.ir.graph import Graph, Node, Operand
from weft.passes.alias import ProvingEnv
from weft.passes.fold.loops import Folder, Unreadable, needed_rows
from weft.passes.fold.notes import LoopNote, note_of
from weft.passes.fold.plan import LoopPlan, NoLoop, Planner
from weft.passes.fold.repeats import Run, runs_of, tokens_of
from weft.support.knobs import knobs
from weft.types import shape_env

FEWEST = 6  # iterations
LEAST = 200  # nodes that a loop leaves out: what has fewer is soon compiled, and faster as few kernels
ALL = 3, 2  # the same where the knob `fold` says all


def fold_loops(graph: Graph, notes: list[LoopNote] | None = None) -> Graph:
    """The graph with loops in place of nodes that repeat. notes: gets what was folded, and what was not, and why."""
    fewest, least = ALL if knobs.fold == "all" else (FEWEST, LEAST)
    if knobs.fold == "off" or len(graph.nodes) < least:
        return graph
    leaves: list[list[Operand]] = []
    runs = sorted(runs_of(tokens_of(graph.nodes, leaves), fewest, least))
    refused: dict[Run, str] = {}
    while runs:
        planner = Planner(graph.block, leaves)
        with shape_env.using(ProvingEnv(graph.env)):
            loops = list(_planned(planner, runs, fewest, refused))
        try:
            folded = _folded(graph, planner, loops) if loops else graph
        except Unreadable as error:
            refused[error.loop.whole] = str(error)
            continue
        if notes is not None:
            notes += _notes(graph.nodes, loops, refused)
        return folded
    return graph


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
