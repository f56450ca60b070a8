"""A function that runs for each row of a tensor, written as a Scan of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft.onnx.dependency import helper
from weft.onnx.nodes import value_info
from weft.onnx.outputs import Output
from weft.onnx.registry import function_symbolic
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor

States = tuple[Any, ...]


@function_symbolic("scan")
def write_scan(
    g: Any, step: Callable[[Any, Any, States], tuple[States, Output]], state: States, rows: Output, reverse: bool
) -> tuple[States, Output]:
    """`state, out = step(t, rows[t], state)` for each t, from the end on with reverse. Gives the last state, and what
    came out, stacked."""
    counter = g.steps(g.size(rows, 0))
    scanned = [_turned(g, x) if reverse else x for x in (counter, rows)]
    params = [Output(g, g.name("carried"), s.example, s.sizes) for s in state]
    row_inputs = [Output(g, g.name("row"), x.example[0], x.sizes[1:]) for x in scanned]
    with g.apart() as scope:
        after, out = step(g.as_number(row_inputs[0]), row_inputs[1], tuple(params))
        ends = [g.op("Identity", g.cast(v, s.dtype)) for v, s in zip((*after, out), (*state, out), strict=True)]
    if any(end.sizes != s.sizes for end, s in zip(ends, state, strict=False)):
        raise Unsupported("what a scan carries has other sizes from step to step")
    graph = helper.make_graph(
        scope.nodes, "body", [value_info(v) for v in (*params, *row_inputs)], [value_info(v) for v in ends]
    )
    names = [g.name("scan") for _ in ends]
    g.append(helper.make_node("Scan", [s.name for s in (*state, *scanned)], names, body=graph, num_scan_inputs=2))
    *states, stacked = _examples(g, step, ends, scanned)
    last = tuple(Output(g, n, e, s.sizes) for n, s, e in zip(names, state, states, strict=False))
    output = Output(g, names[-1], stacked, [rows.sizes[0], *ends[-1].sizes])
    return last, _turned(g, output) if reverse else output


def _examples(g: Any, step: Any, first: list[Output], scanned: list[Output]) -> list[Tensor]:
    """What the example gives: the rows behind the first go through the step as well, and what that
    writes is dropped."""
    state, out = [end.example for end in first[:-1]], [first[-1].example]
    for i in range(1, int(scanned[0].example.shape[0])):
        rows = [Output(g, g.name("row"), x.example[i], x.sizes[1:]) for x in scanned]
        params = tuple(Output(g, g.name("carried"), e, f.sizes) for e, f in zip(state, first, strict=False))
        with g.apart():
            after, output = step(g.as_number(rows[0]), rows[1], params)
        state = [a.example.to(e.dtype) for a, e in zip(after, state, strict=True)]
        out.append(output.example)
    return [*state, weft.stack(out)]


def _turned(g: Any, x: Output) -> Output:
    return g.op("Slice", x, g.ints([-1]), g.ints([-(2**63)]), g.ints([0]), g.ints([-1]))  # type: ignore[no-any-return]
