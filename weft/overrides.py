"""weft.overrides: classes and modes that take public calls over (`__weft_function__`);
docs/subclasses.md shows how they are written."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft import autograd
from weft.layers.factories import FACTORIES
from weft.ops import overrides
from weft.ops.op import PACKETS
from weft.ops.overrides import DISABLED, WITHOUT_CLASSES, OverrideLevel, disabled_weft_function, overridable
from weft.support.errors import StateError
from weft.tensor.subclass import asks_itself, guarded_names
from weft.tensor.tensor import Tensor

__all__ = [
    "DisableWeftFunction", "DisableWeftFunctionSubclass", "TorchFunctionMode", "WeftFunctionMode",
    "disabled_weft_function", "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions",
    "handle_torch_function", "handle_weft_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "has_weft_function", "is_tensor_like", "is_tensor_method_or_property",
    "overridable", "resolve_name", "wrap_torch_function", "wrap_weft_function",
]
_WRITTEN = {*FACTORIES, "tensor", "as_tensor", "from_numpy", "numel", "is_floating_point", "is_complex", "result_type"}
_MODULES = ("weft", "weft.nn.functional", "weft.linalg", "weft.special", "weft.fft")


class WeftFunctionMode:
    """A block in which every public function and tensor operator is asked of `__weft_function__` first.

    Modes nest: the innermost is asked, and while it answers it is off, so that its own calls reach the next one.
    Attributes that plain tensors answer without computing (shape, dtype, grad, ...) are not seen.
    """

    def __weft_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a call; NotImplemented passes it on."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Any:
        overrides.push_mode(self)
        return self

    def __exit__(self, *error: Any) -> None:
        modes = overrides.current_modes()
        if not modes or modes[-1] is not self:
            raise StateError(
                f"{type(self).__name__}: modes must be left in the reverse order in which they were entered"
            )
        overrides.pop_mode()


class TorchFunctionMode(WeftFunctionMode):
    """A WeftFunctionMode under PyTorch's name: `__torch_function__` is asked."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a call; NotImplemented passes it on."""
        return func(*args, **(kwargs or {}))

    def __weft_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.__torch_function__(func, types, args, kwargs)


class DisableWeftFunctionSubclass(OverrideLevel):
    """A block in which no class is asked; modes still are."""

    def __init__(self) -> None:
        super().__init__(WITHOUT_CLASSES)


class DisableWeftFunction(OverrideLevel):
    """A block in which neither classes nor modes are asked."""

    def __init__(self) -> None:
        super().__init__(DISABLED)


def has_weft_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is on, or one of these arguments has a `__weft_function__` of its own."""
    return overrides.overriding(relevant_args) is not None


def handle_weft_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Ask modes and the relevant arguments about a call of `public_api`.
    Raises TypeError when all answer NotImplemented."""
    asked = overrides.overriding(relevant_args)
    return overrides.handle(public_api, asked or (), args, kwargs)


def has_torch_function_unary(value: Any) -> bool:
    """has_weft_function of one argument."""
    return has_weft_function((value,))


def has_torch_function_variadic(*values: Any) -> bool:
    """has_weft_function of these arguments."""
    return has_weft_function(values)


def is_tensor_like(inp: Any) -> bool:
    """Whether a value is a Tensor or has `__weft_function__`."""
    return type(inp) is Tensor or overrides.handler_of(inp) is not None


def wrap_weft_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a Python function one that classes and modes may take over;
    `dispatcher(*args, **kwargs)` gives the arguments to look at."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def public(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            asked = overrides.overriding(relevant)
            return function(*args, **kwargs) if asked is None else overrides.handle(public, asked, args, kwargs)

        return public

    return decorate


has_torch_function, handle_torch_function = has_weft_function, handle_weft_function  # PyTorch's names
wrap_torch_function = wrap_weft_function


# ---- what can be taken over
@functools.cache
def _of_modules() -> list[tuple[Any, str, Callable[..., Any]]]:
    """(module, name, function), all of them."""
    functions = []
    for where in _MODULES:
        module = importlib.import_module(where)
        listed = [(module, n, getattr(module, n)) for n in dir(module) if _is_function_name(where, n)]
        functions += [(m, n, f) for m, n, f in listed if callable(f)]
    return [*functions, (autograd, "backward", autograd.backward), (autograd, "grad", autograd.grad)]


@functools.cache
def _overridable() -> Mapping[Any, list[Callable[..., Any]]]:
    by_owner: dict[Any, list[Callable[..., Any]]] = {}
    for module, _, function in _of_modules():
        by_owner.setdefault(module, []).append(function)
    by_owner[Tensor] = [_of_tensor(n) for n in (*_operator_names(), *guarded_names())]
    return by_owner


def _is_function_name(module: str, name: str) -> bool:
    if module == "weft":
        return name in _WRITTEN or any("weft" in op.public for op in PACKETS.get(f"aten::{name}", ()))
    return not name.startswith("_") and name.islower() and name not in ("annotations", "functions")


def _operator_names() -> list[str]:
    return [
        n for n in dir(Tensor)
        if not n.startswith("__weft") and callable(getattr(Tensor, n, None)) and asks_itself(n, getattr(Tensor, n))
    ]


def _of_tensor(name: str) -> Any:
    value = getattr(Tensor, name)
    return value.__get__ if isinstance(value, property) else value


def get_overridable_functions() -> Mapping[Any, list[Callable[..., Any]]]:
    """The functions that `__weft_function__` is asked about, by the module or class that has them
    (properties as their getters)."""
    return _overridable()


@functools.cache
def _names() -> dict[Any, str]:
    names: dict[Any, str] = {}
    for name in sorted((*_operator_names(), *guarded_names()), key=lambda n: n.startswith("__")):
        names.setdefault(
            _of_tensor(name),
            f"weft.Tensor.{name}" + (".__get__" if isinstance(getattr(Tensor, name), property) else ""),
        )
    for module, name, function in _of_modules():
        names.setdefault(function, f"{module.__name__}.{name}")
    return names


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The public name of a function that may be taken over, such as "weft.nn.functional.relu"; None for others."""
    return _names().get(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether `func` is a method of Tensor or the getter or setter of a property,
    rather than a function of a module."""
    return (
        (resolve_name(func) or "").startswith("weft.Tensor.")
        or getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__")
    )


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Public functions of weft that nobody is asked about: those with a name in `weft` that `get_overridable_functions`
    does not list."""
    import weft

    listed = set(get_overridable_functions()[weft])
    functions = (getattr(weft, name) for name in dir(weft) if not name.startswith("_"))
    return {f for f in functions if callable(f) and not isinstance(f, type) and f not in listed}


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Getters whose result a subclass does not wrap: the base of a view, the gradient."""
    return {getattr(Tensor, name).__get__ for name in ("_base", "grad", "_grad") if hasattr(Tensor, name)}
