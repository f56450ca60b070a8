"""weft.compiled_autograd: backward calls of eager graphs, captured once for each structure and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.autograd.engine import Runner, current_runner, run_by
from weft.compiled_autograd.cache import Compiler, cache, run, trap
from weft.compiled_autograd.captured import CapturedGraph
from weft.compiled_autograd.program import Program
from weft.ir.graph import Graph
from weft.support.errors import ArgumentError, NestingError, StateError
from weft.support.knobs import knobs
from weft.types.tensor_type import FLOAT, INT, OBJECT, TENSOR

UNTYPED = (TENSOR, INT, FLOAT, OBJECT)  # the inputs of a captured graph


def interpret(graph: CapturedGraph | Graph) -> Program:
    """A callable that runs a captured graph node by node: `fn(inputs)` takes the list of the graph's inputs in order
    and gives its outputs."""
    return Program(graph.graph if isinstance(graph, CapturedGraph) else graph)


def native(graph: CapturedGraph | Graph) -> Program:
    """A callable that runs a captured graph as native programs, one for each run of calls without
    Python between them."""
    captured = graph if isinstance(graph, CapturedGraph) else CapturedGraph(graph)
    return captured.__weft_compile__(None)


def compiled_graph(graph: Graph, backend: str | None) -> Program:
    """A graph that `weft.ir.load` read as programs of a back end. Raises ArgumentError unless it was captured by
    `enable`: its inputs are known to be tensors, numbers and objects, and nothing more."""
    typed = next((p for p in graph.params if p.type not in UNTYPED), None)
    if typed is not None:
        raise ArgumentError(
            f"compile: %{typed.name} of @{graph.name} is {typed.type}; only graphs that weft.compiled_autograd "
            "captured, whose inputs have no types, are compiled"
        )
    return CapturedGraph(graph).__weft_compile__(backend)


@contextmanager
def enable(compiler: Callable[..., Any] | None = None) -> Iterator[None]:
    """Within the block, `backward()` and `autograd.grad()` of this thread are captured by structure,
    compiled by `compiler`, cached and run.

    compiler: takes the captured graph and returns a callable of its inputs. Default: native code; `weft.compile`
    is the same, `interpret` runs node by node. Blocks nest, and what was in force before is in force again after each,
    exceptions included. With WEFT_DEBUG=backwards, or `weft.knobs(debug="backwards")` when the block begins, captures
    are printed with their reasons. Raises ArgumentError for what cannot be called, NestingError (an AssertionError)
    where a block is left before one that was entered within it.
    """
    if compiler is not None and not callable(compiler):
        raise ArgumentError(
            f"enable(compiler): expected a callable that takes a captured graph, got {type(compiler).__name__}"
        )
    chosen: Compiler = native if compiler is None else compiler
    is_verbose = "backwards" in knobs.debug
    runner: Runner = lambda walk: run(walk, chosen, is_verbose)  # noqa: E731
    with run_by(runner):
        yield
        if current_runner() is not runner:
            raise NestingError("Nested Compiled Autograd Contexts must return before their parent context")


@contextmanager
def trap_metadata() -> Iterator[None]:
    """Within the block, captures of this thread see placeholders that raise StateError on any read,
    in place of tensors, sizes, numbers and hooks."""
    previous, trap.is_set = trap.is_set, True
    try:
        yield
    finally:
        trap.is_set = previous


@contextmanager
def disable() -> Iterator[None]:
    """Within the block, backward calls of this thread are the engine's own again."""
    with run_by(None):
        yield


def last_graph() -> CapturedGraph:
    """The graph of the latest captured backward. Raises StateError if there is none."""
    if cache.last is None:
        raise StateError("no backward has been captured; run one within `with weft.compiled_autograd.enable():`")
    return cache.last


def reset() -> None:
    """Forget every captured graph and its programs."""
    cache.clear()


def miss_log() -> list[str]:
    """Why backward calls were captured, one line each: what was new about them, and the user's line."""
    return list(cache.misses)
