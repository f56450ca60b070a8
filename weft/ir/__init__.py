"""Floor 3: the graph language: Graph, Block, Node, Value; the one builder; printer, parser, verifier, interpreter.

Start reading at graph.py, then builder.py; copies.py has what passes copy with.
Imports only support/, types/, ops/, runtime/.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "load":
        from weft.ir.files import load  # deferred: the parser needs the catalogue, which needs this package

        return load
    raise AttributeError(f"module 'weft.ir' has no attribute {name!r}")
