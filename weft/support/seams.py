"""Seams: the few upward calls, as typed callbacks that a higher floor installs.

A new one needs a reason in docs/decisions/architecture.md.

run_backward     Tensor.backward() and autograd.grad need the engine (installed by autograd)
history_of_view  a view whose base was written in place gets its node anew (installed by autograd)
standalone       a rule on large arrays in eager mode runs as a native program of its own (installed by the front door,
                 imported when first called)
captured_backward  the backward calls of a block are captured and compiled by structure (installed by the front door,
                 imported when first called)
open_function    a custom Function that may be traced is called as a program (installed by the front door, imported when
                 first called)
native_product   a large product of matrices of floats in eager mode goes to the compiler's own (installed by the front
                 door, imported when first called)
compiled_graph   weft.compile(graph) of a captured backward that was read from a file (installed by the front door,
                 imported when first called)
checked_run      a run of a program names the operator that made a NaN (installed by the front door, imported when first
                 called)
storage_accessed  Python reads or writes elements of a plain storage, without a tensor: whoever records or defers calls
                 on its memory is told (installed by tensor)
exported_step    compiled.export(path) writes a compiled function as object code (installed by the front door, imported
                 when first called)
cast_layer       what casts operands in a block of autocast (installed by the front door, imported when first called)
sparse_method    a method of tensors that has to do with layouts (to_sparse, coalesce, ...) is called by its name
                 (installed by the front door, imported when first called)
sparse_rows      rows of a table are picked whose gradient is to be sparse (idem)
split_function   weft.compile(function, split=True) makes a function whose operators wait (installed by the front door,
                 imported when first called)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from weft.support.errors import StateError


class Seam:
    """A named callback with exactly one implementation at a time."""

    __slots__ = ("implementation", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.implementation: Callable[..., Any] | None = None

    def install(self, implementation: Callable[..., Any]) -> None:
        """Give the seam its implementation."""
        self.implementation = implementation

    def install_from(self, module: str, name: str) -> None:
        """Give the seam an implementation that is imported by the first call."""

        def first(*args: Any, **kwargs: Any) -> Any:
            self.implementation = getattr(importlib.import_module(module), name)
            return self.implementation(*args, **kwargs)

        self.implementation = first

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.implementation is None:
            raise StateError(f"seam {self.name} has no implementation; import weft")
        return self.implementation(*args, **kwargs)


run_backward = Seam("run_backward")
history_of_view = Seam("history_of_view")
gradient_edge = Seam("gradient_edge")
register_tensor_hook = Seam("register_tensor_hook")
captured_backward = Seam("captured_backward")
open_function = Seam("open_function")
native_product = Seam("native_product")
standalone = Seam("standalone")
compiled_graph = Seam("compiled_graph")
split_function = Seam("split_function")
sparse_method = Seam("sparse_method")
sparse_rows = Seam("sparse_rows")
exported_step = Seam("exported_step")
cast_layer = Seam("cast_layer")
checked_run = Seam("checked_run")
storage_accessed = Seam("storage_accessed")
