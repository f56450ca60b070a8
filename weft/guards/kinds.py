"""What sort of thing a Python object is to a guard: the small protocol through which Tensor,
Module and the rest are known here."""

from __future__ import annotations

import array
import contextvars
import enum
import functools
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final

import numpy as np

from weft.guards.asked import IN_MEMORY, is_buffer, is_fixed
from weft.guards.origin import Origins
from weft.guards.values import SCALARS, has_attributes, is_list_of_numbers, number_kind
from weft.support import pytree


class Kind(enum.Enum):
    """How a value is guarded, and what may be read from it."""

    SCALAR = "compared by value, never opened: plain values, and subclasses of theirs without attributes"
    TUPLE = "compared by value; its elements are reached"
    LEAF = "compared by identity, never opened: tensors and generators of weft"
    OPTIMIZER = "an optimizer of weft: identity, and the parameter groups where the user's code reads them"
    SYMBOL = "a stand-in for a lifted number: no guard of its own"
    OWN = "what weft keeps in the attributes of the user's objects: no guard"
    MODULE = "identity, training flag, submodules, parameters, hooks, forward"
    LIST = "list or deque"
    DICT = "dict"
    SET = "set"
    FUNCTION = "Python function: code and defaults"
    METHOD = "bound method"
    BUILTIN = "builtin function, or builtin method of an object that is reached"
    PARTIAL = "functools.partial"
    REFERENCE = "weak reference: what it refers to"
    CLASS = "class"
    NAMESPACE = "Python module"
    ARRAY = "NumPy array: content"
    BUFFER = "bytearray, array.array, memoryview: content"
    VIEW = "view of a dict (mappingproxy, dict.keys()): what it shows"
    VARIABLE = "context variable: its value"
    CACHE = "function behind functools.lru_cache: what its cache holds"
    RANDOM = "random generator of Python's or NumPy's: state"
    ITERATOR = "iterator written in C, or generator: position"
    OPAQUE = "object written in C that may change: what it holds, where that can be told, and its attributes"
    INSTANCE = "object with attributes"
    OTHER = "compared by identity, nothing to read"

    __hash__ = (
        object.__hash__
    )  # Enum's own is Python code, and every event of the profile hook asks whether a kind is in a set


_VALUES: Final = (int, float, complex, str, bytes)
CONTAINERS: Final = frozenset({Kind.LIST, Kind.DICT, Kind.SET})
BORING: Final = frozenset({Kind.SCALAR, Kind.LEAF, Kind.SYMBOL, Kind.OWN, Kind.OTHER})

_BY_BASE: Final[tuple[tuple[Any, Kind], ...]] = (
    ((*SCALARS, np.generic, np.dtype), Kind.SCALAR),
    ((tuple, frozenset), Kind.TUPLE),
    ((list, deque), Kind.LIST),
    (dict, Kind.DICT),
    (set, Kind.SET),
    (types.FunctionType, Kind.FUNCTION),
    (types.MethodType, Kind.METHOD),
    ((types.BuiltinFunctionType, types.MethodWrapperType), Kind.BUILTIN),
    (functools.partial, Kind.PARTIAL),
    (weakref.ref, Kind.REFERENCE),
    (type, Kind.CLASS),
    (types.ModuleType, Kind.NAMESPACE),
    (np.ndarray, Kind.ARRAY),
    ((bytearray, array.array, memoryview), Kind.BUFFER),
    ((types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items())), Kind.VIEW),
    (contextvars.ContextVar, Kind.VARIABLE),
    (type(functools.lru_cache(len)), Kind.CACHE),
)


def _generators() -> tuple[type, ...]:
    """The classes of random generators, once they have been loaded: nobody has one of them before, and a first
    compilation need not load NumPy's."""
    python = (sys.modules["random"].Random,) if "random" in sys.modules else ()
    if "numpy.random" not in sys.modules:
        return python
    return (*python, np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence)


def is_changeable(cls: type) -> bool:
    """Whether attributes of the class can be assigned: it was made by a class statement, not in C."""
    return bool(cls.__flags__ & 1 << 9) and not cls.__flags__ & 1 << 8  # Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_IMMUTABLETYPE


def _never(leaf: Any) -> bool:
    return False


def _says(leaf: Any, name: str) -> bool:
    return bool(getattr(leaf, name))


def _no_number(symbol: Any) -> int | None:
    return None


@dataclass
class Kinds:
    """The classes that the guards must know. Everything is a tuple of classes for isinstance.

    leaves: identity only, never opened (Tensor, Generator); said_by_leaves: attributes of theirs that are true or not
    (requires_grad), and says: what such an attribute was when the call began; optimizers: weft's own; modules:
    nn.Module; equal: compared by == (DType, Device, operators); symbols: stand-ins for lifted numbers (SymInt,
    SymFloat), and number_of: the number of one that is from outside of the call, None for the call's own; own: of what
    weft keeps in the attributes of the user's objects; by_epoch: classes of which every attribute write, and every
    change of a Module's own dicts (registration, a hook's removal), bumps the epoch; made: classes whose objects the
    call itself makes, through weft (the context of a custom Function), unless a chain of reads leads to them;
    is_recorded: whether a leaf is the call's own, an argument's stand-in or a result; transparent: the code of
    functions that the user's code calls in place of Python's own; inputs: classes whose objects a program can take anew
    at every call (Tensor); questions: functions without arguments, by module and name, that are asked again at every
    call, and inner_questions: those that count where weft's own code asks too, on behalf of the user's; open_packages:
    modules of weft whose code calls functions by names that users replace.
    """

    leaves: tuple[type, ...] = ()
    said_by_leaves: tuple[str, ...] = ()
    says: Callable[[Any, str], bool] = _says
    optimizers: tuple[type, ...] = ()
    modules: tuple[type, ...] = ()
    equal: tuple[type, ...] = ()
    symbols: tuple[type, ...] = ()
    own: tuple[type, ...] = ()
    number_of: Callable[[Any], int | None] = _no_number
    by_epoch: tuple[type, ...] = ()
    made: tuple[type, ...] = ()
    is_recorded: Callable[[Any], bool] = _never
    transparent: frozenset[CodeType] = frozenset()
    inputs: tuple[type, ...] = ()
    questions: Mapping[tuple[str, str], Callable[..., Any]] = field(default_factory=dict)
    inner_questions: tuple[Callable[..., Any], ...] = ()
    open_packages: tuple[str, ...] = ()
    origins: Origins = field(default_factory=Origins)
    by_class: dict[type, Kind] = field(default_factory=dict, repr=False)

    def of(self, value: object) -> Kind:
        """The Kind of a value, by its class alone."""
        cls = type(value)
        kind = self.by_class.get(cls)
        if kind is None:
            kind = self.by_class[cls] = self._judge(cls, value)
        return kind

    def _judge(self, cls: type, value: object) -> Kind:
        has_own = issubclass(cls, enum.Enum) or (issubclass(cls, _VALUES) and has_attributes(cls))
        if has_own and not issubclass(cls, (*self.symbols, *self.leaves, *self.equal)):
            return Kind.INSTANCE
        for classes, kind in (
            (self.symbols, Kind.SYMBOL),
            (self.own, Kind.OWN),
            (self.leaves, Kind.LEAF),
            (self.optimizers, Kind.OPTIMIZER),
            (self.modules, Kind.MODULE),
            (self.equal, Kind.SCALAR),
            *_BY_BASE,
            (_generators(), Kind.RANDOM),
        ):
            if issubclass(cls, classes):
                return kind
        if hasattr(cls, "__next__") and not is_changeable(cls) and not issubclass(cls, IN_MEMORY):
            return Kind.ITERATOR
        if is_buffer(value):
            return Kind.BUFFER
        may_have_any = (
            "__dict__" in dir(cls) or issubclass(cls, threading.local)
            or any("__slots__" in c.__dict__ for c in cls.__mro__)
        )
        return Kind.INSTANCE if may_have_any else Kind.OTHER if is_fixed(cls) else Kind.OPAQUE

    def can_lift(self, old: object, new: object) -> bool:
        """Whether a place that held one value and holds another now can be an input: both are numbers, or lists of as
        many, or both hold tensors."""
        if number_kind(old) and number_kind(new):
            return True
        if not self.inputs:
            return False
        if is_list_of_numbers(old) and is_list_of_numbers(new):
            return True
        return self.holds_input(old) and self.holds_input(new)

    def holds_input(self, value: object) -> bool:
        """Whether a value is, or holds in containers, what a program can take anew at every call."""
        if type(value) in weakref.ProxyTypes:  # which may be dead
            return False
        return any(isinstance(leaf, self.inputs) for leaf in pytree.flatten(value)[0])

    def is_structure(self, name: str) -> bool:
        """Whether an attribute of a Module holds its structure (parameters, submodules, hooks),
        so that its entries are guarded."""
        return name in ("_parameters", "_buffers", "_modules") or (name.endswith("_hooks") and "state_dict" not in name)


def parts_of(kind: Kind, value: Any, text: str) -> Iterator[tuple[Any, str]]:
    """What an object of a kind leads to at once, each with its text."""
    if kind is Kind.TUPLE:
        yield from ((item, f"{text}[{i}]") for i, item in enumerate(value))
    elif kind is Kind.METHOD:
        yield from ((value.__func__, text), (value.__self__, f"{text}.__self__"))
    elif kind is Kind.REFERENCE:
        yield (value(), f"{text}()")
    elif kind is Kind.BUILTIN and value.__self__ is not None:
        yield (value.__self__, text)
    elif kind is Kind.PARTIAL:
        yield from ((value.func, f"{text}.func"), (value.args, f"{text}.args"))


def pointed_to(value: Any) -> Iterator[Any]:
    """What a pointer of ctypes points to; nothing for anything else."""
    ctypes = sys.modules.get("_ctypes")
    if ctypes is not None and isinstance(value, ctypes._Pointer) and value:
        yield value.contents


def content_of_cell(cell: Any) -> Any:
    """What a closure's cell holds; None for an empty one."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
