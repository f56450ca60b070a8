"""The order of errors: where the function raises while it is captured, an operator before that may refuse the values
that this call brings, which only a run knows."""

from __future__ import annotations

from typing import Any

from weft.compile.program.call_plan import Inputs
from weft.compile.tracing.effects import fill_sources
from weft.compile.tracing.outcome import Outcome
from weft.programs.executable import make_executable
from weft.record.restart import Restart
from weft.support.errors import CaptureError, Unsupported, WeftError


def inputs_of(outcome: Outcome) -> tuple[list[Any], dict[str, Any]]:
    """What the parameters of the graph so far are in the call that is captured, and the values of its symbols."""
    capture = outcome.capture
    fill_sources(outcome)
    symbols = dict(capture.python_state.examples)
    return Inputs(outcome.sources).gather(outcome.leaves, symbols)[0], symbols


def raise_earlier(outcome: Outcome, error: Exception) -> None:
    """Raise what the operators raise that ran before an error of the function's own. Nothing is written, and what
    draws, or calls Python, is left alone."""
    capture = outcome.capture
    recorder = capture.recorder
    if isinstance(error, (CaptureError, Unsupported, Restart)) or recorder.open or capture.calls.recorded:
        return
    graph = recorder.builder.graph(())
    effects = {op.effect for op in graph.block.operators()}
    if "raises" not in effects or effects - {"pure", "raises"}:
        return
    inputs, symbols = inputs_of(outcome)
    try:
        make_executable(graph, "interpret").run(inputs, symbols)
    except WeftError as earlier:
        raise earlier from None
