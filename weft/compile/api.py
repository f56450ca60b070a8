"""weft.compile and weft.explain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from weft.compile.driver import CompiledFunction
from weft.support import registry


@overload
def compile(function: Callable[..., Any], *, backend: str | None = None) -> Any: ...
@overload
def compile(function: None = None, *, backend: str | None = None) -> Callable[[Callable[..., Any]], Any]: ...


def compile(function: Any = None, *, backend: str | None = None) -> Any:
    """Compile a function (a whole training step, or a model) into native programs. Usable as a decorator.

    The function runs once with symbolic tensors; the graph that is recorded, backward and in-place updates included, becomes one program that serves
    every size. Python state that the function reads is guarded: when it changes, the function is captured again.

    Args:
        function: a function, or an nn.Module.
        backend: "llvm", "interpret" or "numpy"; the knob WEFT_BACKEND decides when None.
    """
    if function is None:
        return lambda f: compile(f, backend=backend)
    if registry.is_module(function):
        from weft.compile.module import compile_module  # compiled modules need nn

        return compile_module(function, backend)
    return CompiledFunction(function, backend=backend)


def explain(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What becomes of a function on these arguments: programs, kernels, guards, state. Print it, or read its fields (compile/explanation.py).

    Captures the function if no program fits; nothing is run. Without the arguments that it needs: the program that was captured last.
    """
    from weft.compile.explanation import explain_function  # reporting, rarely needed

    return explain_function(function, *args, **kwargs)
