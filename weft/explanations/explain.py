"""weft.explain: whatever weft runs as programs, as one object."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

from weft.compile.whole_or_split import WholeOrSplit
from weft.compiled_autograd.captured import CapturedGraph
from weft.explanations.compiled import explain_compiled
from weft.explanations.facts import Explanation, program_facts
from weft.lazy.split.function import SplitFunction
from weft.support.errors import ArgumentError


def explain(function: Any, *args: Any, **kwargs: Any) -> Explanation:
    """What became of something that weft runs as programs: what ran, how long its parts took, the slowest kernels with
    the user's lines and parameters, what breaks it up, and why the last call missed. Print it, read its fields, or let
    a notebook show it.

    function: a function or Module, compiled or not (with arguments it is captured if no program fits; without, it is
    the program that was captured last); a split function (`weft.compile(f, split=True)`); a scripted or traced one;
    `weft.lazy`, for the steps of lazy tensors; `weft.compiled_autograd` or a graph that it captured.

    Programs are timed when the explanation is printed: on copies, so that nothing is written but those. Raises
    ArgumentError for what has not run yet.
    """
    if isinstance(function, types.ModuleType):
        name = function.__name__
        if name == "weft.lazy":
            return _lazy()
        if name == "weft.compiled_autograd":
            return _backward(None)
        raise ArgumentError(f"explain: {name} is a module; explain a function, weft.lazy or weft.compiled_autograd")
    if isinstance(function, CapturedGraph):
        return _backward(function)
    if isinstance(function, SplitFunction):
        return _split(function)
    if isinstance(function, WholeOrSplit) and not function.is_whole:
        return _python(function)
    if hasattr(function, "__weft_program__") or hasattr(getattr(function, "forward", None), "__weft_program__"):
        return _script(function)
    return explain_compiled(function, *args, **kwargs)


# ---- split functions and lazy steps: the programs of a device
def _of_devices(explanation: Explanation, devices: Any) -> Explanation:
    seen: set[int] = set()
    for device in devices:
        for program in [p for variants in device.programs for p in variants]:
            if id(program.executable) not in seen:
                seen.add(id(program.executable))
                title = f"program {len(seen)}"
                explanation.programs.append(program_facts(title, program.graph, program.executable))
                explanation.graphs.append(program.graph)
    return explanation


def _split(function: SplitFunction) -> Explanation:
    explanation = Explanation(str(function.name), kind="split")
    explanation.breaks = [f"{where} ({count} times)" for where, count in function.cuts.items()]
    return _of_devices(explanation, function.devices)


def _python(function: WholeOrSplit) -> Explanation:
    explanation = _split(function.split)
    explanation.misses = list(function.misses)
    if function.runs_eagerly:
        explanation.as_written = [*explanation.misses[-1:], "its operators run one by one: their results are small"]
    return explanation


def _lazy() -> Explanation:
    from weft.lazy import metrics  # only where lazy tensors are asked about
    from weft.lazy.backend import used_devices  # with it

    explanation = _of_devices(Explanation("lazy tensors", kind="lazy"), used_devices())
    causes = Counter(metrics.causes())
    explanation.breaks = [f"{cause}{f' ({count} times)' if count > 1 else ''}" for cause, count in causes.items()]
    if not explanation.programs:
        raise ArgumentError("explain: no step of lazy tensors has run as a program yet")
    return explanation


# ---- captured backward calls
def _backward(graph: CapturedGraph | None) -> Explanation:
    from weft.compiled_autograd.cache import cache  # only where they are asked about

    captured = [c for c in cache.graphs() if graph is None or c.graph is graph]
    if not captured:
        raise ArgumentError(
            "explain: no backward call has been captured; run one within `with weft.compiled_autograd.enable():`"
        )
    explanation = Explanation("backward calls", kind="backward")
    explanation.misses = list(cache.misses)
    seen: set[int] = set()
    for one in captured:
        explanation.graphs.append(one.graph.graph)
        for program in _specializations(one):
            executable = getattr(program.executable, "executable", program.executable)
            inner = getattr(executable, "captured", None) or getattr(executable, "graph", None)
            if inner is not None and id(executable) not in seen:
                seen.add(id(executable))
                explanation.programs.append(program_facts(f"program {len(seen)}", inner, executable))
    return explanation


def _specializations(captured: Any) -> Iterator[Any]:
    for compiled in captured.compiled.values():
        for run in getattr(compiled, "runs", ()):
            for variants in getattr(run, "programs", ()):
                yield from variants


# ---- scripts and traces
def _script(function: Any) -> Explanation:
    from weft.jit.executor.plans import last_executed_plan  # only where scripts are asked about

    name = getattr(function, "__name__", None) or type(function).__name__
    plan = last_executed_plan(function)
    if plan is None:
        raise ArgumentError(f"explain: {name} was not called yet, or runs without a plan; call it, then explain it")
    explanation = Explanation(name, kind="script")
    for group in plan.native_groups:
        for entry in group.compiled.entries:
            title = f"group {len(explanation.programs)}"
            explanation.programs += [program_facts(title, g, e) for _, g, e in entry.programs]
            explanation.seconds += entry.seconds_total
            explanation.seconds_compile += entry.seconds_compile
        explanation.misses += list(group.compiled.misses)
    if not explanation.programs:
        explanation.as_written = [
            f"{name}: its operators run one by one: there are fewer than a program is worth, or it ran once only"
        ]
    return explanation
