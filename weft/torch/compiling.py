"""torch.compile: weft.compile, and with split=True what is no single program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.compile.api import compile as weft_compile


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
    return weft_compile(model, split=True)
