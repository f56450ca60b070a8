"""What ran as programs while something was watched, explained: the longest first."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

from weft import jit  # noqa: F401  # scripts are watched where they can be called
from weft.explanations.explain import explain
from weft.explanations.facts import Explanation
from weft.profiler.recorder import CALL, PROGRAM, Note, Recorder
from weft.support.errors import ArgumentError


def watched_explanations(
    run: Callable[[], Any], recorder: Recorder | None = None
) -> tuple[Any, list[Explanation]]:
    """What `run()` gives, and an explanation for each function that ran as programs meanwhile. recorder: what looks;
    default one for times."""
    recorder = recorder or Recorder()
    recorder.start()
    try:
        result = run()
    finally:
        recorder.stop()
    return result, list(_explanations(recorder))


def _explanations(recorder: Recorder) -> Iterator[Explanation]:
    calls: dict[int, list[Note]] = {key: [] for key in recorder.called}
    programs = [note for note in recorder.notes if note.kind == PROGRAM and not note.what.program.is_for_eager]
    for note in recorder.notes:
        if note.kind == CALL:
            calls[note.of].append(note)
    total = {key: sum([n.end - n.begin for n in notes]) for key, notes in calls.items()}
    for key in sorted(calls, key=lambda key: -total[key]):
        explanation = _explained(recorder.called[key])
        if explanation is not None:
            _add_times(explanation, calls[key], programs)
            yield explanation
    ran = {id(note.what.program) for note in programs}
    for name in ("weft.lazy", "weft.compiled_autograd"):
        module = _explained(sys.modules[name]) if name in sys.modules else None
        if module is not None:
            module.programs = [p for p in module.programs if id(getattr(p.executable, "program", None)) in ran]
            if module.programs:
                yield module


def _explained(function: Any) -> Explanation | None:
    try:
        return explain(function)
    except ArgumentError:  # it never came to be a program
        return None


def _add_times(explanation: Explanation, calls: list[Note], programs: list[Note]) -> None:
    """How often it was called, and the medians of what a call took."""
    inside = [0] * len(calls)
    at = 0
    for program in programs:  # both are in the order of their ends
        while at < len(calls) and calls[at].end < program.end:
            at += 1
        if at < len(calls) and calls[at].begin <= program.begin and calls[at].thread == program.thread:
            inside[at] += program.end - program.begin
    explanation.calls = len(calls)
    explanation.seconds_call = statistics.median([n.end - n.begin for n in calls]) / 1e9
    explanation.seconds_programs = statistics.median(inside) / 1e9
