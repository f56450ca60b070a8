"""torch.compile: weft.compile, and with split=True what is no single program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.compile.api import compile as weft_compile
from weft.compile.driver import CompiledFunction
from weft.compile.module import CompiledModule
from weft.support import registry
from weft.support.errors import CaptureError
from weft.support.seams import split_function


class WholeOrSplit(CompiledFunction):
    """A function that runs as whole programs until a call is none; from then on Python runs on each call, and what lies
    between two places where a value is asked for is a program. (A capture that fails leaves nothing behind.)"""

    split: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.split is None:
            try:
                return super().__call__(*args, **kwargs)
            except CaptureError:
                self.split = split_function(self.function, self.name, self.backend)
        return self.split(*args, **kwargs)


def compile(
    model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = "inductor",
    mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:
    """torch.compile(model): a function or Module that runs as native programs. Usable as a decorator.

    fullgraph: raise CaptureError for a function that is no single program. mode, dynamic and options are accepted, and
    so is each name of a backend: there is one. backend "eager", or a function, means that nothing is compiled.
    """
    if model is None:
        def decorate(function: Callable[..., Any]) -> Any:
            return compile(
                function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                disable=disable,
            )

        return decorate
    if disable or backend == "eager" or callable(backend):
        return model
    if fullgraph:
        return weft_compile(model)
    if not registry.is_module(model):
        return WholeOrSplit(model)
    compiled = CompiledModule(model, None)
    object.__setattr__(compiled, "_compiled", WholeOrSplit(model, type(model).__name__))
    return compiled
