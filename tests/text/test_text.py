"""Passes as text: each .ir file names a pass, and holds the graph before and after it.
WEFT_BLESS=1 writes what comes out, to be read before it is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import weft
import weft.distributed.entries
from tests.compare_graphs import difference
from weft.cli.opt import SCRIPTED
from weft.ir.graph import Graph
from weft.ir.parser import parse_graphs
from weft.ir.printer import print_graph
from weft.ir.verifier import verify
from weft.passes.count_steps import count_picks, count_steps
from weft.passes.dce import dce
from weft.passes.decompose import decompose
from weft.passes.effects import overlap
from weft.passes.fold.fold_loops import fold_loops
from weft.passes.fold.join_rows import join_rows
from weft.passes.gather_as_mask import gather_as_mask
from weft.passes.join_scatters import join_scatters
from weft.passes.legalize import complex_parts, distinct, legalize_matmul
from weft.passes.open_opaque import open_opaque, open_views
from weft.passes.own_memory import own_memory
from weft.passes.pipeline import optimize
from weft.passes.run import Run
from weft.passes.scatter_rows import scatter_rows
from weft.passes.scatter_sums import scatter_sums
from weft.passes.settle_sizes import settle_sizes
from weft.passes.simplify_views import simplify_views
from weft.passes.sum_windows import sum_windows
from weft.record.differentiate import differentiate


def _fold_all(graph: Graph) -> Graph:
    with weft.knobs(fold="all"):
        return fold_loops(graph)


PASSES = {
    "dce": dce, "decompose": decompose, "open_opaque": open_opaque, "simplify_views": simplify_views,
    "optimize": optimize, "differentiate": differentiate, "sum_windows": sum_windows,
    "complex_parts": complex_parts, "distinct": distinct, "legalize_matmul": legalize_matmul,
    "gather_as_mask": gather_as_mask, "scatter_rows": scatter_rows, "scatter_sums": scatter_sums,
    "settle_sizes": settle_sizes, "own_memory": own_memory, "overlap": overlap, "count_steps": count_steps,
    "count_picks": count_picks, "join_scatters": join_scatters, "open_views": open_views, "fold_loops": _fold_all,
    "join_rows": join_rows,
    **SCRIPTED,
}
FILES = sorted(Path(__file__).parent.glob("*.ir"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_pass(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head = text.splitlines()[0]
    name = head.removeprefix("# pass: ")
    before, *after = parse_graphs(text)
    verify(before)
    made = PASSES[name](before)
    verify(made, f"after {name}")
    if os.environ.get("WEFT_BLESS"):
        path.write_text(f"{head}\n{print_graph(before)}\n\n{print_graph(made)}\n", encoding="utf-8")
        return
    assert difference(made, after[0]) is None, f"{difference(made, after[0])}\n{made}"
    assert print_graph(made) == print_graph(after[0])
    again = PASSES[name](made) if name != "differentiate" else made
    assert again is made or difference(again, made) is None, f"a second run changes it again:\n{again}"


class _Named(Run):
    """Keeps the names of the passes that the pipeline runs."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def apply(self, name: str, *rest: Any) -> Any:
        self.names.add(name)
        return super().apply(name, *rest)


def test_there_is_a_text_for_each_pass() -> None:
    run = _Named()
    optimize(parse_graphs(FILES[0].read_text(encoding="utf-8"))[0], run)
    assert run.names <= set(PASSES), "the pipeline runs a pass that has no text"
    assert {p.read_text(encoding="utf-8").splitlines()[0].removeprefix("# pass: ") for p in FILES} == set(PASSES)
