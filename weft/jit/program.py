"""A compiled function: its graph, its signature, and what the graph refers to by name: other functions, tensors,
Python's functions.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.ir.graph import Graph
from weft.jit.errors import made
from weft.jit.script.annotations import CLASSES, ENUMERATIONS, INTERFACES
from weft.support import limits, registry
from weft.support.memo import Memo
from weft.tensor.device import Device
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.dtype import DType
from weft.types.sym import fits
from weft.types.tensor_type import (
    ClassType,
    DictType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    members_of,
)

MISSING = object()


@dataclass(frozen=True)
class Parameter:
    """One argument: its name, type, default (MISSING if it has none), whether it must be given by name, and how often
    one element stands in a list (0: lists only).
    """

    name: str
    type: Type
    default: Any = MISSING
    keyword_only: bool = False
    repeats: int = 0

    def __str__(self) -> str:
        return f"{self.type} {self.name}" + ("" if self.default is MISSING else f"={self.default!r}")


@dataclass
class Program:
    """One function that has been compiled."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    returns: Type = tt.NONE
    graph: Graph | None = None
    functions: dict[str, Program] = field(default_factory=dict)  # those that it calls
    captured: dict[str, Any] = field(default_factory=dict)  # tensors that it closes over
    python: dict[str, Any] = field(default_factory=dict)  # Python's functions that it calls
    document: str = ""
    text: str = ""  # the source, for people
    code: Any = None  # what runs it, made when it is first run
    recording_code: Any = None  # the same, where it is captured
    # by the kinds of arguments (executor/plans.py)
    plans: Memo[Any, Any] = field(default_factory=lambda: Memo(limits.PLANS_OF_A_SCRIPT), init=False)
    last_plan: Any = None
    has_plans: bool | None = None
    outside: list[Any] | None = None  # what it took as constants; None where nobody could compile it again
    forget: Callable[[], object] | None = None  # takes it from where programs that were compiled are found
    whole: tuple[Program, ...] | None = None  # itself and those that it calls

    def __reduce__(self) -> Any:
        raise pickle.PicklingError(
            f"the scripted program {self.name!r} cannot be pickled; write it into a file: weft.jit.save(program, path)"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        return self  # copies of Modules and objects run the same programs

    __hash__ = object.__hash__

    def schema(self) -> str:
        """`f(Tensor x, int n=3) -> Tensor`."""
        shown = [str(p) for p in self.parameters]
        first = next((i for i, p in enumerate(self.parameters) if p.keyword_only), None)
        if first is not None:
            shown.insert(first, "*")
        return f"{self.name.rpartition('.')[2]}({', '.join(shown)}) -> {self.returns}"

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Arguments in order, with defaults, checked against their types. Raises TypeError, RuntimeError (an Error)."""
        positional = [p for p in self.parameters if not p.keyword_only]
        if len(args) > len(positional):
            raise self._refused(
                TypeError, f"expected at most {len(positional)} argument(s) but received {len(args)} argument(s)"
            )
        arguments: dict[str, Any] = {p.name: a for p, a in zip(positional, args, strict=False)}
        for name, value in kwargs.items():
            if name in arguments:
                raise self._refused(TypeError, f"got multiple values for argument {name!r}")
            if all(p.name != name for p in self.parameters):
                raise self._refused(TypeError, f"Unknown keyword argument {name!r}")
            arguments[name] = value
        return [self._argument(p, arguments.get(p.name, MISSING)) for p in self.parameters]

    def _argument(self, parameter: Parameter, value: Any) -> Any:
        if value is MISSING:
            if parameter.default is MISSING:
                raise self._refused(TypeError, f"is missing value for argument {parameter.name!r}")
            return parameter.default
        if parameter.repeats and not isinstance(value, (list, tuple)):
            value = [value] * parameter.repeats
        converted = accepted(value, parameter.type)
        if converted is MISSING:
            raise self._refused(
                TypeError,
                f"expected a value of type {parameter.type} for argument {parameter.name!r} but instead found type "
                f"{_kind(value)}",
            )
        return _own(converted)

    def _refused(self, kind: type[Exception], problem: str) -> Exception:
        return made(kind, f"{self.name.rpartition('.')[2]}() {problem}. Declaration: {self.schema()}", None)


registry.program_classes.append(Program)


def _own(value: Any) -> Any:
    """An argument whose lists and dicts are the program's own, those within it, too: the caller's stay as they are."""
    kind = type(value)
    if kind is list:
        return [_own(v) if type(v) in _CONTAINERS else v for v in value]
    if kind is dict:
        return {k: _own(v) if type(v) in _CONTAINERS else v for k, v in value.items()}
    return tuple([_own(v) for v in value]) if kind is tuple else value


_CONTAINERS = (list, dict, tuple)


def _kind(value: Any) -> str:
    if type(value) is int and not fits(value):
        return "int, beyond the 64 bits that an int of a program has"
    return f"{type(value).__name__}"


def has_type(value: Any, kind: Type) -> bool:
    """Whether a value is of a type as it stands, without conversion; a list with its elements."""
    if isinstance(kind, OptionalType):
        return value is None or has_type(value, kind.inner)
    if isinstance(kind, UnionType):
        return any(has_type(value, m) for m in kind.members)
    if isinstance(kind, ListType):
        return isinstance(value, list) and all(has_type(v, kind.element) for v in value)
    if isinstance(kind, DictType):
        pairs = value.items() if isinstance(value, dict) else ()
        return isinstance(value, dict) and all(has_type(k, kind.key) and has_type(v, kind.value) for k, v in pairs)
    if isinstance(kind, TupleType):
        same = isinstance(value, tuple) and len(value) == len(kind.elements)
        return same and all(map(has_type, value, kind.elements))
    if isinstance(kind, TensorType):
        return isinstance(value, Tensor)
    if isinstance(kind, ClassType):
        return is_object_of(value, kind)
    if kind is tt.NUMBER:
        return any(has_type(value, m) for m in members_of(kind))
    classes = _CLASSES.get(kind)
    return classes is None or type(value) is classes[0] or (kind is tt.INT and hasattr(value, "__weft_integer__"))


_CLASSES: dict[Type, tuple[type, ...]] = {
    tt.INT: (int,),
    tt.FLOAT: (float, int),
    tt.BOOL: (bool,),
    tt.COMPLEX: (complex, float, int),
    tt.STR: (str,),
    tt.NONE: (type(None),),
    tt.NUMBER: (int, float, complex),
    tt.DTYPE: (DType,),
    tt.DEVICE: (str,),
    tt.LAYOUT: (str,),
}


_INTEGERS = (tt.INT, tt.NUMBER)

_MADE_OF: dict[Type, Callable[[Any], Any]] = {tt.COMPLEX: complex, tt.DEVICE: Device}  # what other types stand for


def accepted(value: Any, kind: Type) -> Any:
    """The value as one of the type, or MISSING if it is none. An int counts as a float, a tensor with one element as a
    number.
    """
    if isinstance(kind, TensorType):
        return value if isinstance(value, Tensor) else MISSING
    if isinstance(kind, OptionalType):
        return None if value is None else accepted(value, kind.inner)
    if isinstance(kind, UnionType):
        return value if has_type(value, kind) else next((f for f in _tried(value, kind) if f is not MISSING), MISSING)
    if isinstance(kind, ListType):
        return _all_accepted(value, kind.element) if isinstance(value, (list, tuple, range)) else MISSING
    if isinstance(kind, TupleType):
        return _tuple_accepted(value, kind)
    if isinstance(kind, DictType):
        return _dict_accepted(value, kind)
    if isinstance(kind, ClassType):
        return value if is_object_of(value, kind) else MISSING
    return _number_accepted(value, kind)


def is_object_of(value: Any, kind: ClassType) -> bool:
    """Whether a value is an object of a class; of classes that nobody knows (Modules have one each), any is."""
    cls = CLASSES.get(kind.name) or ENUMERATIONS.get(kind.name)
    if cls in INTERFACES:
        return all(callable(getattr(value, n, None)) for n, raw in vars(cls).items() if inspect.isfunction(raw))
    return cls is None or isinstance(value, cls) or getattr(type(value), "__weft_type__", None) == kind.name


def _tried(value: Any, kind: UnionType) -> Iterator[Any]:
    return (accepted(value, m) for m in kind.members)


def _number_accepted(value: Any, kind: Type) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is int and kind in _INTEGERS and not fits(value):
        return MISSING
    classes = _CLASSES.get(kind)
    if classes is None or (isinstance(value, classes) and (kind is not tt.INT or not isinstance(value, bool))):
        if kind in _MADE_OF:
            return _MADE_OF[kind](value)
        return float(value) if kind is tt.FLOAT and type(value) in (int, bool) else value
    if kind in (tt.INT, tt.FLOAT, tt.BOOL) and isinstance(value, Tensor) and value.numel() == 1:
        return {tt.INT: int, tt.FLOAT: float, tt.BOOL: bool}[kind](value)
    if kind is tt.INT and isinstance(value, bool):
        return int(value)
    return value if hasattr(type(value), "__weft_number__") else MISSING


def _all_accepted(values: Any, kind: Type) -> Any:
    if type(values) is list and kind not in _MADE_OF and set(map(type, values)) <= {_CLASSES.get(kind, (None,))[0]}:
        if kind is tt.INT and values and not (fits(min(values)) and fits(max(values))):
            return MISSING
        return values
    converted = [bool(v) if kind is tt.BOOL and type(v) is int else accepted(v, kind) for v in values]
    if any(f is MISSING for f in converted):
        return MISSING
    same = type(values) is list and all(f is v for f, v in zip(converted, values, strict=True))
    return values if same else converted


def _tuple_accepted(value: Any, kind: TupleType) -> Any:
    if not isinstance(value, (tuple, list)) or len(value) != len(kind.elements):
        return MISSING
    converted = [accepted(v, k) for v, k in zip(value, kind.elements, strict=True)]
    if any(f is MISSING for f in converted):
        return MISSING
    return (
        value if isinstance(value, tuple) and all(f is v for f, v in zip(converted, value, strict=True))
        else tuple(converted)
    )


def _dict_accepted(value: Any, kind: DictType) -> Any:
    if not isinstance(value, dict):
        return MISSING
    converted = {accepted(k, kind.key): accepted(v, kind.value) for k, v in value.items()}
    if MISSING in converted or any(v is MISSING for v in converted.values()):
        return MISSING
    return value if all(converted.get(k) is v for k, v in value.items()) else converted
