"""`python -m weft opt FILE --pass NAME`: a pass on a graph in a file, and the text of what it makes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from weft.cli.failure import CommandError
from weft.ir.graph import Graph
from weft.ir.parser import parse_graphs
from weft.ir.printer import print_graph
from weft.ir.verifier import verify
from weft.jit.torchscript.graphs.from_text import parse_ir
from weft.jit.torchscript.inlining import inlined_among
from weft.passes.dce import dce
from weft.passes.decompose import decompose
from weft.passes.gather_as_mask import gather_as_mask
from weft.passes.legalize import complex_parts, legalize_matmul
from weft.passes.open_opaque import open_opaque
from weft.passes.pipeline import optimize
from weft.passes.scatter_rows import scatter_rows
from weft.passes.scatter_sums import scatter_sums
from weft.passes.scripted.batch_products import batch_products
from weft.passes.scripted.constants import propagate_constants
from weft.passes.scripted.cse import eliminate_common_subexpressions
from weft.passes.scripted.fold_cat import fold_cat
from weft.passes.scripted.functionalize import functionalize
from weft.passes.scripted.lists import lower_lists
from weft.passes.scripted.peephole import peephole
from weft.passes.scripted.shapes import propagate_shapes
from weft.passes.scripted.tuples import lower_tuples
from weft.passes.scripted.unroll import unroll
from weft.passes.simplify_views import simplify_views
from weft.passes.sum_windows import sum_windows
from weft.support.errors import ArgumentError, ParseError, VerifyError
from weft.support.knobs import nearest

SCRIPTED: dict[str, Callable[[Graph], Graph]] = {
    "batch_products": batch_products, "constant_propagation": propagate_constants,
    "cse": eliminate_common_subexpressions, "fold_cat": fold_cat, "functionalize": functionalize,
    "lower_lists": lower_lists,
    "lower_tuples": lower_tuples, "peephole": peephole,
    "shapes": lambda graph: propagate_shapes(graph, [p.type for p in graph.params]), "unroll": unroll,
}
CAPTURED: dict[str, Callable[[Graph], Graph]] = {
    "decompose": decompose, "gather_as_mask": gather_as_mask, "sum_windows": sum_windows,
    "complex_parts": complex_parts,
    "legalize_matmul": legalize_matmul,
    "open_opaque": open_opaque, "optimize": optimize, "scatter_rows": scatter_rows, "scatter_sums": scatter_sums,
    "simplify_views": simplify_views,
}
PASSES = {"dce": dce, **SCRIPTED, **CAPTURED}
INLINE = "inline"


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "opt", help="run passes on a graph in a file", description="Run passes on the text of a graph.",
        epilog=f"Passes: {', '.join(sorted((*PASSES, INLINE)))}. Those for captured programs ({', '.join(CAPTURED)}) "
        "refuse a graph that writes. inline takes the other graphs of the file for the functions that the first calls.",
    )
    parser.add_argument("file", help="the text, weft's or TorchScript's notation; - reads the standard input")
    parser.add_argument(
        "--pass", dest="passes", action="append", required=True, metavar="NAME", help="may be given several times"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what the passes make of the first graph."""
    names = (*PASSES, INLINE)
    for name in options.passes:
        if name not in names:
            raise CommandError(f"there is no pass {name!r}; there are {', '.join(sorted(names))}{nearest(name, names)}")
    graph, *others = _read(options.file)
    for name in options.passes:
        graph = verify(_applied(name, graph, others), f"after {name}")
    print(print_graph(graph))
    return 0


def _applied(name: str, graph: Graph, others: list[Graph]) -> Graph:
    if name == INLINE:
        try:
            return inlined_among(graph, others)
        except ArgumentError as error:
            raise CommandError(str(error)) from None
    writer = next((n for n in graph.walk() if n.op.writes is not None), None) if name in CAPTURED else None
    if writer is not None:
        raise CommandError(f"{name} is for captured programs: this one has {writer.op.name}, which writes in place")
    return PASSES[name](graph)


def _read(file: str) -> list[Graph]:
    """The graphs of a text. Raises CommandError with line and column."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        if text.lstrip().startswith("graph("):
            return [parse_ir(text).ir]
        graphs = [verify(g) for g in parse_graphs(text)]
    except (ParseError, VerifyError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: {error}") from None
    if not graphs:
        raise CommandError(f"{file}: there is no graph in it")
    return graphs
