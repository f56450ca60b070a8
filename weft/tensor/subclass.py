"""Tensor subclasses: how they are made, and the default `__weft_function__`, which keeps the class on results.

A class derived from Tensor gets `Subclass` or `Overriding` put between itself and Tensor: how its objects are made,
and (unless it opts out) who asks `__weft_function__` about properties and about methods that are no operators.
Plain tensors and Parameters never meet them, so they cost these nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any

from weft.ops import overrides
from weft.ops.methods import OperatorMethods
from weft.ops.overrides import (
    NAME,
    PYTORCHS,
    WITHOUT_CLASSES,
    OverrideLevel,
    disabled_weft_function,
    handle,
    overriding,
)
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, StateError
from weft.tensor.dense import is_dense
from weft.tensor.history import AutogradState
from weft.tensor.legacy import construct
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import DISPATCH, PYTORCHS_DISPATCH, dispatches, is_wrapper, over, wrapper_classes
from weft.types import dtype as dt

# Attributes that machinery below FUNCTION reads, and Python's own: nobody is asked about these.
_INTERNAL = frozenset((
    "__init__", "__new__", "__class__", "__getattribute__", "__setattr__", "__delattr__", "__init_subclass__",
    "__subclasshook__", "__hash__", "__dir__", "__sizeof__", "__doc__", "__module__", "__slots__", "__dict__",
    "__weakref__", "__reduce__", "__getstate__", "__array_priority__", "__copy__",
    "__pos__", "__iter__", "__static_attributes__", "__firstlineno__", "__annotations__", "__orig_bases__",
    "__type_params__", "dims", "type_", "geometry",
    "storage", "untyped_storage", "as_subclass", "__torch_function__", "__torch_dispatch__",
))


_OWN_NAMES = frozenset(("_data", "_storage", "_view", "_autograd"))


class Subclass(Tensor):
    """What every class derived from Tensor has for a base: how its objects are made from data, and copied."""

    __slots__ = ()

    def __new__(cls, data: Any = (), *args: Any, **kwargs: Any) -> Any:
        """`Meters(data)`: nested sequences and ndarrays are copied as the default dtype, a tensor is seen as this
        class; `Meters(2, 3)` names sizes."""
        if isinstance(data, Tensor):
            return as_subclass(data, cls)
        is_sizes = isinstance(data, int) and all(isinstance(a, int) for a in args)
        return as_subclass(construct(dt.get_default(), (data, *args) if is_sizes else (data,)), cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not hasattr(self, "_data"):
            raise StateError(
                f"{type(self).__name__}.__new__ gave an object without data; make it with Tensor._make_subclass or "
                "_make_wrapper_subclass"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN_NAMES and isinstance(value, Tensor):
            raise StateError(
                f"{type(self).__name__}.{name} = tensor: weft keeps what a tensor holds under this name; "
                f"use another one, such as inner{name}"
            )
        super().__setattr__(name, value)

    def __copy__(self) -> Tensor:
        with OverrideLevel(WITHOUT_CLASSES):
            out: Tensor = retyped(self._alias(share_version=True), type(self)).requires_grad_(self.requires_grad)
        out.__dict__.update(self.__dict__)
        return out


class Overriding(Subclass):
    """The base of those that public functions ask (`__weft_function__`): they are asked about properties too,
    and methods that are no operators."""

    __slots__ = ()


def retyped(source: Tensor, kind: type[Tensor]) -> Any:
    """The same bytes, storage and history as an object of another class."""
    if modes.capture is not None:
        modes.capture.outside.note_class(kind)
    if overrides.takes_over_by_now(kind):
        _take_over(kind)
    if dispatches(kind):
        out = source._data.rewrapped(source) if is_wrapper(source) else over(kind, source)
    else:
        out = object.__new__(kind)
        out._data = source._data
    out._storage, out._view = source.storage(), source._view
    state = source._autograd
    out._autograd = None
    if modes.capture is not None and is_dense(source):
        modes.capture.outside.note_alias(out, source)
    if state is not None:
        autograd = out._autograd = AutogradState(state.requires_grad, state.node, state.index)
        autograd.version = state.version
    return out


def _take_over(kind: type[Tensor]) -> None:
    """A class that was made to stay out of the way has got a `__weft_function__`."""
    overrides.note_class(kind)
    _install_guards()
    _derive(kind, Overriding)


def as_subclass(self: Tensor, cls: type[Tensor]) -> Any:
    """The tensor seen as another class: the same memory, and gradients flow on to it.
    Raises ArgumentError for what is no tensor class."""
    _check_class("as_subclass", cls)
    _ask_recorder(self, cls)
    with OverrideLevel(WITHOUT_CLASSES):
        return retyped(aten.alias(self) if self.requires_grad else self, cls)


def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
    """An object of class `cls` over the memory of `data`, without its history; a leaf that requires grad if asked."""
    _check_class("_make_subclass", cls)
    if not isinstance(data, Tensor):
        raise ArgumentError(f"_make_subclass(): argument 'data' must be Tensor, not {type(data).__name__}")
    _ask_recorder(data, cls)
    with OverrideLevel(WITHOUT_CLASSES):
        out: Tensor = retyped(data._alias(share_version=True), cls)
        return out.requires_grad_() if require_grad else out


def _ask_recorder(data: Tensor, cls: type[Tensor]) -> None:
    """Whoever records what is done with this tensor may refuse to follow it into another class."""
    refuse = getattr(type(data), "__weft_refuse_class__", None)
    if refuse is not None:
        refuse(cls)


def _check_class(what: str, cls: Any) -> None:
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise ArgumentError(f"{what}(): argument 'cls' must be a subclass of Tensor, got {cls!r}")


def default_weft_function(
    cls: type[Tensor], func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Run `func` as on plain tensors, and give its results the class `cls`. NotImplemented if a class takes part
    that `cls` does not derive from."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with OverrideLevel(WITHOUT_CLASSES):
        out = func(*args, **(kwargs or {}))
        return out if func in _KEPT else converted(out, cls, args)


# functions whose results stay the very objects that are stored # type: ignore[attr-defined]
_KEPT: set[Any] = {Tensor.grad.__get__, Tensor._base.__get__}


def converted(out: Any, cls: type[Tensor], args: tuple[Any, ...] = ()) -> Any:
    """A result, through tuples and lists, with its tensors seen as `cls`."""
    if cls is Tensor:
        return out
    if isinstance(out, Tensor):
        if isinstance(out, cls):
            return out
        return as_subclass(out, cls) if any(a is out for a in args) else retyped(out, cls)
    if isinstance(out, (tuple, list)) and any(isinstance(r, (Tensor, tuple, list)) for r in out):
        parts = [converted(r, cls, args) for r in out]
        return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)
    return out


# ---- what a new class gets
def _joined(cls: type[Tensor], **options: Any) -> None:
    """A class derived from Tensor was defined."""
    super(Tensor, cls).__init_subclass__(**options)
    if cls in _BASES:
        return
    for name, pytorchs in ((NAME, PYTORCHS), (DISPATCH, PYTORCHS_DISPATCH)):
        _take_pytorchs_name(cls, name, pytorchs)
    if dispatches(cls):
        wrapper_classes.add(cls)
        _open_slots(cls)
        # what happens below autograd is the class's business; above it stays out of the way unless it says otherwise
        if NAME not in _inherited(cls):
            cls.__weft_function__ = disabled_weft_function
    if getattr(cls, NAME) is disabled_weft_function:
        overrides.is_plain_tensor_class(cls)
        _derive(cls, Subclass)
        return
    _take_over(cls)


def _take_pytorchs_name(cls: type, name: str, pytorchs: str) -> None:
    """A handler that a class or one of its bases has under PyTorch's name is there under weft's too."""
    for base in cls.__mro__:
        if name in vars(base):
            return
        if pytorchs in vars(base):
            setattr(cls, name, vars(base)[pytorchs])
            return


def _open_slots(cls: type) -> None:
    """Attributes that a wrapper class names in `__slots__` are kept as others are, so that they go
    where its attributes go."""
    named = vars(cls).get("__slots__", ())
    for name in (named,) if isinstance(named, str) else named:
        if isinstance(vars(cls).get(name), MemberDescriptorType):
            delattr(cls, name)


_BASES: list[type] = []  # Subclass and Overriding, once they are there


def _inherited(cls: type) -> set[str]:
    """What a class and its bases below Tensor define."""
    return {name for base in cls.__mro__ if base is not Tensor and issubclass(base, Tensor) for name in vars(base)}


def _derive(cls: type, base: type[Tensor]) -> None:
    """Put `base` between a class and Tensor."""
    if issubclass(cls, base) or "__bare__" in vars(cls):
        return
    replaced = (Tensor, Subclass) if base is Overriding else (Tensor,)
    if any(b in replaced for b in cls.__bases__):
        cls.__bases__ = tuple([base if b in replaced else b for b in cls.__bases__])
    elif base is Overriding:
        cls.__bases__ = (*cls.__bases__, base)


@functools.cache
def _install_guards() -> None:
    """Put on Overriding what asks first, made from Tensor as it is once weft is imported."""
    for name in guarded_names():
        attribute = _owner_value(name)
        setattr(
            Overriding, name,
            _guarded_property(attribute) if isinstance(attribute, property) else _guarded(attribute),
        )
    for name in dir(Tensor):
        slow = getattr(_owner_value(name), "slow", None)
        if slow is not None:
            setattr(Overriding, name, slow)  # not the short way (layers/fast.py), which asks nobody


@functools.cache
def guarded_names() -> tuple[str, ...]:
    """Tensor's properties, and its methods that are no operators."""
    names = []
    for name in dir(Tensor):
        attribute = _owner_value(name)
        if name in _INTERNAL or (name.startswith("_") and not name.startswith("__")) or name.startswith("__weft"):
            continue
        if isinstance(attribute, property) or (callable(attribute) and not asks_itself(name, attribute)):
            names.append(name)
    return tuple(names)


def _owner_value(name: str) -> Any:
    for cls in Tensor.__mro__[:-1]:
        if name in vars(cls):
            return vars(cls)[name]
    return None


def asks_itself(name: str, method: Any) -> bool:
    """Whether a method of Tensor is an operator's, which asks for all of its arguments; or detach(), which asks too."""
    return (
        OperatorMethods.__dict__.get(name) is method or method is Tensor.detach or hasattr(method, "slow")
        or getattr(method, "asks", False)
    )  # fmt: skip


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def guard(*args: Any, **kwargs: Any) -> Any:
        return _ask(method, args, kwargs)

    return guard


def _guarded_property(wrapped: property) -> property:
    def get(self: Any) -> Any:
        return _ask(wrapped.__get__, (self,), {})

    def put(self: Any, value: Any) -> None:
        _ask(wrapped.__set__, (self, value), {})

    def delete(self: Any) -> None:
        _ask(wrapped.__delete__, (self,), {})

    return property(get, put if wrapped.fset else None, delete if wrapped.fdel else None, wrapped.__doc__)


def _ask(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that asks nobody, after those who are to be asked. A mode, behind which others are asked, is given
    one that asks these."""
    asked = overriding(args, kwargs)
    if asked is None:
        return func(*args, **kwargs)
    return handle(_Asking(func) if overrides.current_modes() else func, asked, args, kwargs)


class _Asking:
    """A method of Tensor, or what reads or sets a property, that asks first: equal to the one that does not."""

    __slots__ = ("func",)

    def __init__(self, func: Any) -> None:
        self.func = func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _ask(self.func, args, kwargs)

    def __eq__(self, other: object) -> bool:
        return bool(self.func == (other.func if isinstance(other, _Asking) else other))

    def __hash__(self) -> int:
        return hash(self.func)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func, name)


Tensor.__weft_function__ = classmethod(default_weft_function)
setattr(Tensor, PYTORCHS, vars(Tensor)[NAME])
Tensor.__init_subclass__ = classmethod(_joined)  # type: ignore
Tensor.as_subclass = as_subclass  # type: ignore
Tensor._make_subclass = staticmethod(_make_subclass)
overrides.is_plain_tensor_class(Tensor)
_BASES += [Subclass, Overriding]
