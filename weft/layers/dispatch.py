"""DISPATCH, below autograd: `__weft_dispatch__` of wrapper subclasses says what an operator does to them.

Calls without wrappers never come here. The class is asked with the operator
(`aten.add.Tensor`) and its arguments as users write them: defaults at the end left out, keyword-only arguments by name.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from weft.autograd.record import gradient_edge
from weft.ops.compute import is_default
from weft.ops.op import Op
from weft.ops.packet import Overload, inplace_of, overload_of
from weft.support.errors import ArgumentError
from weft.tensor.backend import DISPATCH_RANK, Args, Backend, register, tensors_in
from weft.tensor.modes import AT_WORK, modes
from weft.tensor.tensor import Tensor
from weft.tensor.views import view_of
from weft.tensor.wrapper import WrapperPayload, is_wrapper, rewrapped

Ask = Callable[[Any, tuple[Any, ...], tuple[Any, ...], dict[str, Any]], Any]


class Dispatch(Backend):
    """Wrappers, whose classes are asked. While a function is captured a class's code runs now and never again,
    so what a wrapper is made of is guarded."""

    rank = DISPATCH_RANK

    def run(self, op: Op, args: Args) -> Any:
        """The operator's value by the classes of wrappers."""
        _note_wrappers(args)
        return run_with(ask_classes, op, args)

    def write(self, op: Op, args: Args) -> None:
        """An in-place operator by the classes of wrappers."""
        _note_wrappers(args)
        if modes.capture is not None:
            modes.capture.outside.note_write(args[0].storage())
        write_with(ask_classes, op, args)

    def open(self, op: Op, args: Args) -> Any:
        """A composite; while a function is captured the builder checks the types of what it is made of. One that draws
        in the sizes of a wrapper is made of operators that see none, so the class is asked for the whole.
        """
        if op.like:
            return self.run(op, args)
        return super().open(op, args) if modes.capture is None else self.composed(op, args)

    def constants(self, args: Args) -> AbstractContextManager[None]:
        """They are plain tensors."""
        return nullcontext()


register(Dispatch(), WrapperPayload)


def _note_wrappers(args: Args) -> None:
    capture = modes.capture
    for tensor in () if capture is None else tensors_in(args):
        if is_wrapper(tensor):
            capture.outside.note_wrapper(tensor)  # type: ignore[union-attr]


def run_with(ask: Ask, op: Op, args: tuple[Any, ...]) -> Any:
    """Ask for the operator's value and make it what autograd expects: results of their own,
    views that know their base."""
    arguments = tuple([_rewrapped(a) for a in args])
    func = overload_of(op)
    positional, named = call_form(func, arguments)
    out = _without_history(ask, func, classes_of(arguments), positional, named)
    return _finished(op, arguments, out)


def write_with(ask: Ask, op: Op, args: tuple[Any, ...]) -> None:
    """Ask for an in-place operator, and note that its target was written."""
    arguments = tuple([_rewrapped(a) for a in args])
    func = inplace_of(op)
    positional, named = call_form(func, arguments)
    storage = args[0].storage()
    before = storage.version
    _without_history(ask, func, classes_of(arguments), positional, named)
    if storage.version == before:
        storage.version += 1


def _without_history(ask: Ask, *call: Any) -> Any:
    previous = modes.grad
    modes.grad = modes.grad and AT_WORK
    try:
        capture = modes.capture
        # what a class's code does is not what the compiled function does
        return ask(*call) if capture is None else capture.call(ask, *call)
    finally:
        modes.grad = previous


def ask_classes(func: Overload, asked: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ask the wrappers' classes, subclasses first. Raises ArgumentError (a TypeError)
    when all answer NotImplemented."""
    types = tuple([type(a) for a in asked])
    for value in asked:
        out = value.__weft_dispatch__(func, types, args, kwargs)
        if out is not NotImplemented:
            return out
    raise ArgumentError(
        f"no implementation found for '{func}' on types that implement __weft_dispatch__: {list(types)}"
    )


def classes_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """One wrapper of each class among the arguments, subclasses before their bases."""
    wrappers: list[Any] = []
    for value in args:
        for v in value if type(value) is tuple else (value,):
            if isinstance(v, Tensor) and type(v._data) is WrapperPayload and all(
                type(v) is not type(f) for f in wrappers
            ):
                at = next((i for i, f in enumerate(wrappers) if issubclass(type(v), type(f))), len(wrappers))
                wrappers.insert(at, v)
    return tuple(wrappers)


def call_form(func: Overload, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bound arguments as a call: positional ones up to the last that is not its default, and the keyword-only
    ones that are not."""
    arguments = func.op.schema.arguments
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for argument, value in zip(arguments, args, strict=True):
        if not argument.keyword_only:
            positional.append(value)
        elif not _is_left_out(argument, value):
            named[argument.name] = value
    while positional and _is_left_out(arguments[len(positional) - 1], positional[-1]):
        positional.pop()
    return tuple(positional), named


def _is_left_out(argument: Any, value: Any) -> bool:
    return (
        argument.has_default and not isinstance(value, Tensor)
        and (value is argument.default or is_default(value, argument.default))
    )


def _rewrapped(value: Any) -> Any:
    if type(value) is tuple:
        return tuple([rewrapped(v) for v in value])
    return rewrapped(value)


def _finished(op: Op, args: tuple[Any, ...], out: Any) -> Any:
    if isinstance(out, (tuple, list)):
        return tuple([_result(op, args, r, i) for i, r in enumerate(out)])
    return _result(op, args, out, 0)


def _result(op: Op, args: tuple[Any, ...], result: Any, index: int) -> Any:
    if not isinstance(result, Tensor):
        return result
    if (
        any(result is a for a in args)
        or (result._autograd is not None and (result._autograd.node is not None or gradient_edge(result) is not None))
    ):
        result = result._alias(share_version=True)
    if op.view is not None:
        _see_as_view(op, args, result, index)
    elif type(result._data) is WrapperPayload:
        result._view = None  # that the last step of the class's code was a view is nobody's business
    return result


def _see_as_view(op: Op, args: tuple[Any, ...], result: Tensor, index: int) -> None:
    """A wrapper that a view operator gave is a view of the wrapper that it was given."""
    source: Tensor = args[0]
    if type(result._data) is not WrapperPayload or type(source._data) is not WrapperPayload:
        return
    storage = source.storage()
    seen = view_of(source, storage, result._data, op, args[1:], index)
    result._storage, result._view = storage, seen._view
    if seen._autograd is not None:
        result._autograd = seen._autograd
