"""A check for tests: a graph that is found by a backward call's structure is the graph that recording it anew gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from weft.compiled_autograd.recording import Recording, record
from weft.compiled_autograd.structure import Structure
from weft.ir.printer import print_graph

FIELDS = ("owners", "stages", "order", "runs", "ends", "taken", "expected", "programs", "without", "edges", "kind")
MOST = 4  # comparisons of one graph


@contextmanager
def compared() -> Iterator[list[int]]:
    """Within the block a graph that is found in the cache is compared with one that is recorded anew, the first few
    times (a graph has cycles, and is no garbage where nobody collects it). Gives how many nodes each of all walks had.
    """
    walks: list[int] = []
    times: Counter[Recording] = Counter()
    fits = Recording.fits

    def checked(self: Recording, structure: Structure, patterns: Mapping[int, Any]) -> bool:
        if not fits(self, structure, patterns):
            return False
        walks.append(len(structure.nodes))
        times[self] += 1
        if times[self] > MOST:
            return True
        anew = record(structure, patterns)
        assert print_graph(self.graph, locations=False) == print_graph(anew.graph, locations=False)
        for name in FIELDS:
            assert getattr(self, name) == getattr(anew, name), name
        return True

    Recording.fits = checked  # type: ignore[method-assign]
    try:
        yield walks
    finally:
        Recording.fits = fits  # type: ignore[method-assign]
