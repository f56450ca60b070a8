"""The compiler's order on one page: what runs on a captured graph before it is grouped into kernels, and why there."""

from __future__ import annotations

from weft.ir.graph import Graph
from weft.passes.count_steps import count_picks, count_steps
from weft.passes.dce import dce
from weft.passes.decompose import decompose_parts
from weft.passes.effects import overlap
from weft.passes.fold.fold_loops import fold_loops
from weft.passes.fold.join_rows import join_rows
from weft.passes.gather_as_mask import gather_as_mask
from weft.passes.join_scatters import join_scatters
from weft.passes.legalize import complex_parts, distinct, legalize_matmul
from weft.passes.open_opaque import open_opaque, open_views
from weft.passes.own_memory import own_memory
from weft.passes.run import Run
from weft.passes.scatter_rows import scatter_rows
from weft.passes.scatter_sums import scatter_sums
from weft.passes.settle_sizes import settle_sizes
from weft.passes.simplify_views import UnneededViews, simplify_views
from weft.passes.sum_windows import sum_windows


def fold(graph: Graph, run: Run, folds: bool = True) -> Graph:
    """A captured graph with loops for what repeats: before work is spent on each iteration, be it a print of the graph
    as its program's key."""
    run.keep("captured", graph)
    graph = run.apply("dce", dce, graph)  # what the capture recorded and nobody reads
    if not folds:
        return graph
    # gradients of rows are opened before: they say which part of memory they belong to
    return run.apply("fold_loops", lambda graph: fold_loops(graph, run.loops, open_views), graph)


def optimize(graph: Graph, run: Run | None = None) -> Graph:
    """A captured graph made ready for a back end."""
    run = run or Run()
    return optimize_folded(fold(graph, run), run)


def optimize_folded(graph: Graph, run: Run, folds: bool = True) -> Graph:
    """The same of a graph that has been folded. folds: whether loops may still be made."""
    graph = run.apply("open_opaque", open_opaque, graph)  # shapes are known: backward formulas become operators
    run.keep("opened", graph)
    graph = run.apply("dce", dce, graph)  # gradients that turned out unused
    graph = run.apply("join_rows", join_rows, graph)  # lists of what loops gave, and their gradients
    if folds:  # what only formulas show to be alike
        graph = run.apply("fold_loops", lambda graph: fold_loops(graph, run.loops), graph)
    graph = run.apply("decompose", decompose_parts, graph)  # only scalar, reduce, view and kernel entries remain
    graph = run.apply("sum_windows", sum_windows, graph)  # gradients of windows that overlap
    # sums, scans and products of complex numbers: those of their parts
    graph = run.apply("complex_parts", complex_parts, graph)
    graph = run.apply("distinct", distinct, graph)  # by a sort
    graph = run.apply("decompose", decompose_parts, graph)  # what these are made with
    # half precisions and integers: the native product has two dtypes
    graph = run.apply("legalize_matmul", legalize_matmul, graph)
    # rules have asked what they ask: one name for each size (where that is a copy, it has no views that change nothing)
    graph = run.apply("settle_sizes", lambda graph: settle_sizes(graph, UnneededViews(graph).source), graph)
    graph = run.apply("simplify_views", simplify_views, graph)  # decompositions leave views that change nothing
    graph = run.apply("scatter_sums", scatter_sums, graph)  # gradients of slices: updates of a part, not sums of wholes
    graph = run.apply("join_scatters", join_scatters, graph)  # writes through views: of a part, in place
    graph = run.apply("gather_as_mask", gather_as_mask, graph)  # losses over classes: a pick that fuses with its rows
    graph = run.apply("scatter_rows", scatter_rows, graph)  # other writes at computed places: rows by number
    graph = run.apply("overlap", overlap, graph)  # messages: started early, waited for late
    graph = run.apply("own_memory", own_memory, graph)  # last, so that no view is put in front of its copies
    graph = run.apply("settle_sizes", settle_sizes, graph)  # what these passes asked
    graph = run.apply("dce", dce, graph)
    graph = run.apply("count_steps", count_steps, graph)  # loops over rows: only now is it sure which rows are read
    graph = run.apply("count_picks", count_picks, graph)  # sizes that masks decide, before what is picked
    run.refuse_unknown_names()
    return run.keep("optimized", graph)
