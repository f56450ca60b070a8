"""weft.compiler: PyTorch's questions and marks for code that may be compiled, as weft.compile answers them.

weft captures a function whole (there is no graph break), for every size, and guards what it reads. Marks that would
tell another compiler what weft does anyway give the function back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from weft.support import registry
from weft.support.errors import ArgumentError, CaptureError, Unsupported
from weft.support.function_wrapper import FunctionWrapper
from weft.support.knobs import knobs
from weft.support.locations import user_location
from weft.tensor.modes import floor, modes

if TYPE_CHECKING:
    from weft.compile.api import compile

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_dynamo_supported", "is_exporting", "list_backends", "nested_compile_region", "reset",
    "set_stance",
]
_STANCES = ("default", "force_eager")
_NOT_HERE = ("eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile")


def __getattr__(name: str) -> Any:
    """weft.compile's function, which is imported when first asked for."""
    if name == "compile":
        from weft.compile.api import compile

        return compile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_compiling() -> bool:
    """Whether this line runs to be compiled: within a function that weft.compile captures, or runs with split=True."""
    below = floor()
    return modes.capture is not None or (below is not None and below.stays)


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether torch.export runs this line: never. weft.onnx.export and weft.jit record a trace, as in PyTorch."""
    return False


def is_dynamo_supported() -> bool:
    """Whether functions can be compiled here: always."""
    return True


def _is_supported_on(device_type: str) -> bool:
    """Whether functions can be compiled for a device of this type."""
    return device_type == "cpu"


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The names that `weft.compile(backend=)` takes."""
    from weft.compile.api import BACKENDS  # the compiler is imported when first used

    return sorted(BACKENDS)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that is not to be compiled. Usable as a decorator; of a compiled function or module it gives what was
    compiled.

    A function that weft.compile captures cannot call it: a program has no place where Python goes on. One that runs
    with split=True is Python anyway, and calls it as Python does.

    recursive: PyTorch's; weft has nothing that compiles one function and not what it calls.
    reason: said by the error. Raises CaptureError where it is called under weft.compile.
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if isinstance(fn, FunctionWrapper):
        return fn.function
    if registry.is_module(fn):
        from weft.compile.module import CompiledModule  # the compiler is imported when first used

        if type(fn) is CompiledModule:
            return fn._module
        raise Unsupported("compiler.disable: marks functions; of a module, mark the `forward` of its class")
    if not callable(fn):
        raise ArgumentError(f"compiler.disable: expected a function or a Module, but got {fn!r}")

    @functools.wraps(fn)
    def uncompiled(*args: Any, **kwargs: Any) -> Any:
        if modes.capture is not None:
            name, why = getattr(fn, "__qualname__", repr(fn)), f" ({reason})" if reason else ""
            where = user_location()
            line = "" if where is None else f"{where}: "
            raise CaptureError(
                f"{line}{name} is marked by compiler.disable{why}, and a compiled function calls it; compile with "
                "weft.compile(function, split=True), where it runs as Python, or call it outside"
            )
        return fn(*args, **kwargs)

    return uncompiled


def _itself(fn: Any) -> Any:
    if not callable(fn):
        raise ArgumentError(f"expected a function, but got {fn!r}")
    return fn


def allow_in_graph(fn: Any) -> Any:
    """The function, or the functions of a list, as they are: a capture runs them, and records what they compute."""
    return [_itself(one) for one in fn] if isinstance(fn, (list, tuple)) else _itself(fn)


def assume_constant_result(fn: Any) -> Any:
    """The function as it is. Its result is a constant of the program, until what it read has changed."""
    return _itself(fn)


def nested_compile_region(fn: Any = None) -> Any:
    """The function as it is: what was captured once in one program is compiled once anyway."""
    return nested_compile_region if fn is None else _itself(fn)


def cudagraph_mark_step_begin() -> None:
    """A step begins: nothing to do, results never share memory with those of the step before."""


def reset() -> None:
    """Forget compiled code that nobody uses any more. A compiled function keeps its programs as long as it lives: they
    are guarded, so that none is wrong."""
    from weft.programs import live_programs  # the compiler is imported when first used

    live_programs.forget()


class set_stance:
    """How functions that are compiled run from now on, or within a `with` block or a decorated function: "default", or
    "force_eager" as they are written. Raises Unsupported for PyTorch's other stances.
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance in _NOT_HERE or skip_guard_eval_unsafe or force_backend is not None:
            raise Unsupported(
                f"compiler.set_stance: weft has the stances {' and '.join(map(repr, _STANCES))}, without options"
            )
        if stance not in _STANCES:
            raise ArgumentError(f"compiler.set_stance: no stance {stance!r}; there are {', '.join(_STANCES)}")
        self.stance, self._before = stance, knobs.eager
        knobs.eager = stance == "force_eager"

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function: the stance is its own."""
        knobs.eager = self._before

        @functools.wraps(fn)
        def within(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return within

    def __enter__(self) -> set_stance:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        knobs.eager = self._before
