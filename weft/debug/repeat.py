"""A miscompile as a script of some ten lines, and what such a script calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.debug.shrink import Part
from weft.debug.stages import Stage
from weft.debug.tolerance import Tolerance
from weft.ir.parser import parse_graph
from weft.ir.printer import print_graph
from weft.passes.same_values import drawn_inputs
from weft.support.errors import ArgumentError
from weft.types import dtype as dt

_WRITTEN = 64  # elements of all inputs that a script has in its text
_SCRIPT = '''"""{title}. Written by weft.debug.bisect."""
import weft.debug

GRAPH = """
{graph}
"""
weft.debug.repeat({arguments})
'''


def repeat(
    stage: str, graph: str, inputs: Sequence[Any] | str | None = None, symbols: dict[str, int] | None = None,
    rtol: float | None = None, atol: float | None = None,
) -> None:
    """Run one stage of compilation on a graph and compare what it makes of it with the graph, operator by operator.
    Prints what differs and raises SystemExit(1), or prints that nothing does.

    stage: a pass of weft/passes/pipeline.py, or "code generation". graph: its text. inputs: arrays and numbers (pairs
    of a dtype's name and nested lists are arrays), or an .npz file that holds them in order; default: drawn for the
    sizes in the text. symbols: other sizes than those. Raises ArgumentError where inputs cannot be drawn, ValueProblem
    for another stage.
    """
    parsed = parse_graph(graph)
    values = drawn_inputs(parsed) if inputs is None else _read(inputs)
    if values is None:
        raise ArgumentError("repeat: the graph has inputs that cannot be drawn; give them")
    sizes = dict(parsed.env.examples) if symbols is None else symbols
    fault = Stage(stage, Tolerance(rtol, atol)).fault(parsed, values, sizes)
    if fault is None:
        print(f"{stage}: the values are right")
        return
    print(f"{stage}: {fault}")
    raise SystemExit(1)


def write_script(path: Path, title: str, part: Part, stage: Stage) -> None:
    """Write a script that repeats what a stage does to a part of a graph. Numbers that matter are in it, or in a file
    beside it where they are many."""
    text = print_graph(part.graph)
    arguments = [repr(stage.name), "GRAPH"]
    drawn = drawn_inputs(part.graph)
    if drawn is None or not Part(part.graph, drawn, dict(part.graph.env.examples)).is_wrong(stage):
        arguments += [_written(part.inputs, path), repr({k: int(v) for k, v in part.symbols.items()})]
    for name in ("rtol", "atol"):
        value = getattr(stage.tolerance, name)
        arguments += [] if value is None else [f"{name}={value!r}"]
    path.write_text(_SCRIPT.format(title=title, graph=text, arguments=", ".join(arguments)), encoding="utf-8")


def _written(inputs: Sequence[Any], path: Path) -> str:
    """Inputs as Python writes them, or the name of a file that holds them."""
    if sum(np.size(value) for value in inputs) <= _WRITTEN and all(map(_is_plain, inputs)):
        return repr([(x.dtype.name, x.tolist()) if isinstance(x, np.ndarray) else x for x in inputs])
    file = path.with_suffix(".npz")
    np.savez(file, *[np.asarray(x).view(np.uint16) if _is_brain(x) else x for x in inputs], dtypes=[
        np.asarray(x).dtype.name for x in inputs
    ])
    return repr(str(file.resolve()))


def _is_plain(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or (value.dtype.kind in "fiub" and bool(np.isfinite(value).all()))


def _is_brain(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name == "bfloat16"


def _read(inputs: Sequence[Any] | str) -> list[Any]:
    if isinstance(inputs, str):
        with np.load(inputs) as file:
            names = file["dtypes"].tolist()
            arrays = [file[f"arr_{i}"] for i in range(len(names))]
        return [a.view(dt.bfloat16.numpy) if n == "bfloat16" else a for a, n in zip(arrays, names, strict=True)]
    return [np.array(x[1], dtype=x[0]) if isinstance(x, tuple) else x for x in inputs]
