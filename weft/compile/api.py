"""weft.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from weft.compile.driver import CompiledFunction
from weft.compile.whole_or_split import WholeOrSplit
from weft.ir.graph import Graph
from weft.support import registry
from weft.support.errors import ArgumentError
from weft.support.seams import compiled_graph

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
BACKENDS = ("llvm", "interpret", "numpy")


@overload
def compile(
    function: Callable[..., Any], *, backend: str | None = None, disable: bool = False, fullgraph: bool = True,
    dynamic: bool | None = None, mode: str | None = None, options: dict[str, Any] | None = None,
    split: bool = False,
) -> Any: ...
@overload
def compile(
    function: None = None, *, backend: str | None = None, disable: bool = False, fullgraph: bool = True,
    dynamic: bool | None = None, mode: str | None = None, options: dict[str, Any] | None = None,
    split: bool = False,
) -> Callable[[Callable[..., Any]], Any]: ...


def compile(
    function: Any = None, *, backend: str | None = None, disable: bool = False, fullgraph: bool = True,
    dynamic: bool | None = None, mode: str | None = None, options: dict[str, Any] | None = None,
    split: bool = False,
) -> Any:
    """Compile a function (a whole training step, or a model) into native programs. Usable as a decorator.

    The function runs once with symbolic tensors; the graph that is recorded, backward and in-place updates included,
    becomes one program that serves every size. Python state that the function reads is guarded: when it changes,
    the function is captured again.

    Args:
        function: a function, an nn.Module, or a graph that weft.compiled_autograd captured (also one from a file).
        backend: "llvm", "interpret" or "numpy"; the knob WEFT_BACKEND decides when None.
        disable: give the function back as it is.
        fullgraph, dynamic, mode: PyTorch's, accepted so that its programs run. weft always compiles the whole function,
        for every size, in one mode.
        options: none are known.
        split: refuse nothing that eager mode takes. Where Python asks whether a tensor holds (`if loss > 3:`), there is
            a program for each answer, and numbers (`loss.item()`) may be kept and returned. A function that does what
            no program can (prints a value, gives it to NumPy) runs as Python on each call, its operators deferred as
            those of lazy tensors are: what lies between two places where a value is asked for becomes one program;
            `cuts` of what is returned tells where these are.

    Raises ArgumentError for a backend, a mode or an option that does not exist.
    """
    if backend not in (None, *BACKENDS):
        raise ArgumentError(f"compile: no backend {backend!r}; there are {', '.join(BACKENDS)}")
    if mode not in MODES:
        raise ArgumentError(
            f"compile: no mode {mode!r}; weft has one mode, and accepts PyTorch's names "
            f"{', '.join(str(m) for m in MODES[1:])}"
        )
    if options:
        raise ArgumentError(f"compile: no option {next(iter(options))!r}; weft is set by knobs (python -m weft knobs)")
    if function is None:
        return lambda f: compile(f, backend=backend, disable=disable, split=split)
    if disable:
        return function
    if hasattr(type(function), "__weft_compile__"):  # a captured graph, which says itself how it becomes a program
        return function.__weft_compile__(backend)
    if isinstance(function, Graph):
        return compiled_graph(function, backend)
    if registry.is_module(function):
        from weft.compile.module import compile_module  # compiled modules need nn

        return compile_module(function, backend, split)
    return (WholeOrSplit if split else CompiledFunction)(function, backend=backend)
