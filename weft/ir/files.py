"""Graphs in files, as text."""

from __future__ import annotations

import os
from pathlib import Path

from weft.ir import backward_calls as backward_calls  # defines what a captured backward calls
from weft.ir.graph import Graph
from weft.ir.parser import parse_graph
from weft.support.errors import ParseError


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph in a file that `graph.save(path)` wrote. Raises OSError, and ParseError with line and column for a text
    that is no graph."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"{path}: not a text, so not a graph ({error})") from None
    return parse_graph(text)
